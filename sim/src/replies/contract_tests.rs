//! Our own prompts and readers against the simulated model: both sides of the wire contract.

use serde_json::{Map, Value, json};
use skillopt_core::job::Prompt;
use skillopt_core::patch::{self, Patch, Side};
use skillopt_core::stages::{AnswerMode, analyst, merge, prompts::Set, ranking};
use skillopt_core::trajectory::Rendered;
use skillopt_core::update_mode::UpdateMode;

use super::*;
use crate::markers::Kind;

const MODES: [UpdateMode; 3] = [
    UpdateMode::Patch,
    UpdateMode::Suggestions,
    UpdateMode::FullRewrite,
];

fn answer(prompt: &Prompt, expected: Stage) -> String {
    let params = Params {
        p_harm: 0.0,
        ..Params::default()
    };
    let user = format!("{}\n", prompt.user);
    let call = Call {
        sys: &prompt.system,
        user: &user,
        model: "sim-optimizer",
        n_messages: 2,
        stage: None,
    };
    let reply = reply(&params, &call);
    assert_eq!(reply.stage, expected);
    reply.text
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// Returns a patch that appends the lines of some rules.
fn rules(names: &[&str]) -> Patch {
    let edits = names
        .iter()
        .map(|name| json!({"op": "append", "content": Kind::Rule.line(name)}));
    patch::from_items("made up", edits.collect(), UpdateMode::Patch)
}

#[test]
fn analysts_propose_in_every_mode() {
    let trajectories = Rendered {
        text: "[[sim item=a fam=K05 gold=x]] [[sim item=b fam=K02 gold=y]]\n\
               [[sim item=c fam=K05 gold=z]]"
            .to_owned(),
        count: 3,
    };
    for mode in MODES {
        let input = analyst::Input {
            rules: analyst::Rules {
                side: Side::Failure,
                mode,
                answers: AnswerMode::Free,
                budget: Some(3),
                notes: false,
            },
            skill: "# Skill\n",
            step_buffer: "",
            meta_skill: "",
            trajectories: &trajectories,
            failure_types: &[],
        };
        let prompt = analyst::prompt(&input, &Set::default());
        let text = answer(&prompt, Stage::AnalystError);
        let raw = analyst::parse(Some(&text), &input).expect("a raw patch");
        let patch = object(raw["patch"].clone());
        let items = patch::items(&patch, mode);
        assert_eq!(items.len(), 1, "{mode:?}");
        assert!(items[0].to_string().contains("[[RULE:K05]]"), "{mode:?}");
    }
}

#[test]
fn merges_are_read_without_a_fallback() {
    let patches = [rules(&["K03", "K01"]), rules(&["K03"])];
    let input = merge::Input {
        side: Side::Failure,
        mode: UpdateMode::Patch,
        answers: AnswerMode::Free,
        skill: "# Skill\n",
        meta_skill: "",
        patches: &patches,
        level: 1,
    };
    let prompt = merge::prompt(&input, &Set::default());
    let text = answer(&prompt, Stage::MergeFailure);
    let merged = merge::parse(Some(&text), &input);
    assert!(!merged.fallback);
    let items = patch::items(&merged.patch, UpdateMode::Patch);
    assert_eq!(items.len(), 2);
    assert_eq!(items[0]["content"], Kind::Rule.line("K03"));
    assert_eq!(items[0]["support_count"], 2);
}

#[test]
fn rankings_are_read_without_a_fallback() {
    let mut patch = rules(&["K00", "K01", "K02"]);
    patch["edits"][2]["support_count"] = json!(5);
    let input = ranking::Input {
        mode: UpdateMode::Patch,
        answers: AnswerMode::Free,
        skill: "# Skill\n",
        meta_skill: "",
        patch: &patch,
        budget: 2,
    };
    let prompt = ranking::prompt(&input, &Set::default());
    let text = answer(&prompt, Stage::Ranking);
    let selection = ranking::parse(Some(&text), &input);
    assert!(!selection.fallback);
    assert_eq!(selection.indices, [2, 0]);
}
