//! The flat form of a configuration: one layer, or several merged ones.
//!
//! A file may be *structured* (sections `model`, `train`, `gradient`, `optimizer`, `evaluation`,
//! `budget`, `env`) or *flat*. Both become the same thing here, so that layers merge whatever layout they
//! use. Source: training spec 7.1 and 7.2.
//!
//! The reference at the commit we follow loses the whole `env` section of a structured file that
//! names its benchmark, because the flat name of `env.name` is the name of the section. We keep it.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use crate::backend_keys::{self, BackendKey, backend_keys};
use crate::node::{Data, Mapping, Node, Origin};
use crate::problem::Problem;
use crate::retired;
use crate::run_config::KEYS;
use crate::suggest::nearest;

/// The sections of a structured file.
pub const SECTIONS: &[&str] = &[
    "model",
    "train",
    "gradient",
    "optimizer",
    "evaluation",
    "budget",
    "env",
];

/// Keys that only some benchmarks read; in flat files they go to the benchmark like those of `env`.
pub const BENCHMARK_KEYS: &[(&str, &str)] = &[
    ("benchmark_dir", "Folder of a custom benchmark."),
    ("max_steps", "Most actions of one episode."),
    (
        "max_api_workers",
        "Model calls made at the same time inside a rollout.",
    ),
    ("mode", "Variant of the benchmark."),
    ("data_root", "Folder with the benchmark's own files."),
    ("image_detail", "Resolution at which images are sent."),
    (
        "shuffle_choices",
        "Shuffle the options of multiple-choice items.",
    ),
    ("use_theorem", "Show the theorem of an item."),
    ("use_sketch", "Show the proof sketch of an item."),
    ("judge_model", "Model that judges answers."),
    ("judge_max_completion_tokens", "Most tokens of a judgement."),
    ("judge_retries", "Attempts of a judgement."),
];

/// Benchmarks whose configuration files load, but which this release cannot run.
pub const LATER_BENCHMARKS: &[&str] = &[
    "docvqa",
    "livemathematicianbench",
    "officeqa",
    "spreadsheetbench",
    "alfworld",
];

/// Other names of two Codex keys, strongest first.
const CODEX_ALIASES: &[(&str, &[&str])] = &[
    (
        "codex_exec_path",
        &["codex_path", "codex_cli_bin", "codex_bin"],
    ),
    ("codex_exec_sandbox", &["sandbox", "codex_sandbox"]),
];

/// A configuration by flat names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flat {
    /// Keys that are known, by flat name.
    pub known: Mapping,
    /// Keys of `env` that are not ours: the benchmark's.
    pub env_extra: Mapping,
    /// Other top-level keys.
    pub extra: Mapping,
    /// Keys that stand in a section which does not have them (D33).
    pub unknown: Vec<Problem>,
    /// What was accepted but has no effect.
    pub warnings: Vec<Problem>,
    sections: BTreeSet<String>,
    replaced: BTreeSet<String>,
}

impl Flat {
    /// Reads one layer, without its `_base_`.
    #[must_use]
    pub fn from_layer(mut layer: Mapping) -> Self {
        rename_codex_aliases(&mut layer);
        let mut flat = Self::default();
        let mut sections = Vec::new();
        for (key, node) in layer {
            let is_section = SECTIONS.contains(&key.as_str());
            match node.data {
                Data::Map(map) if is_section => sections.push((key, map)),
                Data::Text(_) if key == "env" => flat.put_bare(&key, node),
                _ if is_section => flat.replace_section(key, &node),
                _ => flat.put_bare(&key, node),
            }
        }
        // After the flat keys, so that a structured key beats its flat twin.
        for (section, mut map) in sections {
            if section == "model" {
                rename_codex_aliases(&mut map);
            }
            for (key, node) in map {
                flat.put(&section, &key, node);
            }
            flat.sections.insert(section);
        }
        flat
    }

    /// Reads settings given as JSON under their flat names.
    #[must_use]
    pub fn from_json(map: &Map<String, Json>, origin: &Origin) -> Self {
        Self::from_layer(Mapping::from_json(map, origin))
    }

    /// Returns whether any layer has a section.
    #[must_use]
    pub fn is_structured(&self) -> bool {
        !self.sections.is_empty()
    }

    /// Lays `child` over `self`: mappings are merged, everything else is replaced.
    #[must_use]
    pub fn overlaid(mut self, child: Self) -> Self {
        for section in &child.replaced {
            self.drop_section(section);
        }
        merge(&mut self.known, child.known);
        merge(&mut self.env_extra, child.env_extra);
        merge(&mut self.extra, child.extra);
        self.unknown.extend(child.unknown);
        self.warnings.extend(child.warnings);
        self.sections.extend(child.sections);
        self
    }

    /// Puts a key of a section in its place.
    pub(crate) fn put(&mut self, section: &str, key: &str, node: Node) {
        if section == "model" {
            let canonical = canonical_codex(key);
            if self.put_sim(canonical, &node) {
                return;
            }
            if backend_keys::find(canonical).is_some() {
                self.known.insert(canonical, node);
                return;
            }
        }
        let found = KEYS
            .iter()
            .find(|k| k.section() == section && k.inner() == key);
        match found {
            Some(found) => self.known.insert(found.name, node),
            None if section == "env" => self.env_extra.insert(key, node),
            None => match retired::find_path(section, key) {
                Some((path, _, why)) => self.warnings.push(Problem::at(*path, &node.origin, *why)),
                None => self.unknown.push(unknown_key(section, key, &node)),
            },
        }
    }

