//! Versions of CLIs: their flags and events change between releases.

use std::fmt;

/// A version: three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Finds the first version in what a program prints of itself.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
        words.into_iter().find_map(|word| {
            let mut numbers = word.trim_matches('.').split('.').map(str::parse::<u32>);
            let mut next = || numbers.next()?.ok();
            Some(Self(next()?, next()?, next()?))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Versions that a CLI was tried with, the first and the last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The oldest.
    pub first: Version,
    /// The newest.
    pub last: Version,
}

impl Range {
    /// Returns whether a version was tried, or lies between two that were.
    #[must_use]
    pub fn holds(&self, version: Version) -> bool {
        (self.first..=self.last).contains(&version)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, want) in [
            ("codex-cli 0.171.0\n", Some(Version(0, 171, 0))),
            ("2.1.197 (Claude Code)", Some(Version(2, 1, 197))),
            ("GitHub Copilot CLI 1.0.102.", Some(Version(1, 0, 102))),
            ("1.18.33", Some(Version(1, 18, 33))),
            ("no version", None),
            ("1.2", None),
        ] {
            assert_eq!(Version::find(text), want, "{text}");
        }
    }

    #[test]
    fn a_range_holds_its_ends() {
        let range = Range {
            first: Version(1, 2, 3),
            last: Version(1, 10, 0),
        };
        for (version, want) in [
            (Version(1, 2, 3), true),
            (Version(1, 9, 99), true),
            (Version(1, 10, 0), true),
            (Version(1, 10, 1), false),
            (Version(1, 2, 2), false),
        ] {
            assert_eq!(range.holds(version), want, "{version}");
        }
    }
}
