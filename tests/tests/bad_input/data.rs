//! Items and splits.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skillopt_tests::support::{Sim, World, folder};

use crate::refused;

const TRAIN: &str = "data/train/items.json";

/// Changes the train items of a world.
fn with_items(change: impl FnOnce(&mut Vec<Value>)) -> World {
    let world = World::new();
    let mut items = world.json(TRAIN);
    change(items.as_array_mut().expect("items are a list"));
    world.write(TRAIN, items.to_string());
    world
}

/// Gives the second train item this id.
#[track_caller]
fn check_id(id: Value, words: &[&str]) {
    let world = with_items(|items| items[1]["id"] = id);
    refused(&world, &[], &[&[TRAIN], words].concat());
}

#[test]
fn ids_must_be_unique_short_and_there() {
    check_id(json!("train-00000"), &["`train-00000` occurs twice"]);
    check_id(json!("val-00000"), &["`val-00000` is also in", "val"]);
    check_id(json!(""), &["item 2 has an empty `id`"]);
    check_id(json!(" \t"), &["item 2"]);
    check_id(json!(null), &["item 2", "`id`"]);
    check_id(
        json!("x".repeat(10_000)),
        &["item 2", "10000 bytes", "the limit is 512"],
    );
    check_id(json!("a\nb"), &["item 2", "control characters"]);
}

#[test]
fn an_item_without_a_question_is_named() {
    let world = with_items(|items| _ = items[2].as_object_mut().unwrap().remove("question"));
    refused(&world, &[], &["train-00002", "question"]);
}

/// Replaces the train file.
#[track_caller]
fn check_file(content: &[u8], words: &[&str]) {
    let world = World::new();
    world.write(TRAIN, content);
    refused(&world, &[], &[&["train"], words].concat());
}

#[test]
fn a_split_must_be_whole_json_with_items() {
    check_file(b"", &["the file is empty"]);
    check_file(b" \n", &["the file is empty"]);
    check_file(b"[]", &["train"]);
    check_file(b"no items today\n", &["line 1"]);
    check_file(b"{\"id\": \"a\"}\n", &["expected a JSON array"]);
    check_file(
        b"[{\"id\": \"a\", \"question\": \"q\"},\n {\"id\": \"b\", \"ques",
        &["line 2"],
    );
    check_file(b"[{\"id\": \"a\", \"question\": \"\xff\xfe\"}]", &["UTF-8"]);
    check_file(b"[1, 2]", &["item 1 is a number"]);
    check_file(&b"[".repeat(200_000), &["line 1"]);
}

#[test]
fn a_folder_without_a_split_is_named() {
    let world = World::new();
    std::fs::remove_dir_all(world.path("data/val")).unwrap();
    refused(&world, &[], &["no folder `val`"]);
    refused(&world, &["--set", "env.split_dir=nowhere"], &["nowhere"]);
}

#[test]
fn line_ends_of_other_systems_change_nothing() {
    let sim = Sim::start(&[]);
    let lines = |end: &str| {
        let world = World::new();
        for part in ["train", "val", "test"] {
            let path = format!("data/{part}/items.json");
            let items = world.json(&path);
            let items = items.as_array().expect("items are a list");
            let lines: String = items.iter().map(|item| format!("{item}{end}")).collect();
            std::fs::remove_file(world.path(&path)).unwrap();
            world.write(&format!("{path}l"), lines);
        }
        world
    };
    let (unix, windows) = (lines("\n"), lines("\r\n"));
    let left = unix.trained("out", &sim.url(), &[]);
    let right = windows.trained("out", &sim.url(), &[]);
    folder::same(&left, &right);
}

#[test]
fn ids_that_look_like_paths_stay_in_the_run_folder() {
    let ids = [
        "../../../outside",
        "/outside",
        "..",
        ".",
        "a/../../b",
        "con",
        "é/ü",
        "%2E",
        "~",
    ];
    let world = with_items(|items| {
        for (item, id) in items.iter_mut().zip(ids) {
            item["id"] = id.into();
        }
    });
    let sim = Sim::start(&[]);
    let run = world.trained("out", &sim.url(), &[]);
    let beside: BTreeSet<String> = std::fs::read_dir(world.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = ["config.yaml", "data", "out"].map(str::to_owned);
    assert_eq!(
        beside,
        BTreeSet::from(expected),
        "nothing was written elsewhere"
    );
    let rows: String = folder::rows(&run).into_values().flatten().collect();
    for id in ids {
        assert!(
            rows.contains(&json!(id).to_string()),
            "`{id}` was rolled out"
        );
    }
    // Every item has a folder of its own: conversations of one epoch are as many as its items.
    let conversations = folder::files(&run)
        .into_keys()
        .filter(|name| name.starts_with("steps/step_000") && name.ends_with("conversation.json"))
        .filter(|name| name.contains("/rollout/"))
        .collect::<Vec<_>>();
    assert_eq!(conversations.len(), 2 * 24, "{conversations:?}");
}
