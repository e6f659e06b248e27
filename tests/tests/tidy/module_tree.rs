//! The modules of a crate, read from its `mod` declarations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::source::{code_only, without_tests};

/// Path of a module inside its crate; empty for the root.
pub(crate) type ModulePath = Vec<String>;

/// One module that stands in a file of its own.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its file.
    pub(crate) file: PathBuf,
    /// Its code without comments, strings and inline tests.
    pub(crate) code: String,
    /// Compiled for tests only.
    pub(crate) is_test: bool,
}

/// All modules that can be reached from a root file.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Modules by path.
    pub(crate) modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    /// Reads the modules of the target whose root file is `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut tree = Self::default();
        tree.add(ModulePath::new(), root, true, false);
        tree
    }

    fn add(&mut self, path: ModulePath, file: &Path, is_root: bool, is_test: bool) {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let code = code_only(&text);
        for (name, child_is_test, path_attribute) in declared(&code, &text) {
            let Some(child) = child_file(file, is_root, &name, path_attribute.as_deref()) else {
                continue;
            };
            let mut child_path = path.clone();
            child_path.push(name);
            let owns_folder = child.file_name().is_some_and(|n| n == "mod.rs");
            self.add(child_path, &child, owns_folder, is_test || child_is_test);
        }
        let module = Module {
            file: file.to_path_buf(),
            code: without_tests(&code),
            is_test,
        };
        self.modules.insert(path, module);
    }
}

/// Returns the modules that a file declares with `mod name;`: name, whether only for tests, and
/// the file that a `#[path]` attribute names.
fn declared(code: &str, text: &str) -> Vec<(String, bool, Option<String>)> {
    let mut found = Vec::new();
    let mut attributes = String::new();
    for (line, original) in code.lines().zip(text.lines()) {
        let line = line.trim();
        if line.starts_with("#[") {
            attributes.push_str(original);
            continue;
        }
        let after_visibility = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, r)| r),
            Some(rest) => rest,
            None => line,
        };
        let name = after_visibility.trim_start().strip_prefix("mod ");
        if let Some(name) = name.and_then(|rest| rest.trim().strip_suffix(';')) {
            let path = attributes
                .split_once("path = \"")
                .and_then(|(_, rest)| rest.split_once('"'));
            let is_test = attributes.contains("cfg(test)");
            found.push((
                name.to_owned(),
                is_test,
                path.map(|(path, _)| path.to_owned()),
            ));
        }
        if !line.is_empty() {
            attributes.clear();
        }
    }
    found
}

/// Returns the file of a child module, if there is one.
fn child_file(parent: &Path, owns_folder: bool, name: &str, path: Option<&str>) -> Option<PathBuf> {
    let folder = parent.parent()?;
    if let Some(path) = path {
        return Some(folder.join(path)).filter(|file| file.is_file());
    }
    let folder = if owns_folder {
        folder.to_path_buf()
    } else {
        parent.with_extension("")
    };
    let flat = folder.join(format!("{name}.rs"));
    let nested = folder.join(name).join("mod.rs");
    [flat, nested].into_iter().find(|file| file.is_file())
}

/// Returns the root files of a crate's targets, as cargo finds them by itself.
pub(crate) fn target_roots(dir: &Path) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["src/lib.rs", "src/main.rs", "build.rs"]
        .iter()
        .map(|file| dir.join(file))
        .filter(|file| file.is_file())
        .collect();
    for folder in ["src/bin", "tests", "examples", "benches"] {
        let Ok(entries) = std::fs::read_dir(dir.join(folder)) else {
            continue;
        };
        for path in entries.filter_map(|entry| entry.ok().map(|e| e.path())) {
            if path.extension().is_some_and(|e| e == "rs") {
                roots.push(path);
            } else if path.join("main.rs").is_file() {
                roots.push(path.join("main.rs"));
            }
        }
    }
    roots.sort();
    roots
}

/// An undeclared file is not compiled: a test in it silently tests nothing.
#[test]
fn every_source_file_is_declared() {
    let mut undeclared = Vec::new();
    for krate in crate::manifest::crates() {
        let mut reached: Vec<PathBuf> = Vec::new();
        for root in target_roots(&krate.dir) {
            reached.extend(Tree::read(&root).modules.into_values().map(|m| m.file));
        }
        let all = crate::paths::with_extension(&krate.dir, "rs");
        let missing = all.iter().filter(|file| !reached.contains(file));
        undeclared.extend(missing.map(|file| crate::paths::shown(file)));
    }
    crate::none_of(
        "no `mod` declares these files, so nothing compiles them",
        &undeclared,
    );
}
