//! Who may use whom. The table of ARCHITECTURE.md is the rule; these tests keep it true.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::{Crate, crates, read};
use crate::module_tree::{Tree, target_roots};
use crate::none_of;
use crate::paths::shown;

/// Crates that may name implementations: each its own, and those that put a program together.
const COMPOSERS: &[&str] = &["cli", "tests", "xtask"];

/// Implementations behind a seam, and the crate that has them.
const IMPLEMENTATIONS: &[(&str, &str)] = &[
    ("SqliteStore", "queue"),
    ("MemoryStore", "queue"),
    ("EmbeddedQueue", "queue"),
    ("openai_compatible::", "backends"),
    ("skillopt_sim", "sim"),
];

fn named(name: &str) -> Crate {
    let found = crates().into_iter().find(|krate| krate.name == name);
    found.unwrap_or_else(|| panic!("no crate `{name}`"))
}

/// Reads the table under `## Dependencies`: crate, then the crates of ours that it uses.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("ARCHITECTURE.md");
    let after = page
        .split_once("\n## Dependencies\n")
        .expect("a part `Dependencies`")
        .1;
    let part = after.split("\n## ").next().unwrap_or_default();
    let cells = |line: &str| -> Vec<Vec<String>> {
        let ticked = |cell: &str| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        line.trim_matches('|').split('|').map(ticked).collect()
    };
    let rows = part
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(cells);
    rows.filter_map(|row| {
        let name = row.first()?.first()?.clone();
        Some((name, row.get(1)?.iter().cloned().collect()))
    })
    .collect()
}

#[test]
fn the_table_of_dependencies_is_true() {
    let table = table();
    let mut wrong = Vec::new();
    for krate in crates() {
        let real: BTreeSet<String> = krate.ours_in("dependencies").into_iter().collect();
        match table.get(&krate.name) {
            None => wrong.push(format!("`{}` has no row", krate.name)),
            Some(said) if *said != real => {
                wrong.push(format!(
                    "`{}` uses {real:?}, the table says {said:?}",
                    krate.name
                ));
            }
            Some(_) => {}
        }
    }
    let known: BTreeSet<String> = crates().into_iter().map(|krate| krate.name).collect();
    wrong.extend(
        table
            .keys()
            .filter(|name| !known.contains(*name))
            .map(|n| format!("no crate `{n}`")),
    );
    none_of(
        "the table in ARCHITECTURE.md differs from the Cargo.toml files",
        &wrong,
    );
}

#[test]
fn core_is_pure() {
    let core = named("core");
    let mut wrong = core.ours_in("dependencies");
    wrong.extend(core.ours_in("dev-dependencies"));
    let outside = [
        "tokio",
        "async-trait",
        "futures-util",
        "hyper",
        "rusqlite",
        "nix",
        "tempfile",
    ];
    let uses = core.names_in("dependencies");
    wrong.extend(
        uses.into_iter()
            .filter(|name| outside.contains(&name.as_str())),
    );
    let words = [
        "async fn",
        "std::fs",
        "std::env",
        "std::net",
        "std::process",
        "std::thread",
        "SystemTime",
        "Instant",
        "HashMap",
        "HashSet",
    ];
    wrong.extend(places_of(&core, &words));
    none_of(
        "`core` knows no crate of ours, no I/O, no clock, no async, no unordered maps",
        &wrong,
    );
}

#[test]
fn nobody_knows_whom_they_must_not_know() {
    let forbidden = [
        ("worker", "coordinator"),
        ("coordinator", "worker"),
        ("coordinator", "backends"),
        ("coordinator", "sim"),
        ("backends", "queue"),
        ("backends", "benchmarks"),
        ("benchmarks", "queue"),
        ("queue", "config"),
        ("queue", "backends"),
        ("config", "runtime"),
        ("runtime", "core"),
        ("sim", "queue"),
        ("sim", "benchmarks"),
    ];
    let mut wrong = Vec::new();
    for (user, used) in forbidden {
        if named(user)
            .ours_in("dependencies")
            .iter()
            .any(|name| name == used)
        {
            wrong.push(format!("`{user}` uses `{used}`"));
        }
    }
    for krate in crates() {
        let uses = krate.ours_in("dependencies");
        let programs = uses
            .iter()
            .filter(|name| COMPOSERS.contains(&name.as_str()));
        wrong.extend(programs.map(|name| format!("`{}` uses `{name}`", krate.name)));
    }
    none_of("these must not know each other", &wrong);
}

#[test]
fn only_the_composition_root_chooses_implementations() {
    let mut wrong = Vec::new();
    for krate in crates()
        .iter()
        .filter(|krate| !COMPOSERS.contains(&krate.name.as_str()))
    {
        for (word, owner) in IMPLEMENTATIONS
            .iter()
            .filter(|(_, owner)| *owner != krate.name)
        {
            let places = places_of(krate, &[word]);
            wrong.extend(
                places
                    .into_iter()
                    .map(|place| format!("{place} (of `{owner}`)")),
            );
        }
    }
    none_of("only `cli` chooses implementations; take the trait", &wrong);
}

/// Returns where the library or program of a crate names one of `words`, tests left out.
fn places_of(krate: &Crate, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for root in target_roots(&krate.dir) {
        if !root.starts_with(krate.dir.join("src")) {
            continue;
        }
        let modules = Tree::read(&root).modules.into_values();
        for module in modules.filter(|module| !module.is_test) {
            for (number, line) in module.code.lines().enumerate() {
                let hits = words.iter().filter(|word| line.contains(**word));
                let place = |word| format!("{}:{}: `{word}`", shown(&module.file), number + 1);
                found.extend(hits.map(place));
            }
        }
    }
    found
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for krate in crates() {
        let text: String = crate::paths::with_extension(&krate.dir, "rs")
            .iter()
            .filter_map(|file| std::fs::read_to_string(file).ok())
            .collect();
        let names = [
            krate.names_in("dependencies"),
            krate.names_in("dev-dependencies"),
        ]
        .concat();
        let missing = names
            .into_iter()
            .filter(|name| !text.contains(&name.replace('-', "_")));
        unused.extend(missing.map(|name| format!("{}/Cargo.toml: {name}", krate.name)));
    }
    none_of("no source file names these dependencies", &unused);
}

#[test]
fn every_crate_takes_the_lints_and_versions_of_the_workspace() {
    let mut wrong = Vec::new();
    for krate in crates() {
        if !krate.has("lints", "workspace = true") {
            wrong.push(format!(
                "{}/Cargo.toml: [lints] workspace = true",
                krate.name
            ));
        }
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for name in krate.names_in(section) {
                let manifest = read(&format!("{}/Cargo.toml", krate.name));
                let line = manifest.lines().find(|line| {
                    line.strip_prefix(&name)
                        .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
                });
                if !line.is_some_and(|line| line.contains("workspace")) {
                    wrong.push(format!(
                        "{}/Cargo.toml: {name} has a version of its own",
                        krate.name
                    ));
                }
            }
        }
    }
    none_of(
        "lints and versions stand in one place, the root Cargo.toml",
        &wrong,
    );
}
