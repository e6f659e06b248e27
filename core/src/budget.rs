//! The edit budget of a step: the "textual learning rate".
//!
//! Source: training spec, 4.1 and 4.4 with D16 and D19.

use std::f64::consts::PI;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::suggest;

/// The budget that means "no limit".
pub const UNLIMITED: u32 = 999;

/// How the budget moves over a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Always the maximum.
    Constant,
    /// From the maximum down to the floor in a straight line.
    Linear,
    /// From the maximum down to the floor along half a cosine wave.
    Cosine,
    /// Always [`UNLIMITED`].
    Autonomous,
}

impl Schedule {
    /// All schedules.
    pub const ALL: [Self; 4] = [Self::Constant, Self::Linear, Self::Cosine, Self::Autonomous];

    /// Returns the name used in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Cosine => "cosine",
            Self::Autonomous => "autonomous",
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown schedule `{name}`{hint}; expected `constant`, `linear`, `cosine` or `autonomous`")]
pub struct UnknownSchedule {
    name: String,
    hint: String,
}

impl FromStr for Schedule {
    type Err = UnknownSchedule;

    /// Reads a name; case counts.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|schedule| schedule.name() == name)
            .ok_or_else(|| UnknownSchedule {
                name: crate::text::head(name, 80).to_owned(),
                hint: suggest::hint(name, Self::ALL.map(Self::name)),
            })
    }
}

/// What a scheduler is built from; fixed for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How the budget moves.
    pub schedule: Schedule,
    /// First and highest budget, in edits.
    pub max: u32,
    /// Last and lowest budget, in edits; one above `max` counts as `max` (D16).
    pub min: u32,
    /// Number of steps of the run.
    pub total_steps: u32,
}

impl Plan {
    /// Returns the budget of the `call`-th step that reaches selection, counted from 1. Beyond the
    /// last step it stays at the floor.
    #[must_use]
    pub fn budget(&self, call: i64) -> u32 {
        let min = self.min.min(self.max);
        let (high, low) = (f64::from(self.max), f64::from(min));
        let total = i64::from(self.total_steps);
        if self.schedule == Schedule::Autonomous {
            return UNLIMITED;
        }
        if self.schedule == Schedule::Constant || total <= 1 {
            return self.max;
        }
        #[expect(clippy::cast_precision_loss, reason = "both are below 2^32")]
        let t = call.clamp(-total, total) as f64 / total as f64;
        // The order of operations is part of the format: some values lie on a half.
        let value = match self.schedule {
            Schedule::Linear => high + (low - high) * t,
            _ => low + 0.5 * (high - low) * (1.0 + (PI * t).cos()),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 2^33, and the cast saturates"
        )]
        let rounded = value.round_ties_even() as u32;
        rounded.max(min)
    }
}

/// A plan and how far it has come. The position counts the steps that reached selection, and only
/// those (D19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduler {
    plan: Plan,
    position: u32,
}

/// What is persisted of a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerState {
    /// Number of budgets handed out so far.
    #[serde(default)]
    pub current_step: u32,
}

impl Scheduler {
    /// Returns a scheduler in front of its first step.
    #[must_use]
    pub const fn new(plan: Plan) -> Self {
        Self { plan, position: 0 }
    }

    /// Returns a scheduler that goes on where another one stopped.
    #[must_use]
    pub const fn resume(plan: Plan, state: SchedulerState) -> Self {
        Self {
            plan,
            position: state.current_step,
        }
    }

    /// Goes on by one step and returns its budget, in edits.
    pub fn advance(&mut self) -> u32 {
        self.position = self.position.saturating_add(1);
        self.plan.budget(self.position.into())
    }

    /// Returns what to persist.
    #[must_use]
    pub const fn state(&self) -> SchedulerState {
        SchedulerState {
            current_step: self.position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_recipe_spends_as_documented() {
        let mut scheduler = Scheduler::new(Plan {
            schedule: Schedule::Cosine,
            max: 4,
            min: 2,
            total_steps: 40,
        });
        let budgets: Vec<u32> = (0..40).map(|_| scheduler.advance()).collect();
        let count = |n| budgets.iter().filter(|b| **b == n).count();
        assert_eq!((count(4), count(3), count(2)), (13, 13, 14));
        assert!(budgets.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_floor_above_the_maximum_is_the_maximum() {
        for schedule in [Schedule::Constant, Schedule::Linear, Schedule::Cosine] {
            let plan = Plan {
                schedule,
                max: 1,
                min: 2,
                total_steps: 7,
            };
            assert!((1..20).all(|call| plan.budget(call) == 1), "{schedule}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = "Cosine".parse::<Schedule>().unwrap_err();
        assert!(
            error.to_string().contains("did you mean `cosine`?"),
            "{error}"
        );
    }
}
