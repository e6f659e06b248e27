//! What is known about one key of the configuration.

use serde_json::Value as Json;
pub use skillopt_core::kind::{HUGE, Kind, float, int};

/// How a key can be given and what it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Has a flag of its own on the command line.
    pub flag: bool,
    /// Changes what a run computes (a number, a text, a decision), not only how fast or where.
    pub result: bool,
}

/// A flag of its own; changes the result.
pub const FLAG: Use = Use {
    flag: true,
    result: true,
};
/// Only in files and by `--set`; changes the result.
pub const FILE: Use = Use {
    flag: false,
    result: true,
};
/// A flag of its own; changes only speed or place.
pub const FLAG_OPS: Use = Use {
    flag: true,
    result: false,
};
/// Only in files and by `--set`; changes only speed or place.
pub const FILE_OPS: Use = Use {
    flag: false,
    result: false,
};

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in flat files, in `config.json` and of the field of [`crate::RunConfig`].
    pub name: &'static str,
    /// Name in structured files: section, dot, key.
    pub path: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// How it can be given and what it changes.
    pub usage: Use,
    /// What it means; the first line stands alone.
    pub help: &'static str,
    /// The value if nobody sets it.
    pub default: fn() -> Json,
}

impl Key {
    /// Returns the section of a structured file.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    /// Returns the key inside its section.
    #[must_use]
    pub fn inner(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, key)| key)
    }
}
