//! Words that must not stand in the repository.

use crate::manifest::{read, root};
use crate::none_of;
use crate::paths::{files, shown, with_extension};
use crate::source::code_only;

#[test]
fn nothing_is_left_undone_or_switched_off() {
    let words = [
        "todo!",
        "unimplemented!",
        concat!("#[", "ignore"),
        concat!("assert!", "(true"),
        "dbg!(",
    ];
    let mut found = Vec::new();
    for file in with_extension(&root(), "rs") {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        for (number, line) in code_only(&text).lines().enumerate() {
            let hits = words.iter().filter(|word| line.contains(**word));
            found.extend(hits.map(|word| format!("{}:{}: {word}", shown(&file), number + 1)));
        }
    }
    none_of(
        "not in this repository; assert today's behaviour instead",
        &found,
    );
}

/// A path of the machine of whoever wrote it helps nobody else.
#[test]
fn no_file_names_a_place_on_somebodys_machine() {
    // Written in two parts, so that this file does not name them either.
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/Use", "rs/"),
        concat!("C:\\", "Users"),
        concat!(".inter", "nal/"),
        concat!("artifac", "tory"),
    ];
    let mut found = Vec::new();
    for file in files(&root()) {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let hits = places.iter().filter(|place| line.contains(**place));
            found.extend(hits.map(|place| format!("{}:{}: {place}", shown(&file), number + 1)));
        }
    }
    none_of("places that exist on one machine only", &found);
}

#[test]
fn crates_come_from_the_public_registry_alone() {
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let lock = read("Cargo.lock");
    let sources = lock.lines().filter(|line| line.starts_with("source = "));
    let mut wrong: Vec<String> = sources
        .filter(|line| *line != public)
        .map(str::to_owned)
        .collect();
    let settings = read(".cargo/config.toml");
    let others = settings.lines().filter(|line| {
        line.starts_with("[source")
            || line.starts_with("[registr")
            || line.contains("rustc-wrapper")
    });
    wrong.extend(others.map(str::to_owned));
    none_of("settings of one machine", &wrong);
}
