//! Lets a CLI that speaks only Responses use a provider that speaks only Chat Completions.
//!
//! What Chat Completions cannot say and no answer hangs on is left out of a request: reasoning of
//! earlier turns and the provider's own tools. Anything else that is not known is refused, by its kind.
//! Images of a tool's output follow it in a message of the user's: a tool's message holds text alone.
//! A custom tool becomes a function with the one argument `input`, a namespace
//! of tools becomes functions with its name before theirs; answers are turned back.

mod answer;
mod request;

use std::collections::BTreeMap;

pub use self::answer::{Answering, whole};
pub use self::request::request;

/// How tools of the CLI are called towards the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<String, Known>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    name: String,
    namespace: Option<String>,
    is_custom: bool,
}

impl Names {
    fn add(&mut self, outside: &str, known: Known) {
        self.0.insert(outside.to_owned(), known);
    }

    fn get(&self, outside: &str) -> Known {
        self.0.get(outside).cloned().unwrap_or_else(|| Known {
            name: outside.to_owned(),
            namespace: None,
            is_custom: false,
        })
    }
}

#[cfg(test)]
mod tests;
