//! Slow update: guidance from comparing two epochs.
//!
//! Source: training spec, 6.8 with D27.

use super::prompts::Set;
use super::user::Text;
use super::{AnswerMode, schema};
use crate::job::Prompt;
use crate::json_extract;
use crate::loose;
use crate::pairs::{Category, Outcome, Pair};
use crate::text;

/// Stage label.
pub const LABEL: &str = "slow_update";
/// Upper limit of the answer, in tokens.
pub const MAX_TOKENS: u32 = super::MAX_TOKENS;

/// What the model is shown.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Answer mode.
    pub answers: AnswerMode,
    /// The skill at the end of the previous epoch.
    pub previous_skill: &'a str,
    /// The skill now.
    pub current_skill: &'a str,
    /// The guidance now in force, "" if none.
    pub previous_guidance: &'a str,
    /// The comparison.
    pub pairs: &'a [Pair],
}

/// Renders the call.
#[must_use]
pub fn prompt(input: &Input<'_>, prompts: &Set) -> Prompt {
    let guidance = text::trim(input.previous_guidance);
    let guidance = if guidance.is_empty() {
        "(none yet)"
    } else {
        guidance
    };
    let user = Text::default()
        .quote("previous_skill", input.previous_skill)
        .skill(input.current_skill)
        .quote("previous_guidance", guidance)
        .quote("comparison", &comparison(input.pairs))
        .line("Write the new guidance now.")
        .finish();
    let name = schema::template(input.answers, "slow_update");
    let fields = [
        ("reasoning", schema::text()),
        ("slow_update_content", schema::text()),
    ];
    schema::prompt(input.answers, LABEL, prompts.get(&name), user, &fields)
}

/// What a long-term call wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The model's reasons.
    pub reasoning: String,
    /// The text, trimmed; empty means there is nothing to install.
    pub content: String,
}

/// Reads the answer; `None` if it holds no guidance.
#[must_use]
pub fn parse(answer: Option<&str>) -> Option<Written> {
    written(answer, "slow_update_content")
}

/// Reads a text from a field of the answer; only a text will do, never the textual form of
/// something else (D27). A blank text is an empty content.
pub(super) fn written(answer: Option<&str>, key: &str) -> Option<Written> {
    let object = json_extract::object(answer?)?;
    let content = object
        .get(key)?
        .as_str()
        .filter(|content| !content.is_empty())?;
    Some(Written {
        reasoning: text::trim(&loose::field(&object, "reasoning")).to_owned(),
        content: text::trim(content).to_owned(),
    })
}

/// The sections of a comparison, most urgent first.
const SECTIONS: [(Category, &str); 4] = [
    (
        Category::Regressed,
        "Regressed: passed before, fail now (highest priority)",
    ),
    (
        Category::PersistentFail,
        "Persistent failures: fail under both skills",
    ),
    (Category::Improved, "Improved: failed before, pass now"),
    (
        Category::StableSuccess,
        "Stable successes: pass under both skills",
    ),
];

/// Renders the comparison of both skills on the same items.
pub(super) fn comparison(pairs: &[Pair]) -> String {
    let of = |category| pairs.iter().filter(move |pair| pair.category == category);
    let mut text = format!(
        "{} items: {} regressed, {} persistent failures, {} improved, {} stable successes.\n",
        pairs.len(),
        of(Category::Regressed).count(),
        of(Category::PersistentFail).count(),
        of(Category::Improved).count(),
        of(Category::StableSuccess).count(),
    );
    for (category, title) in SECTIONS {
        if of(category).next().is_none() {
            continue;
        }
        text.push_str(&format!("\n## {title}\n"));
        for pair in of(category) {
            text.push_str(&render_pair(pair));
        }
    }
    text
}

fn render_pair(pair: &Pair) -> String {
    let side = |name: &str, outcome: &Outcome| {
        let verdict = if outcome.hard == 1 { "pass" } else { "fail" };
        let (soft, answer) = (outcome.soft, &outcome.predicted_answer);
        format!("- {name}: {verdict}, soft {soft:.2}, answer: {answer}\n")
    };
    let mut text = format!("\n### {}\nTask: {}\n", pair.id, pair.task);
    text.push_str(&side("before", &pair.prev));
    text.push_str(&side("now", &pair.curr));
    if pair.prev.hard == 0 && !pair.prev.fail_reason.is_empty() {
        text.push_str(&format!("- failure before: {}\n", pair.prev.fail_reason));
    }
    if !pair.curr.fail_reason.is_empty() {
        text.push_str(&format!("- failure now: {}\n", pair.curr.fail_reason));
    }
    if pair.category != Category::StableSuccess {
        for (name, body) in [
            ("before", &pair.prev_trajectory),
            ("now", &pair.curr_trajectory),
        ] {
            if !body.is_empty() {
                text.push_str(&format!("Trajectory {name}:\n{body}\n"));
            }
        }
    }
    text
}
