//! A change of the `.proto` files breaks no client that is out there.
//!
//! The baseline is what was published last. Additions pass; `SKILLOPT_BLESS=1` writes them into the
//! baseline. Whatever breaks a client fails, and is blessed only with `SKILLOPT_BREAK=1` as well.

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use skillopt_proto::v1::DESCRIPTORS;

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline/skillopt.v1.bin");

/// Everything a client relies on, by name: what it is, in words that must not change.
fn promises(set: &FileDescriptorSet) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for file in &set.file {
        let package = file.package();
        for message in &file.message_type {
            take_message(&mut found, package, message);
        }
        for list in &file.enum_type {
            take_enum(&mut found, package, list);
        }
        for service in &file.service {
            let name = format!("{package}.{}", service.name());
            found.insert(name.clone(), "service".to_owned());
            for method in &service.method {
                let stream = |is: bool| if is { "stream " } else { "" };
                let words = format!(
                    "rpc {}{} -> {}{}",
                    stream(method.client_streaming()),
                    method.input_type(),
                    stream(method.server_streaming()),
                    method.output_type()
                );
                found.insert(format!("{name}/{}", method.name()), words);
            }
        }
    }
    found
}

fn take_message(found: &mut BTreeMap<String, String>, package: &str, message: &DescriptorProto) {
    let name = format!("{package}.{}", message.name());
    found.insert(name.clone(), "message".to_owned());
    for field in &message.field {
        // JSON and text forms use the name, the wire the number.
        let choice = field.oneof_index.filter(|_| !field.proto3_optional());
        let words = format!(
            "field `{}` {:?} {:?} {} {:?} {choice:?}",
            field.name(),
            field.r#type(),
            field.label(),
            field.type_name(),
            field.proto3_optional
        );
        found.insert(format!("{name}#{}", field.number()), words);
    }
    for inner in &message.nested_type {
        take_message(found, &name, inner);
    }
    for list in &message.enum_type {
        take_enum(found, &name, list);
    }
}

fn take_enum(found: &mut BTreeMap<String, String>, package: &str, list: &EnumDescriptorProto) {
    let name = format!("{package}.{}", list.name());
    found.insert(name.clone(), "enum".to_owned());
    for value in &list.value {
        let words = format!("value `{}`", value.name());
        found.insert(format!("{name}#{}", value.number()), words);
    }
}

/// Returns what `new` breaks of `old`.
fn broken(old: &FileDescriptorSet, new: &FileDescriptorSet) -> Vec<String> {
    let new = promises(new);
    promises(old)
        .into_iter()
        .filter_map(|(name, was)| match new.get(&name) {
            Some(is) if *is == was => None,
            Some(is) => Some(format!("{name} was {was}, is {is}")),
            None => Some(format!("{name} ({was}) is gone")),
        })
        .collect()
}

/// Leaves comments out: they promise nothing.
fn bare(set: &FileDescriptorSet) -> FileDescriptorSet {
    let mut set = set.clone();
    for file in &mut set.file {
        file.source_code_info = None;
    }
    set
}

fn now() -> FileDescriptorSet {
    FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors of ours")
}

#[test]
fn no_client_is_broken() {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let new = bare(&now());
    let path = Path::new(BASELINE);
    let old = match std::fs::read(path) {
        Ok(bytes) => FileDescriptorSet::decode(bytes.as_slice()).unwrap(),
        Err(_) => FileDescriptorSet::default(),
    };
    let broken = broken(&old, &new);
    let may_break = is_set("SKILLOPT_BREAK");
    assert!(
        broken.is_empty() || (is_set("SKILLOPT_BLESS") && may_break),
        "clients of the last release would break:\n{}\nadd a field or a method instead; only if \
         nobody can have the old one: SKILLOPT_BLESS=1 SKILLOPT_BREAK=1",
        broken.join("\n")
    );
    if is_set("SKILLOPT_BLESS") {
        std::fs::write(path, new.encode_to_vec()).unwrap();
        return;
    }
    let added: Vec<String> = {
        let old = promises(&old);
        let names = promises(&new).into_keys();
        names.filter(|name| !old.contains_key(name)).collect()
    };
    assert!(
        added.is_empty(),
        "not in the baseline yet, so a later change of them would not be seen: {added:?}; run this \
         test with SKILLOPT_BLESS=1"
    );
}

#[test]
fn every_kind_of_break_is_seen_and_additions_are_not() {
    let old = now();
    type Change = fn(&mut FileDescriptorSet);
    let changes: [(&str, Change, bool); 8] = [
        ("nothing", |_| {}, false),
        (
            "new field",
            |set| {
                let message = &mut set.file[0].message_type[0];
                let mut field = message.field.first().cloned().unwrap_or_default();
                field.number = Some(99);
                field.name = Some("later".to_owned());
                message.field.push(field);
            },
            false,
        ),
        (
            "field removed",
            |set| drop(set.file[0].message_type[0].field.pop()),
            true,
        ),
        (
            "field renumbered",
            |set| {
                set.file[0].message_type[0].field[0].number = Some(77);
            },
            true,
        ),
        (
            "field retyped",
            |set| {
                set.file[0].message_type[0].field[0]
                    .set_type(prost_types::field_descriptor_proto::Type::Bool);
            },
            true,
        ),
        (
            "field renamed",
            |set| {
                set.file[0].message_type[0].field[0].name = Some("other".to_owned());
            },
            true,
        ),
        (
            "method removed",
            |set| drop(set.file[0].service[0].method.pop()),
            true,
        ),
        (
            "service removed",
            |set| drop(set.file[0].service.pop()),
            true,
        ),
    ];
    for (name, change, breaks) in changes {
        let mut new = old.clone();
        change(&mut new);
        let found = broken(&old, &new);
        assert_eq!(!found.is_empty(), breaks, "{name}: {found:?}");
    }
}
