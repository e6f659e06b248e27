//! Reading a sweep file.

use std::path::Path;

use super::fields::Reader;
use super::{Axis, Override, Pattern, Sweep, SweepError};
use crate::flat::SECTIONS;
use crate::load::{BASE_KEY, read_layer};
use crate::node::{Data, Mapping, Node, Origin};
use crate::problem::{Errors, Problem};
use crate::roles::{Role, backends_of};
use crate::suggest::nearest;

/// Keys under `sweep`.
const KEYS: &[&str] = &[
    "name",
    "base",
    "models",
    "benchmarks",
    "harnesses",
    "include",
    "exclude",
    "cells",
    "seeds",
    "repeats",
    "arms",
    "transfer",
    "caps",
    "weight",
    "correct",
];
/// Most repeats of a cell.
const REPEATS_MAX: u64 = 100;
/// Longest name of an axis or a sweep, in characters.
const NAME_MAX: usize = 80;

/// Reads and checks a sweep file. Everything that is wrong with it is reported at once.
///
/// # Errors
/// The file cannot be read, or says what cannot be.
pub fn load(path: &Path) -> Result<Sweep, SweepError> {
    let shown = path.display().to_string();
    let layer = read_layer(path, &shown)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let mut reader = Reader::new(folder);
    let sweep = reader.sweep(layer, &shown);
    match sweep {
        Some(sweep) if reader.problems.is_empty() => Ok(sweep),
        _ => Err(Errors(reader.problems).into()),
    }
}

