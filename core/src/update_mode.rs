//! Update modes: what kind of proposal the optimizer makes, and where it stands in its answers.
//!
//! Source: training spec, 2.2. An unknown spelling is an error (D5).

use std::fmt;

use crate::suggest;

/// What an optimizer call proposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpdateMode {
    /// Edits of the current document.
    #[default]
    Patch,
    /// Advice that one later call turns into a new document.
    Suggestions,
    /// Complete replacement documents.
    FullRewrite,
}

/// A name of a closed list that is not on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{given}` is unknown; expected one of {expected}{hint}")]
pub struct UnknownName {
    what: &'static str,
    given: String,
    expected: String,
    hint: String,
}

impl UnknownName {
    /// Names the thing, the given text and the names that would have been right.
    #[must_use]
    pub fn new(what: &'static str, given: &str, expected: &[&str]) -> Self {
        Self {
            what,
            given: crate::text::head(given, 80).to_owned(),
            expected: expected
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", "),
            hint: suggest::hint(given, expected.iter().copied()),
        }
    }
}

impl UpdateMode {
    /// Every accepted spelling with its mode; the first of each mode is the canonical one.
    const SPELLINGS: &'static [(&'static str, Self)] = &[
        ("patch", Self::Patch),
        ("edits", Self::Patch),
        ("rewrite_from_suggestions", Self::Suggestions),
        ("rewrite", Self::Suggestions),
        ("suggestions", Self::Suggestions),
        ("rewrite_suggestions", Self::Suggestions),
        ("full_rewrite_minibatch", Self::FullRewrite),
        ("full_rewrite", Self::FullRewrite),
        ("minibatch_full_rewrite", Self::FullRewrite),
        ("skill_rewrite_minibatch", Self::FullRewrite),
    ];

    /// Reads a spelling, whatever its case; empty text means [`Self::Patch`].
    ///
    /// # Errors
    /// The spelling is unknown.
    pub fn parse(text: &str) -> Result<Self, UnknownName> {
        parse_name("skill update mode", text, Self::Patch, Self::SPELLINGS)
    }

    /// Returns the canonical name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Patch => "patch",
            Self::Suggestions => "rewrite_from_suggestions",
            Self::FullRewrite => "full_rewrite_minibatch",
        }
    }

    /// Returns the key under which a patch carries its items.
    #[must_use]
    pub const fn payload_key(self) -> &'static str {
        match self {
            Self::Patch => "edits",
            Self::Suggestions => "revise_suggestions",
            Self::FullRewrite => "skill_candidates",
        }
    }

    /// Returns what prompts call the items.
    #[must_use]
    pub const fn item_noun(self) -> &'static str {
        match self {
            Self::Patch => "edits",
            Self::Suggestions => "suggestions",
            Self::FullRewrite => "candidates",
        }
    }

    /// Returns the ending of the template names of this mode.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Patch => "",
            Self::Suggestions => "_suggestions",
            Self::FullRewrite => "_full_rewrite",
        }
    }
}

impl fmt::Display for UpdateMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads one of `spellings` after trimming and lowering its case; empty text means `default`.
pub(crate) fn parse_name<T: Copy>(
    what: &'static str,
    text: &str,
    default: T,
    spellings: &[(&str, T)],
) -> Result<T, UnknownName> {
    let name = crate::text::trim(text).to_lowercase();
    if name.is_empty() {
        return Ok(default);
    }
    spellings
        .iter()
        .find(|(spelling, _)| *spelling == name)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let expected: Vec<&str> = spellings.iter().map(|(spelling, _)| *spelling).collect();
            UnknownName::new(what, text, &expected)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_map_to_modes() {
        for (text, mode) in [
            ("", UpdateMode::Patch),
            (" PATCH ", UpdateMode::Patch),
            ("rewrite", UpdateMode::Suggestions),
            ("Full_Rewrite", UpdateMode::FullRewrite),
        ] {
            assert_eq!(UpdateMode::parse(text), Ok(mode), "{text:?}");
        }
    }

    #[test]
    fn a_typo_is_told_the_nearest_name() {
        let error = UpdateMode::parse("pacth").unwrap_err().to_string();
        assert!(error.contains("did you mean `patch`?"), "{error}");
    }
}
