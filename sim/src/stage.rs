//! Which stage of training a call belongs to, told by the JSON fields its system prompt asks for
//! (chapter 4), so that the wording of prompts is free.

use memchr::memmem;
use serde::Serialize;
use skillopt_core::suggest::nearest;

use crate::world::TAG_START;

/// A stage of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The target answers an item.
    Target,
    /// Proposes edits from failures.
    AnalystError,
    /// Proposes edits from successes.
    AnalystSuccess,
    /// Merges patches that come from failures.
    MergeFailure,
    /// Merges patches that come from successes.
    MergeSuccess,
    /// Merges both groups.
    MergeFinal,
    /// Picks the best edits.
    Ranking,
    /// Chooses how many edits to apply.
    LrAutonomous,
    /// Writes the longitudinal guidance.
    SlowUpdate,
    /// Writes the optimizer's memory.
    MetaSkill,
    /// Rewrites the whole skill.
    Rewrite,
    /// Shortens the appendix notes.
    AppendixConsolidate,
    /// Anything else.
    Other,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 13] = [
        Self::Target,
        Self::AnalystError,
        Self::AnalystSuccess,
        Self::MergeFailure,
        Self::MergeSuccess,
        Self::MergeFinal,
        Self::Ranking,
        Self::LrAutonomous,
        Self::SlowUpdate,
        Self::MetaSkill,
        Self::Rewrite,
        Self::AppendixConsolidate,
        Self::Other,
    ];

    /// Returns the stage of this very name. Unlike parsing, it looks for no name that is near: most
    /// labels of calls are none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == name)
    }

    /// Returns the name, as in the header `x-sim-stage` and in the statistics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::AnalystError => "analyst_error",
            Self::AnalystSuccess => "analyst_success",
            Self::MergeFailure => "merge_failure",
            Self::MergeSuccess => "merge_success",
            Self::MergeFinal => "merge_final",
            Self::Ranking => "ranking",
            Self::LrAutonomous => "lr_autonomous",
            Self::SlowUpdate => "slow_update",
            Self::MetaSkill => "meta_skill",
            Self::Rewrite => "rewrite",
            Self::AppendixConsolidate => "appendix_consolidate",
            Self::Other => "other",
        }
    }

    /// Returns the stage that a call's texts tell. The first test that holds wins.
    #[must_use]
    pub fn recognise(sys: &str, user: &str) -> Self {
        if has(sys, "slow_update_content") {
            Self::SlowUpdate
        } else if has(sys, "meta_skill_content") {
            Self::MetaSkill
        } else if has(sys, "selected_indices") {
            Self::Ranking
        } else if has(sys, "\"learning_rate\"") {
            Self::LrAutonomous
        } else if has(sys, "failure_summary") {
            Self::AnalystError
        } else if has(sys, "success_patterns") {
            Self::AnalystSuccess
        } else if has(sys, "new_skill") && !has(sys, "skill_candidates") {
            Self::Rewrite
        } else if has(sys, "support_count") {
            Self::recognise_merge(sys)
        } else if has(user, "appendix_notes") {
            Self::AppendixConsolidate
        } else if has(user, TAG_START) {
            Self::Target
        } else {
            Self::Other
        }
    }

    fn recognise_merge(sys: &str) -> Self {
        if has(sys, "failure|success") {
            Self::MergeFinal
        } else if has(sys, "\"source_type\": \"success\"") {
            Self::MergeSuccess
        } else {
            Self::MergeFailure
        }
    }
}

/// A stage that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stage `{name}` is unknown{hint}")]
pub struct UnknownStage {
    /// What was asked for.
    pub name: String,
    /// The nearest name, or all of them.
    pub hint: String,
}

impl std::str::FromStr for Stage {
    type Err = UnknownStage;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::named(name).ok_or_else(|| UnknownStage {
            name: name.chars().take(80).collect(),
            hint: hint(name),
        })
    }
}

fn hint(name: &str) -> String {
    let names = Stage::ALL.map(Stage::as_str);
    nearest(name, names.iter().copied()).map_or_else(
        || format!("; expected one of {}", names.join(", ")),
        |near| format!("; did you mean `{near}`?"),
    )
}

/// What an optimizer call is asked to propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Edits of lines.
    Patch,
    /// Suggestions for a later rewrite.
    Suggestions,
    /// Whole documents.
    FullRewrite,
}

