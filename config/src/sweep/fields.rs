//! Reading single values of a sweep file; what is wrong is noted, and reading goes on.

use std::path::Path;

use super::Named;
use crate::load::tidy;
use crate::node::{Data, Mapping, Node};
use crate::problem::Problem;
use crate::setting::scalar_text;
use crate::suggest::nearest;

/// Reads values and gathers what is wrong with them.
pub(super) struct Reader<'a> {
    /// Relative paths are taken from here.
    folder: &'a Path,
    /// What is wrong so far.
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            problems: Vec::new(),
        }
    }
}

impl Reader<'_> {
    pub(super) fn truth(&mut self, map: &Mapping, key: &str) -> bool {
        match map.get(key) {
            None => false,
            Some(Node {
                data: Data::Bool(b),
                ..
            }) => *b,
            Some(node) => {
                self.problem(
                    &format!("sweep.{key}"),
                    node,
                    "is neither `true` nor `false`",
                );
                false
            }
        }
    }

    pub(super) fn small(
        &mut self,
        map: &Mapping,
        key: &str,
        min: u64,
        max: u64,
        default: u32,
    ) -> u32 {
        let Some(node) = map.get(key) else {
            return default;
        };
        let value = self.whole(&format!("sweep.{key}"), node, min, max);
        value.and_then(|n| u32::try_from(n).ok()).unwrap_or(default)
    }

    pub(super) fn whole(&mut self, path: &str, node: &Node, min: u64, max: u64) -> Option<u64> {
        let value = match node.data {
            Data::Int(n) => u64::try_from(n).ok(),
            _ => None,
        };
        let value = value.filter(|n| (min..=max).contains(n));
        if value.is_none() {
            let mut problem = Problem::new(path, node, "is not allowed");
            problem.allowed = Some(if max >= i64::MAX.unsigned_abs() {
                format!("a whole number from {min} on")
            } else {
                format!("a whole number from {min} to {max}")
            });
            self.problems.push(problem);
        }
        value
    }

    pub(super) fn text(&mut self, path: &str, node: &Node) -> Option<String> {
        let text = scalar_text(node).map(|text| text.trim().to_owned());
        let text = text.filter(|text| !text.is_empty() && !text.contains(char::is_control));
        if text.is_none() {
            self.problem(path, node, "is not a text");
        }
        text
    }

    pub(super) fn named(&mut self, path: &str, node: &Node) -> Option<Named> {
        let text = self.text(path, node)?;
        Some(Named {
            path: tidy(&self.folder.join(text)),
            origin: node.origin.clone(),
        })
    }

    pub(super) fn list(&mut self, path: &str, node: &Node) -> Vec<Node> {
        match &node.data {
            Data::List(items) => items.clone(),
            _ => {
                self.problem(path, node, "is not a list");
                Vec::new()
            }
        }
    }

    pub(super) fn map<'n>(&mut self, path: &str, node: &'n Node) -> Option<&'n Mapping> {
        let map = node.as_map();
        if map.is_none() {
            self.problem(path, node, "is not a mapping");
        }
        map
    }

    pub(super) fn problem(&mut self, path: &str, node: &Node, reason: &str) {
        self.problems.push(Problem::new(path, node, reason));
    }

    pub(super) fn unknown<'n>(
        &mut self,
        section: &str,
        key: &str,
        node: &Node,
        names: impl Iterator<Item = &'n str>,
    ) {
        let path = match section {
            "" => key.to_owned(),
            section => format!("{section}.{key}"),
        };
        let mut problem = Problem::new(path, node, "is not a known key");
        problem.value = None;
        problem.nearest = nearest(key, names).map(str::to_owned);
        self.problems.push(problem);
    }
}
