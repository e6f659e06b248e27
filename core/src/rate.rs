//! Who sets a step's edit budget, and how a model's own choice is read.
//!
//! Source: training spec, 4.2, 4.3 with D17 and D18.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::loose;
use crate::update_mode::{UnknownName, parse_name};

/// Who decides how many items a step may apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// The scheduler.
    #[default]
    Fixed,
    /// The optimizer model, once per step.
    Autonomous,
    /// Nobody: no limit, neither at the ranking nor at the analysts (D17).
    None,
}

impl Control {
    /// Reads a spelling, whatever its case; empty text means [`Self::Fixed`].
    ///
    /// # Errors
    /// The spelling is unknown.
    pub fn parse(text: &str) -> Result<Self, UnknownName> {
        const SPELLINGS: &[(&str, Control)] = &[
            ("fixed", Control::Fixed),
            ("manual", Control::Fixed),
            ("scheduler", Control::Fixed),
            ("scheduled", Control::Fixed),
            ("autonomous", Control::Autonomous),
            ("auto", Control::Autonomous),
            ("optimizer", Control::Autonomous),
            ("none", Control::None),
            ("off", Control::None),
            ("no_lr", Control::None),
        ];
        parse_name("learning-rate control mode", text, Self::Fixed, SPELLINGS)
    }

    /// Returns the canonical name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Autonomous => "autonomous",
            Self::None => "none",
        }
    }
}

/// The recorded outcome of an autonomous decision (`lr_decision.json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The count that is used.
    pub learning_rate: u64,
    /// The count the model wrote; 0 if nothing usable.
    pub raw_learning_rate: u64,
    /// How many items there were to choose from.
    pub available_update_items: u64,
    /// Whether the model asked for more than there were.
    pub clamped: bool,
    /// Whether the answer was unusable, so that nothing is applied.
    pub fallback: bool,
    /// The model's reasons.
    pub reasoning: String,
    /// `low`, `medium`, `high`, or whatever the model wrote.
    pub confidence: String,
    /// Risks the model named.
    pub risk_notes: Vec<String>,
    /// The answer as received.
    pub raw_response: String,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Reads a count out of whatever the model wrote; `None` if there is none in it.
#[must_use]
pub fn coerce(value: &Value) -> Option<u64> {
    match value {
        Value::Null | Value::Bool(_) => None,
        Value::Number(n) if n.is_u64() => n.as_u64(),
        Value::Number(n) => loose::integer(value)
            .map(|n| u64::try_from(n).unwrap_or(0))
            // Beyond every integer: as many as there are, or none.
            .or_else(|| Some(if n.as_f64()? > 0.0 { u64::MAX } else { 0 })),
        other => first_integer(&loose::text(other)),
    }
}

/// Returns the first `-?digits` of a text, at least 0; more digits than fit mean the largest.
fn first_integer(text: &str) -> Option<u64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let (before, rest) = text.split_at(start);
    if before.ends_with('-') {
        return Some(0);
    }
    let digits: &str = rest
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap_or_default();
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_out_of_anything() {
        for (value, want) in [
            (json!(3), Some(3)),
            (json!(-2), Some(0)),
            (json!(2.7), Some(2)),
            (json!(1e300), Some(u64::MAX)),
            (json!(-1e300), Some(0)),
            (json!("about 2 or 3"), Some(2)),
            (json!("-5"), Some(0)),
            (json!("99999999999999999999999"), Some(u64::MAX)),
            (json!("٣"), None),
            (json!(true), None),
            (json!(null), None),
            (json!(""), None),
        ] {
            assert_eq!(coerce(&value), want, "{value}");
        }
    }

    #[test]
    fn spellings_map_to_controls() {
        for (text, want) in [
            ("", Control::Fixed),
            ("Scheduler", Control::Fixed),
            ("auto", Control::Autonomous),
            ("OFF", Control::None),
        ] {
            assert_eq!(Control::parse(text), Ok(want), "{text:?}");
        }
        let error = Control::parse("autonomus").unwrap_err().to_string();
        assert!(error.contains("did you mean `autonomous`?"), "{error}");
    }
}
