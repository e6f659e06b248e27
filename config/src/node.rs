//! The tree a configuration is read into: values that know where they came from.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Number, Value as Json};

use skillopt_core::secret::is_secret_name;

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    #[default]
    Default,
    /// A place in a file.
    File {
        /// The file as it was named.
        path: Arc<str>,
        /// 1-based line.
        line: usize,
        /// 1-based column.
        column: usize,
    },
    /// An override on the command line (`--set`), as it was typed up to the `=`.
    Set(Arc<str>),
    /// A flag of its own, with its dashes.
    Flag(Arc<str>),
    /// An environment variable.
    Env(Arc<str>),
    /// Worked out from other values.
    Derived,
}

impl Origin {
    /// Returns whether the value was given for this very run, on the command line.
    #[must_use]
    pub const fn is_command_line(&self) -> bool {
        matches!(self, Self::Set(_) | Self::Flag(_))
    }

    /// Returns whether the value comes from a shipped `_base_` folder, i.e. is a default that
    /// happens to be written down.
    #[must_use]
    pub fn is_shipped_base(&self) -> bool {
        match self {
            Self::File { path, .. } => path.replace('\\', "/").rsplit('/').nth(1) == Some("_base_"),
            _ => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => write!(f, "{path}:{line}:{column}"),
            Self::Set(key) => write!(f, "--set {key}"),
            Self::Flag(flag) => f.write_str(flag),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::Derived => f.write_str("derived"),
        }
    }
}

/// A value of the tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number, also NaN and infinities.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping.
    Map(Mapping),
}

/// A value, how it was spelled, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub data: Data,
    /// The spelling of a plain scalar, so that a name that looks like a number stays a name.
    pub raw: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

impl Node {
    /// Builds a node that has no spelling of its own.
    #[must_use]
    pub const fn new(data: Data, origin: Origin) -> Self {
        Self {
            data,
            raw: None,
            origin,
        }
    }

    /// Builds a text.
    #[must_use]
    pub fn text(text: impl Into<String>, origin: Origin) -> Self {
        Self::new(Data::Text(text.into()), origin)
    }

    /// Returns the mapping, if this is one.
    #[must_use]
    pub const fn as_map(&self) -> Option<&Mapping> {
        match &self.data {
            Data::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the text, if this is one.
    #[must_use]
    pub const fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Returns whether the value is null or the empty text.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        match &self.data {
            Data::Null => true,
            Data::Text(text) => text.trim().is_empty(),
            _ => false,
        }
    }

    /// Returns a short rendering for messages.
    #[must_use]
    pub fn show(&self) -> String {
        let text = match (&self.raw, &self.data) {
            (Some(raw), _) => raw.clone(),
            (None, Data::Text(text)) => format!("{text:?}"),
            (None, _) => self.to_json().to_string(),
        };
        if text.chars().count() > 60 {
            let start: String = text.chars().take(60).collect();
            format!("{start}…")
        } else {
            text
        }
    }

    /// Turns the value into JSON. A number that JSON lacks becomes `{"non_finite": "nan"}` (or
    /// `inf`, `-inf`).
    #[must_use]
    pub fn to_json(&self) -> Json {
        match &self.data {
            Data::Null => Json::Null,
            Data::Bool(b) => Json::Bool(*b),
            Data::Int(n) => Json::from(*n),
            Data::Float(x) => Number::from_f64(*x).map_or_else(|| non_finite(*x), Json::Number),
            Data::Text(text) => Json::String(text.clone()),
            Data::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Data::Map(map) => Json::Object(map.to_json()),
        }
    }

    /// Builds a node from JSON.
    #[must_use]
    pub fn from_json(json: &Json, origin: &Origin) -> Self {
        let data = match json {
            Json::Null => Data::Null,
            Json::Bool(b) => Data::Bool(*b),
            Json::Number(n) => n
                .as_i64()
                .map_or_else(|| Data::Float(n.as_f64().unwrap_or(f64::NAN)), Data::Int),
            Json::String(text) => Data::Text(text.clone()),
            Json::Array(items) => {
                Data::List(items.iter().map(|j| Self::from_json(j, origin)).collect())
            }
            Json::Object(map) => Data::Map(Mapping::from_json(map, origin)),
        };
        Self::new(data, origin.clone())
    }
}

fn non_finite(x: f64) -> Json {
    let word = if x.is_nan() {
        "nan"
    } else if x > 0.0 {
        "inf"
    } else {
        "-inf"
    };
    serde_json::json!({ "non_finite": word })
}

/// A mapping with text keys that keeps its order.
#[derive(Clone, Default, PartialEq)]
pub struct Mapping(Vec<(String, Node)>);

impl Mapping {
    /// Builds an empty mapping.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Returns the value of `key` for changing it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.0.iter_mut().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// Sets `key`, in place if it is there, else at the end.
    pub fn insert(&mut self, key: impl Into<String>, value: Node) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(old) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.0.iter().position(|(k, _)| k == key)?;
        Some(self.0.remove(at).1)
    }

    /// Goes over the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Turns the mapping into JSON; see [`Node::to_json`].
    #[must_use]
    pub fn to_json(&self) -> Map<String, Json> {
        self.iter()
            .map(|(k, v)| (k.to_owned(), v.to_json()))
            .collect()
    }

    /// Builds a mapping from JSON, every value with the same origin.
    #[must_use]
    pub fn from_json(map: &Map<String, Json>, origin: &Origin) -> Self {
        Self(
            map.iter()
                .map(|(k, v)| (k.clone(), Node::from_json(v, origin)))
                .collect(),
        )
    }
}

impl IntoIterator for Mapping {
    type Item = (String, Node);
    type IntoIter = std::vec::IntoIter<(String, Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (key, node) in self.iter() {
            if is_secret_name(key) {
                map.entry(&key, &"[redacted]");
            } else {
                map.entry(&key, node);
            }
        }
        map.finish()
    }
}
