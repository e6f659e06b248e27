//! Reading one value into its type, and writing it back.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::choices::{
    AnswerMode, AppendixSource, GateMetric, LrControlMode, LrScheduler, PairPolicy, Predictions,
    ReasoningEffort, Scope, SplitMode, UpdateMode,
};
use crate::key::{Key, Kind};
use crate::node::{Data, Mapping, Node, Origin};
use crate::problem::Problem;
use crate::suggest::nearest;
use skillopt_core::kind::NONE_WORDS;

/// A type that a key can have.
pub(crate) trait Setting: Sized {
    /// Reads a value whose kind and range [`check`] has accepted.
    fn read(node: &Node) -> Option<Self>;
    /// Writes the value as JSON.
    fn write(&self) -> Json;
}

/// Checks a value against its kind.
///
/// # Errors
/// A reason in words, and the nearest valid word if there is one.
pub(crate) fn check(kind: &Kind, node: &Node) -> Result<(), (String, Option<String>)> {
    let plain = |reason: &str| Err((reason.to_owned(), None));
    match (kind, &node.data) {
        (Kind::Bool, Data::Bool(_)) | (Kind::Map, Data::Map(_)) => Ok(()),
        (Kind::Bool, Data::Text(_)) => plain("is text, not a truth value"),
        (Kind::Bool, _) => plain("is not a truth value"),
        (Kind::Map, _) => plain("is not a mapping"),
        (Kind::Int { min, max }, Data::Int(n)) if (min..=max).contains(&n) => Ok(()),
        (Kind::Int { .. }, Data::Int(_)) => plain("is out of range"),
        (Kind::Int { .. }, Data::Float(_)) => plain("is not a whole number"),
        (Kind::Int { .. } | Kind::Float { .. }, Data::Text(_)) => plain("is text, not a number"),
        (Kind::Int { .. }, _) => plain("is not a number"),
        (Kind::Float { min, max }, Data::Float(_) | Data::Int(_)) => match number(node) {
            Some(x) if !x.is_finite() => plain("is not a finite number"),
            Some(x) if (*min..=*max).contains(&x) => Ok(()),
            _ => plain("is out of range"),
        },
        (Kind::Float { .. }, _) => plain("is not a number"),
        (Kind::FloatOrNone { .. }, Data::Text(text)) if is_none_word(text) => Ok(()),
        (Kind::FloatOrNone { min, max }, _) => {
            let (min, max) = (*min, *max);
            check(&Kind::Float { min, max }, node)
        }
        (Kind::Choice(words), _) => {
            let Some(text) = scalar_text(node) else {
                return plain("is not a word");
            };
            let text = text.trim().to_lowercase();
            let all = || {
                words
                    .iter()
                    .flat_map(|(w, a)| std::iter::once(w).chain(a.iter()))
            };
            if all().any(|w| *w == text) {
                return Ok(());
            }
            let near = nearest(&text, all().copied()).map(str::to_owned);
            Err(("is unknown".to_owned(), near))
        }
        (Kind::Words, Data::List(items)) if items.iter().all(|i| scalar_text(i).is_some()) => {
            Ok(())
        }
        (Kind::Words, Data::Text(_)) => Ok(()),
        (Kind::Words, _) => plain("is not a list of words"),
        (Kind::Text | Kind::Path | Kind::Secret, Data::Bool(_)) => {
            plain("is a truth value; quote it to make it text")
        }
        (Kind::Text | Kind::Path | Kind::Secret, _) => match scalar_text(node) {
            Some(text) if text.contains('\0') => plain("holds a NUL character"),
            Some(_) => Ok(()),
            None => plain("is not a text"),
        },
    }
}

/// Returns whether a text stands for no number.
pub(crate) fn is_none_word(text: &str) -> bool {
    NONE_WORDS.contains(&text.trim().to_lowercase().as_str())
}

/// Returns a number as a float.
pub(crate) fn number(node: &Node) -> Option<f64> {
    match &node.data {
        #[expect(clippy::cast_precision_loss, reason = "settings are far below 2^53")]
        Data::Int(n) => Some(*n as f64),
        Data::Float(x) => Some(*x),
        _ => None,
    }
}