impl Mode {
    /// Returns the mode that the system prompt names.
    #[must_use]
    pub fn of(sys: &str) -> Self {
        if has(sys, Self::FullRewrite.payload_key()) {
            Self::FullRewrite
        } else if has(sys, Self::Suggestions.payload_key()) {
            Self::Suggestions
        } else {
            Self::Patch
        }
    }

    /// Returns the field that holds the proposals.
    #[must_use]
    pub const fn payload_key(self) -> &'static str {
        match self {
            Self::Patch => "edits",
            Self::Suggestions => "revise_suggestions",
            Self::FullRewrite => "skill_candidates",
        }
    }
}

/// Returns whether `needle` is in `text`. Ten of these run over each system prompt, so it is the
/// vectorised search.
pub(crate) fn has(text: &str, needle: &str) -> bool {
    memmem::find(text.as_bytes(), needle.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sys: &str, user: &str, expected: Stage) {
        assert_eq!(Stage::recognise(sys, user), expected, "{sys} / {user}");
    }

    #[test]
    fn the_asked_fields_tell_the_stage() {
        check("{reasoning, slow_update_content}", "", Stage::SlowUpdate);
        check("{meta_skill_content}", "[[sim item=", Stage::MetaSkill);
        check("selected_indices support_count", "", Stage::Ranking);
        check("{\"learning_rate\": 1}", "", Stage::LrAutonomous);
        check("learning_rate", "", Stage::Other);
        check("failure_summary new_skill", "", Stage::AnalystError);
        check(
            "success_patterns skill_candidates",
            "",
            Stage::AnalystSuccess,
        );
        check("new_skill change_summary", "", Stage::Rewrite);
        check(
            "new_skill skill_candidates support_count",
            "",
            Stage::MergeFailure,
        );
        check("support_count failure|success", "", Stage::MergeFinal);
        check(
            "support_count \"source_type\": \"success\"",
            "",
            Stage::MergeSuccess,
        );
        check(
            "support_count \"source_type\": \"failure\"",
            "",
            Stage::MergeFailure,
        );
        check("", "{\"appendix_notes\": []}", Stage::AppendixConsolidate);
        check("a skill", "q [[sim item=a fam=K00 gold=x]]", Stage::Target);
        check("hello", "world", Stage::Other);
    }

    #[test]
    fn names_round_trip_and_typos_are_answered() {
        for stage in Stage::ALL {
            assert_eq!(stage.as_str().parse(), Ok(stage));
            assert_eq!(serde_json::json!(stage), stage.as_str());
        }
        let error = "analyst_eror".parse::<Stage>().unwrap_err();
        let expected = "stage `analyst_eror` is unknown; did you mean `analyst_error`?";
        assert_eq!(error.to_string(), expected);
        let error = "x".parse::<Stage>().unwrap_err().to_string();
        assert!(error.contains("expected one of target, "), "{error}");
    }

    #[test]
    fn the_built_in_prompts_are_recognised() {
        use Stage::*;
        let prompts = skillopt_core::stages::prompts::Set::default();
        let check = |name: &str, expected: Stage| {
            for (suffix, mode) in [
                ("", Mode::Patch),
                ("_suggestions", Mode::Suggestions),
                ("_full_rewrite", Mode::FullRewrite),
            ] {
                let sys = prompts.get(&format!("{name}{suffix}"));
                if sys.is_empty() {
                    continue;
                }
                assert_eq!(Stage::recognise(sys, ""), expected, "{name}{suffix}");
                let has_mode = !matches!(
                    name,
                    "rewrite" | "rate" | "slow_update" | "meta_skill" | "ranking"
                );
                assert!(!has_mode || Mode::of(sys) == mode, "{name}{suffix}");
            }
        };
        check("analyst_error", AnalystError);
        check("analyst_success", AnalystSuccess);
        check("merge_failure", MergeFailure);
        check("merge_success", MergeSuccess);
        check("merge_final", MergeFinal);
        check("ranking", Ranking);
        check("rate", LrAutonomous);
        check("slow_update", SlowUpdate);
        check("meta_skill", MetaSkill);
        check("rewrite", Rewrite);
    }

    #[test]
    fn the_payload_key_tells_the_mode() {
        assert_eq!(Mode::of("edits"), Mode::Patch);
        assert_eq!(Mode::of("revise_suggestions"), Mode::Suggestions);
        assert_eq!(
            Mode::of("revise_suggestions skill_candidates"),
            Mode::FullRewrite
        );
    }
}
