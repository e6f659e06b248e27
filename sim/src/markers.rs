//! The markers by which a skill line is recognised, and the fingerprint of a text (chapter 1).

use std::collections::BTreeSet;

use memchr::memmem;

/// Longest name in a marker, in characters.
const NAME_MAX: usize = 16;

/// What a marker does to the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The family is answered well.
    Rule,
    /// The family is answered badly, rule or no rule.
    Trap,
    /// Nothing.
    Note,
}

impl Kind {
    /// Returns the word of the marker, without the colon.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "RULE",
            Self::Trap => "TRAP",
            Self::Note => "NOTE",
        }
    }

    /// Returns the canonical line of a marker of this kind. A `delete` names its target by the
    /// exact line, so there is one wording.
    #[must_use]
    pub fn line(self, name: &str) -> String {
        match self {
            Self::Rule => format!(
                "- [[RULE:{name}]] For questions of family {name}, copy the code phrase from the \
                 record exactly as written."
            ),
            Self::Trap => format!(
                "- [[TRAP:{name}]] For questions of family {name}, answer with the first word of \
                 the record only."
            ),
            Self::Note => {
                format!("- [[NOTE:{name}]] Keep the reasoning short and look at the record twice.")
            }
        }
    }
}

/// The markers of a text, each once and sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markers<'a> {
    /// Families that have a RULE.
    pub rules: BTreeSet<&'a str>,
    /// Families that have a TRAP.
    pub traps: BTreeSet<&'a str>,
    /// Tags of the NOTEs.
    pub notes: BTreeSet<&'a str>,
}

impl<'a> Markers<'a> {
    /// Finds the markers of `text`.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let mut markers = Self::default();
        markers.scan(text);
        markers
    }

    /// Adds the markers of `text`.
    pub fn scan(&mut self, text: &'a str) {
        for start in memmem::find_iter(text.as_bytes(), "[[") {
            if let Some((kind, name)) = text.get(start + 2..).and_then(parse_inner) {
                self.insert(kind, name);
            } else if let Some(inner) = text.get(start + 3..)
                && text.as_bytes().get(start + 2) == Some(&b'[')
                && let Some((kind, name)) = parse_inner(inner)
            {
                // The search does not overlap: in `[[[` the marker may start at the second one.
                self.insert(kind, name);
            }
        }
    }

    /// Adds one marker.
    pub fn insert(&mut self, kind: Kind, name: &'a str) {
        self.set(kind).insert(name);
    }

    /// Removes one marker.
    pub fn remove(&mut self, kind: Kind, name: &str) {
        self.set(kind).remove(name);
    }

    fn set(&mut self, kind: Kind) -> &mut BTreeSet<&'a str> {
        match kind {
            Kind::Rule => &mut self.rules,
            Kind::Trap => &mut self.traps,
            Kind::Note => &mut self.notes,
        }
    }

    /// Returns the fingerprint: rules, then traps, without notes.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut text = String::new();
        let rules = self.rules.iter().map(|name| (Kind::Rule, *name));
        let traps = self.traps.iter().map(|name| (Kind::Trap, *name));
        for (kind, name) in rules.chain(traps) {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(kind.as_str());
            text.push(':');
            text.push_str(name);
        }
        text
    }

    /// Returns a document with one canonical line for each marker: rules, traps, notes.
    #[must_use]
    pub fn document(&self) -> String {
        let mut text = String::from("# Answering questions about records\n\n");
        let sets = [
            (Kind::Rule, &self.rules),
            (Kind::Trap, &self.traps),
            (Kind::Note, &self.notes),
        ];
        for (kind, names) in sets {
            for name in names {
                text.push_str(&kind.line(name));
                text.push('\n');
            }
        }
        text
    }
}

/// Returns the fingerprint of `text`.
#[must_use]
pub fn fingerprint(text: &str) -> String {
    Markers::of(text).fingerprint()
}

/// Parses what follows the opening brackets, up to the closing ones.
fn parse_inner(text: &str) -> Option<(Kind, &str)> {
    let (kind, rest) = [Kind::Rule, Kind::Trap, Kind::Note]
        .into_iter()
        .find_map(|kind| Some((kind, text.strip_prefix(kind.as_str())?.strip_prefix(':')?)))?;
    let len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (name, rest) = rest.split_at(len);
    ((1..=NAME_MAX).contains(&len) && rest.starts_with("]]")).then_some((kind, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(fingerprint(text), expected, "{text}");
    }

    #[test]
    fn fingerprints_are_sorted_sets_of_rules_then_traps() {
        check("", "");
        check("no markers [[ here ]]", "");
        check(
            "- [[RULE:K07]] x\n- [[RULE:K00]] y [[RULE:K07]]",
            "RULE:K00,RULE:K07",
        );
        check("[[TRAP:K01]][[RULE:K09]]", "RULE:K09,TRAP:K01");
        check("[[NOTE:3f]] only a note", "");
    }

    #[test]
    fn the_grammar_is_kept() {
        check("[[RULE:]]", "");
        check("[[RULE:K 1]] [[RULE:K-1]] [[RULE:é]] [[rule:K1]]", "");
        check("[[RULE:0123456789abcdef]]", "RULE:0123456789abcdef");
        check("[[RULE:0123456789abcdefg]]", "");
        check("[[RULE:K01] ]", "");
        check("[[[RULE:K01]]]", "RULE:K01");
        check("[[[[RULE:K01]]", "RULE:K01");
        check("[[[[[RULE:K01]]", "RULE:K01");
        check("[[RULE:[[RULE:K02]]", "RULE:K02");
    }

    #[test]
    fn canonical_lines_hold_their_own_marker() {
        let mut markers = Markers::default();
        markers.insert(Kind::Rule, "K07");
        markers.insert(Kind::Trap, "K01");
        markers.insert(Kind::Note, "3f");
        let document = markers.document();
        assert_eq!(Markers::of(&document), markers);
        assert!(document.contains(
            "\n- [[RULE:K07]] For questions of family K07, copy the code phrase from the record \
             exactly as written.\n"
        ));
    }
}
