//! Whether the server answers as a provider does: whole and in pieces, freely and bound to a schema.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::pins::Model;
use super::train::CONFIG;

/// What has to be fine, by the name that `skillopt doctor` gives it.
const CHECKS: [&str; 4] = [
    "target model",
    "target schema",
    "optimizer model",
    "optimizer schema",
];

/// Has `program` ask the server at `base_url`, as `skillopt doctor` does.
///
/// # Errors
/// A call is not answered, or an answer cannot be bound to a schema.
pub(super) fn run(program: &Path, root: &Path, base_url: &str, model: Model) -> anyhow::Result<()> {
    for streams in [false, true] {
        let way = if streams { "in pieces" } else { "whole" };
        let title = model.title();
        let sets = [
            format!("model.openai_compatible_base_url={base_url}"),
            format!("model.openai_compatible_stream={streams}"),
            format!("model.target={title}"),
            format!("model.optimizer={title}"),
        ];
        let said = Command::new(program)
            .current_dir(root)
            .args(["doctor", CONFIG, "--json"])
            .args(sets.iter().flat_map(|set| ["--set", set.as_str()]))
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let text = String::from_utf8_lossy(&said.stdout);
        let rows: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        for name in CHECKS {
            let Some(row) = rows.iter().find(|row| row["name"] == name) else {
                let told = String::from_utf8_lossy(&said.stderr);
                bail!("answers {way}: `{name}` was not checked: {text}{told}");
            };
            let is_fine = row["state"] == "fine";
            ensure!(is_fine, "answers {way}: `{name}`: {}", row["message"]);
        }
        eprintln!("answers {way}: by both roles, freely and bound to a schema");
    }
    Ok(())
}
