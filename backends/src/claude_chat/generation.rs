//! What a model of Anthropic's understands, told by its name: how it thinks, whether a schema binds
//! it. A name that says nothing (a gateway's own) gets only what every server understands.

/// Smallest budget of thinking that the interface takes, in tokens.
const BUDGET_MIN: u32 = 1_024;

/// What one model understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    /// Major and minor version, if the name has one.
    version: Option<(u32, u32)>,
    is_opus: bool,
}

/// How a call asks for thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    /// The model decides, guided by the effort.
    Adaptive,
    /// Up to so many tokens.
    Budget(u32),
}

/// What a call says of reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reasoning {
    /// Whether, and how, it thinks first.
    pub(super) thinking: Option<Thinking>,
    /// Effort of the whole answer.
    pub(super) effort: Option<&'static str>,
}

impl Generation {
    /// Reads a name like `claude-sonnet-4-6`, `claude-3-7-sonnet-20250219` or
    /// `anthropic.claude-opus-4-5-20251101-v1:0`.
    pub(super) fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let after = model.split_once("claude").map_or("", |(_, after)| after);
        let mut words = after
            .split(|c: char| !c.is_ascii_alphanumeric())
            .skip_while(|word| number(word).is_none());
        let version = words.next().and_then(number).map(|major| {
            let minor = words.next().and_then(number);
            (major, minor.unwrap_or(0))
        });
        Self {
            version,
            is_opus: after.contains("opus"),
        }
    }

    /// Returns what to say for an effort, in an answer of at most `max_tokens`.
    pub(super) fn reasoning(self, effort: &str, max_tokens: u32) -> Reasoning {
        let Some(version) = self.version else {
            return Reasoning::default();
        };
        let Some(effort) = known(effort) else {
            return Reasoning::default();
        };
        let thinking = if version >= (4, 6) {
            Some(Thinking::Adaptive)
        } else if version >= (3, 7) {
            budget(effort, max_tokens).map(Thinking::Budget)
        } else {
            None
        };
        let effort = match (version, effort) {
            (v, effort) if v >= (4, 7) => Some(effort),
            ((4, 6), "xhigh") => Some("max"),
            ((4, 6), effort) => Some(effort),
            ((4, 5), "xhigh" | "max") if self.is_opus => Some("high"),
            ((4, 5), effort) if self.is_opus => Some(effort),
            _ => None,
        };
        Reasoning { thinking, effort }
    }

    /// Returns whether the interface itself binds the answer to a schema; where it does not, a tool
    /// that must be called takes its place.
    pub(super) fn binds_schemas(self) -> bool {
        let Some(version) = self.version else {
            return false;
        };
        version >= (4, 5) || (version == (4, 1) && self.is_opus)
    }
}

/// Returns an effort that Anthropic knows.
pub(super) fn known(effort: &str) -> Option<&'static str> {
    ["low", "medium", "high", "xhigh", "max"]
        .into_iter()
        .find(|word| *word == effort)
}

/// A part of a version has one or two digits; a date has eight.
fn number(word: &str) -> Option<u32> {
    (word.len() <= 2).then(|| word.parse().ok()).flatten()
}

/// The budget is part of the answer's limit; half of it is left to the answer.
fn budget(effort: &str, max_tokens: u32) -> Option<u32> {
    let wish = match effort {
        "low" => 2_048,
        "medium" => 8_192,
        "high" => 16_384,
        _ => 32_000,
    };
    Some(wish.min(max_tokens / 2)).filter(|budget| *budget >= BUDGET_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, version: Option<(u32, u32)>, thinking: Option<Thinking>, effort: &str) {
        let generation = Generation::of(model);
        assert_eq!(generation.version, version, "{model}");
        let said = generation.reasoning("xhigh", 16_384);
        assert_eq!(said.thinking, thinking, "{model}");
        assert_eq!(said.effort.unwrap_or(""), effort, "{model}");
    }

    #[test]
    fn a_name_tells_how_a_model_thinks() {
        let adaptive = Some(Thinking::Adaptive);
        let half = Some(Thinking::Budget(8_192));
        check("claude-sonnet-4-6", Some((4, 6)), adaptive, "max");
        check("claude-opus-4-8", Some((4, 8)), adaptive, "xhigh");
        check("claude-sonnet-5", Some((5, 0)), adaptive, "xhigh");
        check(
            "anthropic.claude-opus-4-5-20251101-v1:0",
            Some((4, 5)),
            half,
            "high",
        );
        check("claude-sonnet-4-5@20250929", Some((4, 5)), half, "");
        check("claude-sonnet-4-20250514", Some((4, 0)), half, "");
        check("claude-3-7-sonnet-latest", Some((3, 7)), half, "");
        check("claude-3-haiku-20240307", Some((3, 0)), None, "");
        check("claude-haiku", None, None, "");
        check("deepseek-chat-4-6", None, None, "");
    }

    #[test]
    fn an_unknown_effort_says_nothing_and_a_short_answer_leaves_no_room_to_think() {
        let generation = Generation::of("claude-sonnet-4-6");
        assert_eq!(generation.reasoning("minimal", 9_000), Reasoning::default());
        let older = Generation::of("claude-sonnet-4-5");
        assert_eq!(older.reasoning("low", 2_000).thinking, None);
    }

    #[test]
    fn schemas_bind_newer_models() {
        for (model, binds) in [
            ("claude-sonnet-4-5", true),
            ("claude-opus-4-1-20250805", true),
            ("claude-sonnet-4-20250514", false),
            ("some-gateway", false),
        ] {
            assert_eq!(Generation::of(model).binds_schemas(), binds, "{model}");
        }
    }
}