/// Returns a scalar as the text it was written as.
pub(crate) fn scalar_text(node: &Node) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        Data::Bool(_) | Data::Int(_) | Data::Float(_) => Some(
            node.raw
                .clone()
                .unwrap_or_else(|| node.to_json().to_string()),
        ),
        _ => None,
    }
}

impl Setting for bool {
    fn read(node: &Node) -> Option<Self> {
        match node.data {
            Data::Bool(b) => Some(b),
            _ => None,
        }
    }

    fn write(&self) -> Json {
        Json::Bool(*self)
    }
}

macro_rules! whole_numbers {
    ($($ty:ty),+) => { $(
        impl Setting for $ty {
            fn read(node: &Node) -> Option<Self> {
                match node.data {
                    Data::Int(n) => Self::try_from(n).ok(),
                    _ => None,
                }
            }

            fn write(&self) -> Json {
                Json::from(*self)
            }
        }
    )+ };
}

whole_numbers!(usize, u32, u64);

impl Setting for f64 {
    fn read(node: &Node) -> Option<Self> {
        number(node)
    }

    fn write(&self) -> Json {
        Json::from(*self)
    }
}

impl Setting for String {
    fn read(node: &Node) -> Option<Self> {
        scalar_text(node)
    }

    fn write(&self) -> Json {
        Json::String(self.clone())
    }
}

impl Setting for Vec<String> {
    fn read(node: &Node) -> Option<Self> {
        match &node.data {
            Data::List(items) => items.iter().map(scalar_text).collect(),
            Data::Text(text) => Some(
                text.split(',')
                    .map(|word| word.trim().to_owned())
                    .filter(|word| !word.is_empty())
                    .collect(),
            ),
            _ => None,
        }
    }

    fn write(&self) -> Json {
        Json::from(self.clone())
    }
}

impl Setting for Map<String, Json> {
    fn read(node: &Node) -> Option<Self> {
        node.as_map().map(Mapping::to_json)
    }

    fn write(&self) -> Json {
        Json::Object(self.clone())
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(node: &Node) -> Option<Self> {
        T::read(node).map(Some)
    }

    fn write(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::write)
    }
}

macro_rules! words {
    ($($ty:ty),+) => { $(
        impl Setting for $ty {
            fn read(node: &Node) -> Option<Self> {
                Self::parse(&scalar_text(node)?)
            }

            fn write(&self) -> Json {
                Json::from(self.as_str())
            }
        }
    )+ };
}

words!(
    AnswerMode,
    AppendixSource,
    GateMetric,
    LrControlMode,
    LrScheduler,
    PairPolicy,
    Predictions,
    ReasoningEffort,
    Scope,
    SplitMode,
    UpdateMode
);

/// Takes values out of a flat mapping and notes what is wrong with them.
pub(crate) struct Reader<'a> {
    flat: &'a Mapping,
    /// What was wrong.
    pub(crate) problems: Vec<Problem>,
    /// Where the values came from.
    pub(crate) origins: BTreeMap<String, Origin>,
}

impl<'a> Reader<'a> {
    /// Starts reading.
    pub(crate) const fn new(flat: &'a Mapping) -> Self {
        Self {
            flat,
            problems: Vec::new(),
            origins: BTreeMap::new(),
        }
    }

    /// Reads `key` into `slot`. An absent or null value leaves the default.
    pub(crate) fn read<T: Setting>(&mut self, key: &Key, slot: &mut T) {
        let Some(node) = self.flat.get(key.name) else {
            return;
        };
        if node.data == Data::Null {
            return;
        }
        self.origins
            .insert(key.name.to_owned(), node.origin.clone());
        match check(&key.kind, node) {
            Ok(()) => {
                if let Some(value) = T::read(node) {
                    *slot = value;
                }
            }
            Err((reason, near)) => {
                let mut problem = Problem::new(key.path, node, reason);
                problem.allowed = Some(key.kind.allowed());
                problem.nearest = near;
                self.problems.push(problem);
            }
        }
    }
}