impl Reader<'_> {
    fn sweep(&mut self, layer: Mapping, path: &str) -> Option<Sweep> {
        let mut shared = Mapping::new();
        let mut own = None;
        for (key, node) in layer {
            match key.as_str() {
                "sweep" => own = Some(node),
                BASE_KEY => {
                    let reason = "is not for a sweep file; name the configuration in `sweep.base`";
                    self.problem(&key, &node, reason);
                }
                section if SECTIONS.contains(&section) => shared.insert(key, node),
                _ => {
                    let names = SECTIONS.iter().copied().chain(["sweep"]);
                    self.unknown("", &key, &node, names);
                }
            }
        }
        let Some(node) = own else {
            let origin = Origin::File {
                path: path.into(),
                line: 1,
                column: 1,
            };
            let reason = "is missing; is this a sweep file?";
            self.problems.push(Problem::at("sweep", &origin, reason));
            return None;
        };
        let map = self.map("sweep", &node)?.clone();
        for (key, value) in map.iter() {
            if !KEYS.contains(&key) {
                self.unknown("sweep", key, value, KEYS.iter().copied());
            }
        }
        let stem = Path::new(path)
            .file_stem()
            .map(|s| s.to_string_lossy().into_owned());
        let name = match map.get("name") {
            Some(node) => self.text("sweep.name", node),
            None => stem.filter(|s| !s.is_empty()),
        };
        let harnesses = match map.get("harnesses") {
            Some(_) => self.axis(&map, "harnesses", &node.origin),
            None => vec![Axis {
                name: "chat".to_owned(),
                origin: node.origin.clone(),
                config: None,
                sections: Mapping::new(),
            }],
        };
        let sweep = Sweep {
            path: path.to_owned(),
            name: name.unwrap_or_default().chars().take(NAME_MAX).collect(),
            base: map
                .get("base")
                .and_then(|node| self.named("sweep.base", node)),
            shared,
            models: self.axis(&map, "models", &node.origin),
            benchmarks: self.axis(&map, "benchmarks", &node.origin),
            harnesses: self.harnesses(harnesses),
            include: self.patterns(&map, "include"),
            exclude: self.patterns(&map, "exclude"),
            cells: self.overrides(&map),
            seeds: self.seeds(&map),
            repeats: self.small(&map, "repeats", 1, REPEATS_MAX, 1),
            arms: self.arms(&map),
            transfer: self.truth(&map, "transfer"),
            caps: self.caps(&map),
            weight: self.small(&map, "weight", 1, 1_000, 100),
            family: self.correct(&map),
        };
        self.have_a_base(&sweep);
        Some(sweep)
    }

    /// Each benchmark needs something to start from.
    fn have_a_base(&mut self, sweep: &Sweep) {
        if sweep.base.is_some() {
            return;
        }
        for axis in sweep.benchmarks.iter().filter(|axis| axis.config.is_none()) {
            let reason =
                "has nothing to start from; set `sweep.base`, or `config` of the benchmark";
            let key = format!("sweep.benchmarks: {}", axis.name);
            self.problems.push(Problem::at(key, &axis.origin, reason));
        }
    }

    fn axis(&mut self, map: &Mapping, key: &str, sweep: &Origin) -> Vec<Axis> {
        let path = format!("sweep.{key}");
        let Some(node) = map.get(key) else {
            let reason = "is missing; list at least one";
            self.problems.push(Problem::at(path, sweep, reason));
            return Vec::new();
        };
        let items = self.list(&path, node);
        if items.is_empty() {
            self.problem(&path, node, "is empty; list at least one");
        }
        let mut axes: Vec<Axis> = Vec::new();
        for item in items {
            let Some(axis) = self.axis_entry(&path, &item, key == "benchmarks") else {
                continue;
            };
            if axes.iter().any(|known| known.name == axis.name) {
                self.problem(&path, &item, "is there twice; give each its own `name`");
            }
            axes.push(axis);
        }
        axes
    }

    fn axis_entry(&mut self, path: &str, item: &Node, with_config: bool) -> Option<Axis> {
        let Data::Map(map) = &item.data else {
            let name = self.text(path, item)?;
            return self.axis_name(path, item, &name).then(|| Axis {
                name,
                origin: item.origin.clone(),
                config: None,
                sections: Mapping::new(),
            });
        };
        let Some(named) = map.get("name") else {
            self.problem(path, item, "has no `name`");
            return None;
        };
        let name = self.text(&format!("{path}.name"), named)?;
        let mut own = vec!["name"];
        if with_config {
            own.push("config");
        }
        let config = map.get("config").filter(|_| with_config);
        let config = config.and_then(|node| self.named(&format!("{path}.config"), node));
        let sections = self.sections(path, map, &own);
        self.axis_name(path, named, &name).then(|| Axis {
            name,
            origin: named.origin.clone(),
            config,
            sections,
        })
    }

    /// Names become parts of the names of cells and of folders.
    fn axis_name(&mut self, path: &str, node: &Node, name: &str) -> bool {
        let is_plain = |c: char| c.is_alphanumeric() || "._-+:".contains(c);
        let is_fit = name.chars().count() <= NAME_MAX
            && name.chars().all(is_plain)
            && name.starts_with(|c: char| c.is_alphanumeric());
        if !is_fit {
            let reason = format!(
                "cannot be part of a cell's name: letters, digits and `. _ - + :` only, at most \
                 {NAME_MAX}, a letter or digit first. Give it a short `name`, and the provider's \
                 name as `model: {{target: …}}`"
            );
            self.problem(path, node, &reason);
        }
        is_fit
    }

    /// A harness that is none of ours must say which backend it is.
    fn harnesses(&mut self, harnesses: Vec<Axis>) -> Vec<Axis> {
        for axis in &harnesses {
            let names_backend = axis
                .sections
                .get("model")
                .and_then(Node::as_map)
                .is_some_and(|model| model.get("target_backend").is_some());
            if axis.name == "chat"
                || names_backend
                || backends_of(Role::Target).contains(&axis.name.as_str())
            {
                continue;
            }
            let reason = "is no harness; use `chat` or a backend's name, or set \
                          `model: {target_backend: …}` for it";
            let mut problem = Problem::at("sweep.harnesses", &axis.origin, reason);
            problem.value = Some(axis.name.clone());
            let names = backends_of(Role::Target).into_iter().chain(["chat"]);
            problem.nearest = nearest(&axis.name, names).map(str::to_owned);
            self.problems.push(problem);
        }
        harnesses
    }

    /// Takes the sections of a configuration out of a mapping that has keys of its `own` too.
    fn sections(&mut self, path: &str, map: &Mapping, own: &[&str]) -> Mapping {
        let mut sections = Mapping::new();
        for (key, node) in map.iter() {
            if own.contains(&key) {
                continue;
            }
            if SECTIONS.contains(&key) && node.as_map().is_some() {
                sections.insert(key, node.clone());
            } else if SECTIONS.contains(&key) {
                self.problem(&format!("{path}.{key}"), node, "is not a mapping");
            } else {
                let names = SECTIONS.iter().chain(own).copied();
                self.unknown(path, key, node, names);
            }
        }
        sections
    }

    fn patterns(&mut self, map: &Mapping, key: &str) -> Vec<Pattern> {
        let path = format!("sweep.{key}");
        let items = map
            .get(key)
            .map(|node| self.list(&path, node))
            .unwrap_or_default();
        items
            .iter()
            .filter_map(|item| self.pattern(&path, item))
            .collect()
    }

    fn pattern(&mut self, path: &str, node: &Node) -> Option<Pattern> {
        let pattern = Pattern {
            text: self.text(path, node)?,
            origin: node.origin.clone(),
        };
        if !pattern.is_whole() {
            let reason = "is no pattern; write three parts, as in `*/searchqa/chat`";
            self.problem(path, node, reason);
            return None;
        }
        Some(pattern)
    }

    fn overrides(&mut self, map: &Mapping) -> Vec<Override> {
        let path = "sweep.cells";
        let items = map
            .get("cells")
            .map(|node| self.list(path, node))
            .unwrap_or_default();
        let mut overrides = Vec::new();
        for item in items {
            let Some(entry) = self.map(path, &item) else {
                continue;
            };
            let Some(matched) = entry.get("match") else {
                self.problem(
                    path,
                    &item,
                    "has no `match` that says which cells are meant",
                );
                continue;
            };
            let entry = entry.clone();
            let pattern = self.pattern("sweep.cells.match", matched);
            let sections = self.sections(path, &entry, &["match"]);
            overrides.extend(pattern.map(|pattern| Override { pattern, sections }));
        }
        overrides
    }
}
