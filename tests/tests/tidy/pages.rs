//! What the pages say is there, and what is there is said.

use std::path::Path;

use crate::manifest::{crates, read, root};
use crate::none_of;
use crate::paths::{shown, with_extension};

#[test]
fn the_configuration_page_names_every_key() {
    let page = read("docs/configuration.md");
    let keys = skillopt_config::KEYS.iter();
    let missing = keys.filter(|key| !page.contains(&format!("| `{}` |", key.name)));
    let missing: Vec<String> = missing.map(|key| key.name.to_owned()).collect();
    none_of(
        "docs/configuration.md does not name these keys; run `cargo xtask generate`",
        &missing,
    );
}

#[test]
fn the_configuration_page_is_fresh() {
    let is_fresh =
        read("docs/configuration.md").replace("\r\n", "\n") == skillopt_config::reference_page();
    assert!(
        is_fresh,
        "docs/configuration.md is stale; run `cargo xtask generate`"
    );
}

#[test]
fn every_prompt_template_is_known_and_described() {
    let page = read("docs/prompts.md");
    let names = skillopt_core::stages::prompts::Set::names();
    let mut wrong = Vec::new();
    for file in with_extension(&root().join("core/prompts"), "md") {
        let stem = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !names.iter().any(|name| **name == *stem) {
            wrong.push(format!("{}: not in `core::stages::prompts`", shown(&file)));
        }
    }
    let unnamed = names
        .iter()
        .filter(|name| !page.contains(&format!("`{name}`")));
    wrong.extend(unnamed.map(|name| format!("docs/prompts.md does not name `{name}`")));
    none_of("prompt templates", &wrong);
}

#[test]
fn the_architecture_names_every_crate() {
    let page = read("ARCHITECTURE.md");
    let missing: Vec<String> = crates()
        .into_iter()
        .filter(|krate| !page.contains(&format!("### `{}/`", krate.name)))
        .map(|krate| format!("### `{}/`", krate.name))
        .collect();
    none_of("ARCHITECTURE.md has no part for these crates", &missing);
}

/// Only links inside the repository; nothing here asks the network.
#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in with_extension(&root(), "md") {
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let folder = page.parent().unwrap_or(Path::new(""));
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#', ' ']).next().unwrap_or_default();
            let is_outside = target.is_empty() || target.contains(':');
            if !is_outside && !folder.join(target).exists() {
                broken.push(format!("{}: {target}", shown(&page)));
            }
        }
    }
    none_of("links to files that do not exist", &broken);
}

/// Paths in backticks that begin with a folder of the repository, e.g. `core/src/gate.rs`; `NAME`
/// stands for one that a reader adds.
#[test]
fn the_architecture_names_files_that_exist() {
    let mut wrong = Vec::new();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        for name in read(page).split('`').skip(1).step_by(2) {
            let is_path = name.contains('/')
                && !name.contains("NAME")
                && !name.contains([' ', '<', '*', '{', '$', '…', ':', '=']);
            let first = name.split('/').next().unwrap_or_default();
            let is_ours = root().join(first).is_dir() && !first.is_empty() && first != "outputs";
            if is_path && is_ours && !root().join(name).exists() {
                wrong.push(format!("{page}: {name}"));
            }
        }
    }
    none_of("these paths do not exist", &wrong);
}
