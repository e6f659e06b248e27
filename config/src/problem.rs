//! What is wrong with a configuration, told so that it can be put right.

use std::fmt;

use crate::address;
use crate::node::{Node, Origin};
use skillopt_core::secret::is_secret_name;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, in its structured spelling.
    pub key: String,
    /// The value, shortened; absent if there is none or it is a credential.
    pub value: Option<String>,
    /// What is wrong with it.
    pub reason: String,
    /// What is allowed.
    pub allowed: Option<String>,
    /// The name or word that was probably meant.
    pub nearest: Option<String>,
    /// Where the value was set.
    pub origin: Origin,
}

impl Problem {
    /// Tells what is wrong with the value of `key`.
    #[must_use]
    pub fn new(key: impl Into<String>, node: &Node, reason: impl Into<String>) -> Self {
        let key = key.into();
        let shown = node.show();
        let is_private = is_secret_name(&key) || address::has_password(&shown);
        Self {
            value: (!is_private).then_some(shown),
            key,
            reason: reason.into(),
            allowed: None,
            nearest: None,
            origin: node.origin.clone(),
        }
    }

    /// Tells what is wrong with `key` as a whole.
    #[must_use]
    pub fn at(key: impl Into<String>, origin: &Origin, reason: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: None,
            reason: reason.into(),
            allowed: None,
            nearest: None,
            origin: origin.clone(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.key)?;
        if let Some(value) = &self.value {
            write!(f, ": {value}")?;
        }
        write!(f, " {}", self.reason)?;
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed: {allowed}")?;
        }
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        if self.origin != Origin::Default {
            write!(f, "\n  --> {}", self.origin)?;
        }
        Ok(())
    }
}

/// Something that is accepted but probably not meant.
pub type Warning = Problem;

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(pub Vec<Problem>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