    /// Puts a key without a section in its place.
    pub(crate) fn put_bare(&mut self, key: &str, node: Node) {
        let name = match canonical_codex(key) {
            "backend" => "model_backend",
            name => name,
        };
        if self.put_sim(name, &node) {
            return;
        }
        if KEYS.iter().any(|k| k.name == name) || backend_keys::find(name).is_some() {
            self.known.insert(name, node);
        } else if let Some((path, _, why)) = retired::find(name) {
            self.warnings.push(Problem::at(*path, &node.origin, *why));
        } else if BENCHMARK_KEYS.iter().any(|(k, _)| *k == name) {
            self.env_extra.insert(name, node);
        } else {
            self.extra.insert(name, node);
        }
    }

    /// Puts `key` into the section named like a mapping of the caller's own.
    pub(crate) fn put_foreign(&mut self, section: &str, key: &str, node: Node) {
        if self.extra.get(section).is_none_or(|n| n.as_map().is_none()) {
            let empty = Node::new(Data::Map(Mapping::new()), node.origin.clone());
            self.extra.insert(section, empty);
        }
        if let Some(Data::Map(map)) = self.extra.get_mut(section).map(|n| &mut n.data) {
            map.insert(key, node);
        }
    }

    /// Notes that a section exists.
    pub(crate) fn add_section(&mut self, section: &str) {
        self.sections.insert(section.to_owned());
    }

    /// Takes `sim.x` and `sim_x` into the mapping `sim`. Returns whether it was such a key.
    fn put_sim(&mut self, key: &str, node: &Node) -> bool {
        let Some(inner) = key
            .strip_prefix("sim.")
            .or_else(|| key.strip_prefix("sim_"))
        else {
            return false;
        };
        let mut map = Mapping::new();
        map.insert(inner, node.clone());
        let mut child = Mapping::new();
        child.insert("sim", Node::new(Data::Map(map), node.origin.clone()));
        merge(&mut self.known, child);
        true
    }

    fn replace_section(&mut self, section: String, node: &Node) {
        let reason = "is not a mapping, so everything inherited for this section is dropped";
        self.warnings
            .push(Problem::new(section.clone(), node, reason));
        self.replaced.insert(section);
    }

    fn drop_section(&mut self, section: &str) {
        for key in KEYS.iter().filter(|k| k.section() == section) {
            self.known.remove(key.name);
        }
        match section {
            "model" => {
                for name in backend_keys().flat_map(BackendKey::names) {
                    self.known.remove(&name);
                }
            }
            "env" => self.env_extra = Mapping::new(),
            _ => {}
        }
        self.sections.remove(section);
    }

    /// Returns everything under its flat name, credentials included: for tests and tools that need
    /// the values as they were given.
    #[must_use]
    pub fn to_json_unredacted(&self) -> Map<String, Json> {
        let mut map = self.extra.to_json();
        map.extend(self.known.to_json());
        map.extend(self.env_extra.to_json());
        map
    }
}

fn rename_codex_aliases(map: &mut Mapping) {
    for (canonical, aliases) in CODEX_ALIASES {
        for alias in *aliases {
            if let Some(node) = map.remove(alias)
                && map.get(canonical).is_none()
            {
                map.insert(*canonical, node);
            }
        }
    }
}

/// Returns the canonical name of a Codex key.
fn canonical_codex(key: &str) -> &str {
    CODEX_ALIASES
        .iter()
        .find(|(_, aliases)| aliases.contains(&key))
        .map_or(key, |(canonical, _)| canonical)
}

fn merge(base: &mut Mapping, child: Mapping) {
    for (key, node) in child {
        match (base.get_mut(&key).map(|old| &mut old.data), node.data) {
            (Some(Data::Map(old)), Data::Map(new)) => merge(old, new),
            (_, data) => base.insert(
                key,
                Node {
                    data,
                    raw: node.raw,
                    origin: node.origin,
                },
            ),
        }
    }
}

/// Returns every known key of `section`.
pub(crate) fn keys_of(section: &str) -> Vec<String> {
    let own = KEYS
        .iter()
        .filter(|k| k.section() == section)
        .map(|k| k.inner().to_owned());
    let backends = backend_keys()
        .filter(|_| section == "model")
        .flat_map(BackendKey::names);
    own.chain(backends).collect()
}

fn unknown_key(section: &str, key: &str, node: &Node) -> Problem {
    let mut problem = Problem::new(format!("{section}.{key}"), node, "is not a known key");
    problem.value = None;
    let here = keys_of(section);
    problem.nearest = nearest(key, here.iter().map(String::as_str))
        .map(|name| format!("{section}.{name}"))
        .or_else(|| elsewhere(key));
    problem
}

/// Returns the key that a key of `env` was probably meant to be, if it is none that we know: the
/// benchmark may still know it (D33).
pub(crate) fn near_env_key(key: &str) -> Option<String> {
    if BENCHMARK_KEYS.iter().any(|(name, _)| *name == key) {
        return None;
    }
    let own = keys_of("env");
    let names = own.iter().map(String::as_str);
    nearest(
        key,
        names.chain(BENCHMARK_KEYS.iter().map(|(name, _)| *name)),
    )
    .map(|name| format!("env.{name}"))
    .or_else(|| elsewhere(key))
}

/// Finds a key of this very name in another section, also by its flat name.
fn elsewhere(key: &str) -> Option<String> {
    KEYS.iter()
        .find(|k| k.inner() == key || k.name == key)
        .map(|k| k.path.to_owned())
}
