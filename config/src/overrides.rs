//! Values given on the command line.

use std::sync::Arc;

pub use crate::cast::cast;
use crate::flags::Flag;
use crate::flat::{Flat, SECTIONS};
use crate::key::Kind;
use crate::node::{Data, Node, Origin};
use crate::run_config::KEYS;

/// An override that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// There is no `=` in it, or nothing before it.
    #[error("`{0}` is not of the form `key=value`, as in `train.batch_size=20`")]
    NoValue(String),
    /// A flag that takes a truth value got something else.
    #[error("{flag} takes `true` or `false`, not `{value}`")]
    NotTruth {
        /// The flag with its dashes.
        flag: String,
        /// What was given.
        value: String,
    },
}

fn node(text: &str, origin: Origin) -> Node {
    let data = cast(text);
    let raw = (!matches!(data, Data::Text(_))).then(|| text.to_owned());
    Node { data, raw, origin }
}

impl Flat {
    /// Applies one `key=value`. Later ones win.
    ///
    /// # Errors
    /// There is no `=`, or nothing before it.
    pub fn set(&mut self, text: &str) -> Result<(), OverrideError> {
        let (key, value) = text
            .split_once('=')
            .map(|(key, value)| (key.trim(), value))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| OverrideError::NoValue(text.to_owned()))?;
        self.set_node(key, node(value, Origin::Set(Arc::from(key))));
        Ok(())
    }

    /// Applies a flag of its own.
    ///
    /// # Errors
    /// The flag takes a truth value and this is none.
    pub fn set_flag(&mut self, flag: &Flag, value: &str) -> Result<(), OverrideError> {
        let dashed = format!("--{}", flag.name);
        let mut node = node(value, Origin::Flag(Arc::from(dashed.as_str())));
        if flag.kind == Kind::Bool {
            let truth = match value.trim().to_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => true,
                "false" | "0" | "no" | "off" => false,
                _ => {
                    return Err(OverrideError::NotTruth {
                        flag: dashed,
                        value: value.to_owned(),
                    });
                }
            };
            node.data = Data::Bool(truth);
        }
        self.set_node(&flag.path, node);
        Ok(())
    }

    fn set_node(&mut self, key: &str, node: Node) {
        match key.split_once('.') {
            Some((section, inner)) if SECTIONS.contains(&section) => {
                let known = section == "env"
                    || KEYS.iter().any(|k| k.path == key)
                    || !crate::flat::keys_of(section).iter().all(|k| k != inner);
                if self.is_structured() || !known {
                    self.add_section(section);
                }
                self.put(section, inner, node);
            }
            Some((section, inner)) if !section.is_empty() => self.put_foreign(section, inner, node),
            _ => self.put_bare(key, node),
        }
    }
}
