//! Values given on the command line.

use std::sync::Arc;

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

/// Reads a value as the command line does: `true`/`yes`, `false`/`no` in any case, then whole
/// numbers, then other numbers, else text (training spec 7.3). `on`, `off` and `null` stay text.
#[must_use]
pub fn cast(text: &str) -> Data {
    match text.to_lowercase().as_str() {
        "true" | "yes" => return Data::Bool(true),
        "false" | "no" => return Data::Bool(false),
        _ => {}
    }
    number(text).unwrap_or_else(|| Data::Text(text.to_owned()))
}

fn number(text: &str) -> Option<Data> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.to_lowercase().as_str() {
        "inf" | "infinity" | "nan" => return text.parse().ok().map(Data::Float),
        _ => {}
    }
    // Underscores may only stand between digits.
    let chars: Vec<char> = unsigned.chars().collect();
    let digit = |at: Option<usize>| {
        at.and_then(|i| chars.get(i))
            .is_some_and(char::is_ascii_digit)
    };
    let underscores_ok = chars
        .iter()
        .enumerate()
        .all(|(i, c)| *c != '_' || (digit(i.checked_sub(1)) && digit(Some(i + 1))));
    let shape_ok = chars
        .iter()
        .all(|c| c.is_ascii_digit() || "_.eE+-".contains(*c));
    if !underscores_ok || !shape_ok || !chars.iter().any(char::is_ascii_digit) {
        return None;
    }
    let plain = text.replace('_', "");
    if unsigned.chars().all(|c| c.is_ascii_digit() || c == '_') {
        // Larger than any setting: keep the text.
        return plain.parse().ok().map(Data::Int);
    }
    plain.parse().ok().map(Data::Float)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, want) in [
            ("1__0", Data::Text("1__0".into())),
            ("_1", Data::Text("_1".into())),
            (" 5 ", Data::Int(5)),
            ("5.", Data::Float(5.0)),
            ("1e-3", Data::Float(0.001)),
            ("e5", Data::Text("e5".into())),
            ("-", Data::Text("-".into())),
            ("+7", Data::Int(7)),
            ("-inf", Data::Float(f64::NEG_INFINITY)),
            (
                "99999999999999999999",
                Data::Text("99999999999999999999".into()),
            ),
        ] {
            assert_eq!(cast(text), want, "{text}");
        }
    }
}
