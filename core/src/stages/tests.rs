//! Tests over all stages: the wire contract that the simulated model relies on, and schemas.

mod any_answer;
mod contract;
mod schema_bound;

use serde_json::{Value, json};

use super::prompts::Set;
use super::{
    AnswerMode, analyst, appendix, merge, meta_skill, ranking, rate, rewrite, slow_update,
};
use crate::job::Prompt;
use crate::pairs::{Category, Outcome, Pair};
use crate::patch::{Patch, Side, from_items};
use crate::trajectory::Rendered;
use crate::update_mode::UpdateMode;

const SKILL: &str = "# Skill\n\n- first rule\n[1] not a proposal\n[ not an array";
const MODES: [UpdateMode; 3] = [
    UpdateMode::Patch,
    UpdateMode::Suggestions,
    UpdateMode::FullRewrite,
];
const SIDES: [Side; 2] = [Side::Failure, Side::Success];

fn trajectories() -> Rendered {
    Rendered {
        text: "[[sim item=train-1 fam=K00 gold=a]] What?".to_owned(),
        count: 1,
    }
}

fn analyst_input(rules: analyst::Rules, shown: &Rendered) -> analyst::Input<'_> {
    analyst::Input {
        rules,
        skill: SKILL,
        step_buffer: "Step 1 was rejected.",
        meta_skill: "Small edits help.",
        trajectories: shown,
        failure_types: &["rule_missing", "other"],
    }
}

fn rules(side: Side, mode: UpdateMode, answers: AnswerMode) -> analyst::Rules {
    analyst::Rules {
        side,
        mode,
        answers,
        budget: Some(3),
        notes: false,
    }
}

fn items(mode: UpdateMode) -> Patch {
    let items = vec![
        json!({"op": "append", "content": "- one\n[7] two", "instruction": "say one", "title": "t",
               "type": "add_rule", "new_skill": "# One", "support_count": 2}),
        json!({"op": "delete", "target": "- first rule", "instruction": "drop it", "title": "u",
               "type": "remove_rule", "new_skill": "# Two"}),
    ];
    from_items("because", items, mode)
}

fn pair() -> Pair {
    let outcome = |hard| Outcome {
        hard,
        soft: 0.5,
        predicted_answer: "x".to_owned(),
        fail_reason: String::new(),
    };
    Pair {
        id: "train-1".to_owned(),
        task: "[[sim item=train-1 fam=K00 gold=a]] What?".to_owned(),
        category: Category::Regressed,
        prev: outcome(1),
        curr: outcome(0),
        prev_trajectory: "[agent] x".to_owned(),
        curr_trajectory: String::new(),
    }
}

/// Renders every call that exists in an answer mode, each with the name of its stage.
fn all_prompts(answers: AnswerMode) -> Vec<(String, UpdateMode, Prompt)> {
    let set = Set::default();
    let mut all = Vec::new();
    for mode in MODES {
        for side in SIDES {
            let shown = trajectories();
            let input = analyst_input(rules(side, mode, answers), &shown);
            let name = if side == Side::Failure {
                "analyst_error"
            } else {
                "analyst_success"
            };
            all.push((name.to_owned(), mode, analyst::prompt(&input, &set)));
            let patches = [items(mode), items(mode)];
            let input = merge::Input {
                side,
                mode,
                answers,
                skill: SKILL,
                meta_skill: "",
                patches: &patches,
                level: 1,
            };
            all.push((
                format!("merge_{}", side.name()),
                mode,
                merge::prompt(&input, &set),
            ));
        }
        let patch = items(mode);
        let input = merge::FinalInput {
            mode,
            answers,
            skill: SKILL,
            meta_skill: "m",
            failure: &patch,
            success: &patch,
        };
        all.push((
            "merge_final".to_owned(),
            mode,
            merge::final_prompt(&input, &set),
        ));
        all.extend(selection_prompts(mode, answers, &set));
    }
    all.extend(long_term_prompts(answers, &set));
    all
}

fn selection_prompts(
    mode: UpdateMode,
    answers: AnswerMode,
    set: &Set,
) -> Vec<(String, UpdateMode, Prompt)> {
    let patch = items(mode);
    let ranked = ranking::Input {
        mode,
        answers,
        skill: SKILL,
        meta_skill: "m",
        patch: &patch,
        budget: 1,
    };
    let rated = rate::Input {
        mode,
        answers,
        skill: SKILL,
        meta_skill: "m",
        step_buffer: "b",
        patch: &patch,
        rollout_n: 4,
        rollout_hard: 0.25,
        rollout_soft: 1.0 / 3.0,
    };
    vec![
        ("ranking".to_owned(), mode, ranking::prompt(&ranked, set)),
        ("lr_autonomous".to_owned(), mode, rate::prompt(&rated, set)),
    ]
}

fn long_term_prompts(answers: AnswerMode, set: &Set) -> Vec<(String, UpdateMode, Prompt)> {
    let patch = items(UpdateMode::Suggestions);
    let rewritten = rewrite::Input {
        answers,
        skill: SKILL,
        patch: &patch,
        step_buffer: "b",
    };
    let pairs = [pair()];
    let slow = slow_update::Input {
        answers,
        previous_skill: "# Old",
        current_skill: SKILL,
        previous_guidance: "",
        pairs: &pairs,
    };
    let meta = meta_skill::Input {
        answers,
        previous_skill: "# Old",
        current_skill: SKILL,
        previous_memory: "",
        pairs: &pairs,
    };
    let notes = ["a".to_owned(), " ".to_owned(), "b".to_owned()];
    let noted = appendix::Input {
        answers,
        notes: &notes,
    };
    let named = |name: &str, prompt| (name.to_owned(), UpdateMode::Patch, prompt);
    vec![
        named("rewrite", rewrite::prompt(&rewritten, set)),
        named("slow_update", slow_update::prompt(&slow, set)),
        named("meta_skill", meta_skill::prompt(&meta, set)),
        named("appendix_consolidate", appendix::prompt(&noted, set)),
    ]
}

fn trailing_array(user: &str) -> Option<Vec<Value>> {
    user.match_indices("\n[")
        .find_map(|(at, _)| serde_json::from_str(&user[at..]).ok())
}
