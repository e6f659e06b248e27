//! Everything that can be set, in one table from which command-line arguments, the control
//! endpoint and the help are made (chapters 3 and 7).

mod table;

use serde_json::{Map, Value};
use skillopt_core::suggest::nearest;

pub use table::{SETTINGS, Setting};

use crate::faults::Chances;
use crate::latency::Latency;

/// What the content of replies depends on, besides the call itself (chapter 3).
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// First part of every draw.
    pub seed: u64,
    /// Chance of a right answer with the family's RULE.
    pub p_rule: f64,
    /// Chance of a right answer with neither RULE nor TRAP.
    pub p_none: f64,
    /// Chance of a right answer with the family's TRAP.
    pub p_trap: f64,
    /// Taken off every chance for each TRAP in the skill.
    pub crowd: f64,
    /// Share of items whose luck does not change with the skill.
    pub sticky: f64,
    /// Share of wrong answers that are nearly right.
    pub p_near: f64,
    /// Chance that an error analyst adds a harmful edit.
    pub p_harm: f64,
    /// Chance that a success analyst proposes a NOTE.
    pub p_note: f64,
    /// Missing rules that one error analyst may add.
    pub rules_per_call: usize,
    /// Least length of a target's reply, in characters.
    pub reply_chars: usize,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            seed: 42,
            p_rule: 0.92,
            p_none: 0.15,
            p_trap: 0.05,
            crowd: 0.01,
            sticky: 0.7,
            p_near: 0.5,
            p_harm: 0.15,
            p_note: 0.3,
            rules_per_call: 1,
            reply_chars: 0,
        }
    }
}

/// Parameters, latencies, faults and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// What the content depends on.
    pub params: Params,
    /// Latency of every call.
    pub latency: Latency,
    /// Latency of target calls, if it differs.
    pub latency_target: Option<Latency>,
    /// Latency of all other calls, if it differs.
    pub latency_optimizer: Option<Latency>,
    /// Chances of faults.
    pub chances: Chances,
    /// How long a hung call is held, in seconds.
    pub hang_s: f64,
    /// Seconds sent with a 429; `None` sends no header.
    pub retry_after_s: Option<u64>,
    /// Most calls in flight; `None` is no limit.
    pub max_inflight: Option<u64>,
    /// Most calls in a second; `None` is no limit.
    pub rps: Option<u64>,
    /// Every call is answered with HTTP 401.
    pub is_unauthorized: bool,
    /// Every call has its connection cut.
    pub is_dead: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            params: Params::default(),
            latency: Latency::NONE,
            latency_target: None,
            latency_optimizer: None,
            chances: Chances::default(),
            hang_s: 3600.0,
            retry_after_s: None,
            max_inflight: None,
            rps: None,
            is_unauthorized: false,
            is_dead: false,
        }
    }
}

/// A setting that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("setting `{name}` is unknown{hint}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
    /// The value does not fit.
    #[error("setting `{name}` cannot be `{value}`; expected {expected}")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// The value, cut.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// A `name=value` pair without `=`.
    #[error("`{0}` is not a setting; expected `name=value`, such as `p429=0.05`")]
    NoPair(String),
    /// The settings are not a JSON object.
    #[error("settings must be a JSON object, such as {{\"p429\": 0.05}}")]
    NoObject,
}

impl Settings {
    /// Makes one setting from text; an empty text stands for the default.
    ///
    /// # Errors
    /// The name is unknown or the value does not fit; nothing changes then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let setting = find(name)?;
        let value = value.trim();
        let text = if value.is_empty() {
            setting.default
        } else {
            value
        };
        (setting.set)(self, text).ok_or_else(|| SettingError::Invalid {
            name: setting.name,
            value: value.chars().take(80).collect(),
            expected: setting.expected,
        })
    }

    /// Returns a setting as text; empty if it is absent.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn get(&self, name: &str) -> Result<String, SettingError> {
        Ok((find(name)?.get)(self))
    }

    /// Returns the default settings, changed by `name=value` pairs.
    ///
    /// # Errors
    /// The first pair that is none, has an unknown name or an unfit value.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for pair in pairs {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| SettingError::NoPair(pair.chars().take(80).collect()))?;
            settings.set(name.trim(), value)?;
        }
        Ok(settings)
    }

    /// Returns these settings, changed by a JSON object of names and values; `null` stands for
    /// the default.
    ///
    /// # Errors
    /// It is no object, or the first setting that cannot be made.
    pub fn with_json(&self, json: &Value) -> Result<Self, SettingError> {
        let mut settings = self.clone();
        for (name, value) in json.as_object().ok_or(SettingError::NoObject)? {
            match value {
                Value::String(text) => settings.set(name, text),
                Value::Null => settings.set(name, ""),
                other => settings.set(name, &other.to_string()),
            }?;
        }
        Ok(settings)
    }

    /// Returns every setting by name, numbers and switches as such, absent ones as `null`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let value = |text: String| match text.as_str() {
            "" => Value::Null,
            _ => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        };
        let all: Map<String, Value> = SETTINGS
            .iter()
            .map(|setting| (setting.name.to_owned(), value((setting.get)(self))))
            .collect();
        Value::Object(all)
    }
}

fn find(name: &str) -> Result<&'static Setting, SettingError> {
    SETTINGS
        .iter()
        .find(|setting| setting.name == name)
        .ok_or_else(|| SettingError::Unknown {
            name: name.chars().take(80).collect(),
            hint: hint(name),
        })
}

fn hint(name: &str) -> String {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    nearest(name, names.iter().copied()).map_or_else(
        || format!("; expected one of {}", names.join(", ")),
        |near| format!("; did you mean `{near}`?"),
    )
}

#[cfg(test)]
mod tests;
