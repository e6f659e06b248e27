//! What callers may do.

use serde::{Deserialize, Serialize};

/// What a caller may do; each may also do what those before may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look at everything of the tenant.
    Viewer,
    /// Submit runs and sweeps, pause, resume and cancel them.
    Submitter,
    /// Make tokens, drain workers.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Submitter, Self::Admin];

    /// Returns its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Admin => "admin",
        }
    }

    /// Returns its word with the article that it takes.
    #[must_use]
    pub const fn with_article(self) -> &'static str {
        match self {
            Self::Viewer => "a viewer",
            Self::Submitter => "a submitter",
            Self::Admin => "an admin",
        }
    }

    /// Reads a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }
}
