//! What the `Cargo.toml` files say, as far as the rules need it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Prefix of our packages' names; the rest is the folder.
pub(crate) const PREFIX: &str = "skillopt-";

/// One crate of the workspace.
#[derive(Debug)]
pub(crate) struct Crate {
    /// Folder, which is also the name without the prefix.
    pub(crate) name: String,
    /// Absolute path of the folder.
    pub(crate) dir: PathBuf,
    /// The lines of each section of its `Cargo.toml`, without comments.
    sections: BTreeMap<String, Vec<String>>,
}

impl Crate {
    /// Returns the names in a section of dependencies, e.g. `dependencies`.
    pub(crate) fn names_in(&self, section: &str) -> Vec<String> {
        let Some(lines) = self.sections.get(section) else {
            return Vec::new();
        };
        let name = |line: &String| {
            let end = line.find(['.', '=', ' '])?;
            Some(line.get(..end)?.to_owned())
        };
        lines.iter().filter_map(name).collect()
    }

    /// Returns which of our crates a section names, without the prefix.
    pub(crate) fn ours_in(&self, section: &str) -> Vec<String> {
        let strip = |name: String| name.strip_prefix(PREFIX).map(str::to_owned);
        self.names_in(section)
            .into_iter()
            .filter_map(strip)
            .collect()
    }

    /// Tells whether a section has exactly this line.
    pub(crate) fn has(&self, section: &str, line: &str) -> bool {
        let lines = self.sections.get(section);
        lines.is_some_and(|lines| {
            lines
                .iter()
                .any(|l| l.replace(' ', "") == line.replace(' ', ""))
        })
    }
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("`tests` is a folder of the workspace")
        .to_path_buf()
}

/// Returns the text of a file below the root.
#[track_caller]
pub(crate) fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full)
        .unwrap_or_else(|e| panic!("{} is not readable: {e}", full.display()))
}

/// Returns the members of the workspace, in the order of the root `Cargo.toml`.
pub(crate) fn crates() -> Vec<Crate> {
    let text = read("Cargo.toml");
    let start = text
        .find("members = [")
        .expect("the workspace lists its members");
    let end = start + text[start..].find("\n]").expect("the list of members ends");
    let members = text[start..end].split('"').skip(1).step_by(2);
    members
        .map(|name| Crate {
            name: name.to_owned(),
            dir: root().join(name),
            sections: sections(&read(&format!("{name}/Cargo.toml"))),
        })
        .collect()
}

fn sections(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            current = name.trim_matches(['[', ']']).to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            all.entry(current.clone())
                .or_default()
                .push(line.to_owned());
        }
    }
    all
}
