//! The three parts and the names they go by.

use crate::error::LoadError;
use crate::nearest;

/// A part of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Training steps draw from it.
    Train,
    /// The gate looks at it.
    Val,
    /// Sealed until the end.
    Test,
}

impl Part {
    /// All, in file order.
    pub const ALL: [Self; 3] = [Self::Train, Self::Val, Self::Test];

    /// Names accepted by [`Self::parse`].
    const NAMES: [(&'static str, Self); 6] = [
        ("train", Self::Train),
        ("val", Self::Val),
        ("valid_seen", Self::Val),
        ("selection", Self::Val),
        ("test", Self::Test),
        ("valid_unseen", Self::Test),
    ];

    /// Reads a name: `train`; `val`, `valid_seen`, `selection`; `test`, `valid_unseen`.
    ///
    /// # Errors
    /// Any other name (D4); the text names the nearest.
    pub fn parse(name: &str) -> Result<Self, LoadError> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, part)| *part).ok_or_else(|| {
            let names = Self::NAMES.map(|(known, _)| known);
            LoadError::Unknown {
                kind: "split",
                name: name.to_owned(),
                hint: nearest::hint(name, &names),
            }
        })
    }

    /// Returns the name of its folder.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
        }
    }
}
