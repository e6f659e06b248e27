//! The table of settings: one row each.

use std::str::FromStr;

use super::Settings;

/// One setting.
pub struct Setting {
    /// Name, as on the command line and in JSON.
    pub name: &'static str,
    /// Default, as text; empty if the setting is absent by default.
    pub default: &'static str,
    /// What the value must be, for messages.
    pub expected: &'static str,
    /// One line of help, in imperative mood.
    pub help: &'static str,
    /// Parses and stores the value; `None` if it does not fit.
    pub(super) set: fn(&mut Settings, &str) -> Option<()>,
    /// Writes the value; empty if absent.
    pub(super) get: fn(&Settings) -> String,
}

const CHANCE: &str = "a number from 0 to 1";
const COUNT: &str = "a whole number";
const LIMIT: &str = "a whole number of at least 1, or nothing";
const SWITCH: &str = "`true` or `false`";
const LATENCY: &str = "`fixed:MS`, `uniform:A,B` or `lognormal:MEDIAN,SIGMA[,CAP]` in milliseconds";

/// Writes a row whose value is parsed by `$parse` into the field `$field`.
macro_rules! row {
    ($name:literal, $default:literal, $expected:expr, $parse:expr, $show:expr, $($field:ident).+, $help:literal) => {
        Setting {
            name: $name,
            default: $default,
            expected: $expected,
            help: $help,
            set: |settings, text| {
                settings.$($field).+ = $parse(text)?;
                Some(())
            },
            get: |settings| $show(&settings.$($field).+),
        }
    };
}

/// Every setting: the parameters of chapter 3, the settings of chapter 7, and three of our own
/// for tests of failures (`pmalformed`, `unauthorized`, `dead`).
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    row!("seed", "42", COUNT, parse, show, params.seed, "Set the first part of every draw"),
    row!("p-rule", "0.92", CHANCE, chance, show, params.p_rule, "Set the chance of a right answer with the family's rule"),
    row!("p-none", "0.15", CHANCE, chance, show, params.p_none, "Set the chance of a right answer with neither rule nor trap"),
    row!("p-trap", "0.05", CHANCE, chance, show, params.p_trap, "Set the chance of a right answer with the family's trap"),
    row!("crowd", "0.01", CHANCE, chance, show, params.crowd, "Take this off every chance for each trap in the skill"),
    row!("sticky", "0.7", CHANCE, chance, show, params.sticky, "Set the share of items whose luck does not change with the skill"),
    row!("p-near", "0.5", CHANCE, chance, show, params.p_near, "Set the share of wrong answers that are nearly right"),
    row!("p-harm", "0.15", CHANCE, chance, show, params.p_harm, "Set the chance that an error analyst adds a harmful edit"),
    row!("p-note", "0.3", CHANCE, chance, show, params.p_note, "Set the chance that a success analyst proposes a note"),
    row!("rules-per-call", "1", COUNT, parse, show, params.rules_per_call, "Let one error analyst add so many missing rules"),
    row!("reply-chars", "0", "a whole number up to 1000000", reply_chars, show, params.reply_chars, "Pad target replies to at least this length"),
    row!("latency", "fixed:0", LATENCY, latency, show, latency, "Answer after so many milliseconds: fixed:MS, uniform:A,B or lognormal:MEDIAN,SIGMA[,CAP]"),
    row!("latency-target", "", LATENCY, optional_latency, show_optional, latency_target, "Use another latency for target calls"),
    row!("latency-optimizer", "", LATENCY, optional_latency, show_optional, latency_optimizer, "Use another latency for all calls but the target's"),
    row!("p429", "0", CHANCE, chance, show, chances.p429, "Refuse this share of calls with HTTP 429"),
    row!("p500", "0", CHANCE, chance, show, chances.p500, "Answer this share of calls with HTTP 500"),
    row!("preset", "0", CHANCE, chance, show, chances.preset, "Cut the connection of this share of calls"),
    row!("phang", "0", CHANCE, chance, show, chances.phang, "Never answer this share of calls"),
    row!("pgarbage", "0", CHANCE, chance, show, chances.pgarbage, "Answer this share of calls with text that is not the JSON asked for"),
    row!("pmalformed", "0", CHANCE, chance, show, chances.pmalformed, "Answer this share of calls with a body that is no JSON"),
    row!("hang-s", "3600", "a number of seconds up to 86400", seconds, show, hang_s, "Hold hung calls for so many seconds"),
    row!("retry-after", "", "a whole number of seconds, or nothing", optional, show_optional, retry_after_s, "Send Retry-After with so many seconds on HTTP 429"),
    row!("max-inflight", "", LIMIT, limit, show_optional, max_inflight, "Refuse calls above so many in flight with HTTP 429"),
    row!("rps", "", LIMIT, limit, show_optional, rps, "Refuse calls above so many in a second with HTTP 429"),
    row!("unauthorized", "false", SWITCH, parse, show, is_unauthorized, "Answer every call with HTTP 401"),
    row!("dead", "false", SWITCH, parse, show, is_dead, "Cut the connection of every call"),
];

fn parse<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn show(value: &impl ToString) -> String {
    value.to_string()
}

fn chance(text: &str) -> Option<f64> {
    parse(text).filter(|p| (0.0..=1.0).contains(p))
}

fn seconds(text: &str) -> Option<f64> {
    parse(text).filter(|s| (0.0..=86_400.0).contains(s))
}

fn reply_chars(text: &str) -> Option<usize> {
    parse(text).filter(|n| *n <= 1_000_000)
}

fn latency(text: &str) -> Option<crate::latency::Latency> {
    parse(text)
}

/// Parses a value that may be absent; the outer `None` means that it does not fit.
fn optional<T: FromStr>(text: &str) -> Option<Option<T>> {
    if text.is_empty() {
        Some(None)
    } else {
        parse(text).map(Some)
    }
}

fn optional_latency(text: &str) -> Option<Option<crate::latency::Latency>> {
    optional(text)
}

fn limit(text: &str) -> Option<Option<u64>> {
    optional(text).filter(|n| *n != Some(0))
}

fn show_optional(value: &Option<impl ToString>) -> String {
    value.as_ref().map(ToString::to_string).unwrap_or_default()
}
