//! The strict gate: a candidate is accepted only if it scores higher than the current skill.
//!
//! Source: training spec, chapter 5 with D20.

mod density;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use density::{DEFAULT_LEADING_WORDS, Density};

use crate::score::Score;
use crate::suggest;

/// Which score the gate looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Exact success.
    #[default]
    Hard,
    /// Partial credit.
    Soft,
    /// A weighted mean of both.
    Mixed,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 3] = [Self::Hard, Self::Soft, Self::Mixed];

    /// Returns the name used in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::Mixed => "mixed",
        }
    }

    /// Returns the gate score of a batch. `mixed_weight` is the share of `soft` in
    /// [`Metric::Mixed`], clamped to 0–1.
    #[must_use]
    pub fn score(self, score: Score, mixed_weight: f64) -> f64 {
        match self {
            Self::Hard => score.hard,
            Self::Soft => score.soft,
            Self::Mixed => {
                let w = mixed_weight.clamp(0.0, 1.0);
                (1.0 - w) * score.hard + w * score.soft
            }
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no metric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown gate metric `{name}`{hint}; expected `hard`, `soft` or `mixed`")]
pub struct UnknownMetric {
    name: String,
    hint: String,
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    /// Reads a name; case counts (callers that are lenient trim and lower it first).
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| UnknownMetric {
                name: crate::text::head(name, 80).to_owned(),
                hint: suggest::hint(name, Self::ALL.map(Self::name)),
            })
    }
}

/// How a candidate is scored for the gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Scoring {
    /// Which score counts.
    pub metric: Metric,
    /// Share of `soft` in [`Metric::Mixed`].
    pub mixed_weight: f64,
    /// Bonus for weighty words, if it is on.
    pub density: Option<Density>,
}

impl Default for Scoring {
    fn default() -> Self {
        Self {
            metric: Metric::Hard,
            mixed_weight: 0.5,
            density: None,
        }
    }
}

impl Scoring {
    /// Returns the gate score of a skill text that reached `score`.
    #[must_use]
    pub fn gate_score(&self, score: Score, skill: &str) -> f64 {
        let base = self.metric.score(score, self.mixed_weight);
        let bonus = self
            .density
            .as_ref()
            .map_or(0.0, |density| density.weight * density.of(skill));
        base + bonus
    }
}

/// What the gate decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Higher than current and best: both become the candidate.
    AcceptNewBest,
    /// Higher than current only.
    Accept,
    /// Not higher than current: nothing moves.
    Reject,
    /// The gate is off: current becomes the candidate whatever its score.
    ForceAccept,
}

impl Action {
    /// Returns the name used in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AcceptNewBest => "accept_new_best",
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::ForceAccept => "force_accept",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Current or best score is not a finite number: no comparison with it means anything.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "the {which} score is {score}, so nothing can be compared with it; evaluate the {which} skill again"
)]
pub struct NonFiniteState {
    /// `current` or `best`.
    pub which: &'static str,
    /// The score.
    pub score: f64,
}

/// Compares a candidate's gate score with those of the current and the best skill: strictly, with
/// no tolerance. A candidate whose score is not finite is rejected.
///
/// # Errors
/// The current or best score is not finite.
pub fn decide(candidate: f64, current: f64, best: f64) -> Result<Action, NonFiniteState> {
    check_state(current, best)?;
    Ok(if !candidate.is_finite() || candidate <= current {
        Action::Reject
    } else if candidate > best {
        Action::AcceptNewBest
    } else {
        Action::Accept
    })
}

fn check_state(current: f64, best: f64) -> Result<(), NonFiniteState> {
    for (which, score) in [("current", current), ("best", best)] {
        if !score.is_finite() {
            return Err(NonFiniteState { which, score });
        }
    }
    Ok(())
}

/// Where a best skill comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Origin {
    /// A step, counted over the whole run; 0 is the start.
    Step(u64),
    /// Something else, by name, such as a slow update.
    Other(String),
}

/// The current and the best skill with their gate scores. `S` is how the caller names a skill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing<S> {
    /// The skill being trained.
    pub current: S,
    /// Its gate score.
    pub current_score: f64,
    /// The skill with the highest gate score so far.
    pub best: S,
    /// Its gate score.
    pub best_score: f64,
    /// Where it comes from.
    pub best_step: Origin,
}

impl<S: Clone> Standing<S> {
    /// Returns the standing at the start: one skill is current and best.
    #[must_use]
    pub fn at_start(skill: S, score: f64) -> Self {
        Self {
            current: skill.clone(),
            current_score: score,
            best: skill,
            best_score: score,
            best_step: Origin::Step(0),
        }
    }

    /// Lets the gate decide on a candidate and moves accordingly.
    ///
    /// # Errors
    /// A score of the standing is not finite; nothing moves.
    pub fn consider(
        &mut self,
        candidate: S,
        score: f64,
        origin: Origin,
    ) -> Result<Action, NonFiniteState> {
        let action = decide(score, self.current_score, self.best_score)?;
        if action == Action::AcceptNewBest {
            self.best = candidate.clone();
            self.best_score = score;
            self.best_step = origin;
        }
        if action != Action::Reject {
            self.current = candidate;
            self.current_score = score;
        }
        Ok(action)
    }

    /// Takes a candidate with the gate off: current always moves, best only on a strictly higher
    /// score (5.3).
    ///
    /// # Errors
    /// The candidate's score or one of the standing is not finite; nothing moves.
    pub fn force(
        &mut self,
        candidate: S,
        score: f64,
        origin: Origin,
    ) -> Result<Action, NonFiniteState> {
        check_state(self.current_score, self.best_score)?;
        check_state(score, self.best_score)?;
        if score > self.best_score {
            self.best = candidate.clone();
            self.best_score = score;
            self.best_step = origin;
        }
        self.current = candidate;
        self.current_score = score;
        Ok(Action::ForceAccept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_the_gate_off_only_the_best_is_kept() {
        let mut standing = Standing::at_start("a", 0.5);
        let forced = standing.force("b", 0.2, Origin::Step(1));
        assert_eq!(forced, Ok(Action::ForceAccept));
        assert_eq!((standing.current, standing.best), ("b", "a"));
        standing.force("c", 0.6, Origin::Step(2)).unwrap();
        assert_eq!((standing.current, standing.best), ("c", "c"));
        assert!(standing.force("d", f64::NAN, Origin::Step(3)).is_err());
        assert_eq!(standing.current, "c");
    }

    #[test]
    fn an_infinite_incumbent_is_an_error() {
        for (current, best) in [
            (f64::INFINITY, 1.0),
            (0.5, f64::NAN),
            (f64::NEG_INFINITY, 0.0),
        ] {
            assert!(decide(0.9, current, best).is_err());
        }
    }

    #[test]
    fn the_density_bonus_can_break_a_tie() {
        let scoring = Scoring {
            density: Some(Density::default()),
            ..Scoring::default()
        };
        let score = Score {
            hard: 1.0,
            soft: 1.0,
        };
        assert!((scoring.gate_score(score, "must must") - 1.05).abs() < 1e-12);
        assert!((scoring.gate_score(score, "") - 1.0).abs() < 1e-12);
    }
}
