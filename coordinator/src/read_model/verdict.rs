//! What became of a step, in one word and one mark (dashboard spec, chapter 4).

use serde::{Deserialize, Serialize};

/// What became of a step's proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is better on the val split, and kept.
    Accepted,
    /// It is not better.
    Refused,
    /// The gate could not decide.
    CannotTell,
    /// There was nothing to judge.
    #[default]
    Skipped,
    /// Nobody judged it.
    TakenWithoutGate,
}

impl Verdict {
    /// Returns the verdict of a record's action.
    #[must_use]
    pub fn of(action: &str) -> Self {
        match action {
            "accept" | "accept_new_best" => Self::Accepted,
            "reject" => Self::Refused,
            "cannot_tell" => Self::CannotTell,
            "force_accept" => Self::TakenWithoutGate,
            _ => Self::Skipped,
        }
    }

    /// Returns the word that people see.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::CannotTell => "cannot tell",
            Self::Skipped => "skipped",
            Self::TakenWithoutGate => "taken without gate",
        }
    }

    /// Returns the mark that goes with the word.
    #[must_use]
    pub const fn mark(self) -> char {
        match self {
            Self::Accepted => '●',
            Self::Refused => '✕',
            Self::CannotTell => '◇',
            Self::Skipped => '–',
            Self::TakenWithoutGate => '□',
        }
    }

    /// Returns the mark for a terminal without Unicode.
    #[must_use]
    pub const fn plain_mark(self) -> char {
        match self {
            Self::Accepted => '*',
            Self::Refused => 'x',
            Self::CannotTell => '?',
            Self::Skipped => '-',
            Self::TakenWithoutGate => '#',
        }
    }

    /// All verdicts, in the order in which people count them.
    pub const ALL: [Self; 5] = [
        Self::Accepted,
        Self::Refused,
        Self::CannotTell,
        Self::Skipped,
        Self::TakenWithoutGate,
    ];
}
