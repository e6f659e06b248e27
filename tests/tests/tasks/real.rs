//! Real CLIs do whole tasks by the product's own commands: what they did is judged, what they used is
//! counted, and nothing of the credential stays.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use skillopt_tests::support::Sim;
use skillopt_tests::support::folder::{holding, rows};
use skillopt_tests::support::program::{command, run};

use crate::books::{self, BOOKS};
use crate::caps::used;
use crate::scene::{ANSWER_TOKENS, KEY, SKILL, Scene};
use crate::scripts::{Question, knows, learns, questions};

/// Returns the rows of an evaluation by their item.
pub(crate) fn by_item(out: &Path) -> BTreeMap<String, Value> {
    let lines = rows(out).into_values().flatten();
    let read = lines.map(|line| {
        let row: Value = serde_json::from_str(&line).unwrap();
        (row["id"].as_str().unwrap().to_owned(), row)
    });
    read.collect()
}

/// Checks what every agent's run leaves: who got which score, that the skill was in a request of
/// each, that each saw `output` of its command, and that no credential is kept.
#[track_caller]
fn checked<const N: usize>(scene: &Scene, expected: [(&str, u8, &str); N]) {
    let out = scene.world.path("out");
    let rows = by_item(&out);
    assert_eq!(rows.len(), N, "{rows:?}");
    for (id, hard, output) in expected {
        let row = &rows[id];
        assert_eq!(row["hard"].as_f64(), Some(hard.into()), "{row}");
        let folder = format!("out/rollout/predictions/{id}");
        let said = scene.world.text(&format!("{folder}/conversation.json"));
        let entries: Value = serde_json::from_str(&said).unwrap();
        let mut entries = entries.as_array().unwrap().iter();
        let facts = &entries.find(|entry| entry["type"] == "agent").unwrap()["facts"];
        assert_eq!(facts["skill_reached_the_model"], true, "{facts}");
        assert!(
            said.contains(output),
            "`{output}` of {id} is not told: {said}"
        );
    }
    assert!(holding(&out, KEY).is_empty(), "{:?}", holding(&out, KEY));
}

/// Checks that the run counts the tokens that the model counted.
#[track_caller]
fn counts_as_the_model(scene: &Scene) {
    let mut show = command(["show", "out", "--json"]);
    let shown = run(show.current_dir(scene.world.path(""))).code(0);
    let shown: Value = serde_json::from_str(shown.stdout.lines().next().unwrap()).unwrap();
    let counted = &shown["evaluation"]["tokens"];
    let answered = scene.answered();
    for (name, told) in [
        ("calls", answered.requests),
        ("prompt_tokens", answered.input),
        ("completion_tokens", answered.output),
    ] {
        assert_eq!(counted[name], told, "{name}: {shown} {answered:?}");
    }
    assert!(answered.input > 0 && answered.output > 0, "{answered:?}");
}

/// Checks that a CLI tells the model how hard to think and how long an answer may be, as its run says and
/// as far as it can: `places` are where both stand in a request, empty for what it has no setting for.
#[track_caller]
fn hands_on(scene: &Scene, places: [&str; 2]) {
    let requests = scene.requests();
    let values = [json!(EFFORT), json!(ANSWER_TOKENS)];
    for (place, value) in places.into_iter().zip(values) {
        let mut bodies = requests.iter().map(|request| &request["body"]);
        let is_said = bodies.any(|body| body.pointer(place) == Some(&value));
        assert!(
            place.is_empty() || is_said,
            "{place} is never {value}: {requests:?}"
        );
    }
}

/// Something else than programs say of themselves.
const EFFORT: &str = "high";

/// Has a CLI answer `N` questions, the last of them wrongly.
#[track_caller]
fn answers_questions<const N: usize>(backend: &str, told: [&str; 2]) {
    let scene = Scene::real(backend);
    let asked: [Question; N] = questions(&scene);
    scene.script(knows(&asked, 0));
    let effort = format!("model.reasoning_effort={EFFORT}");
    let some = ["--test_env_num", &N.to_string(), "--set", &effort];
    run(&mut scene.eval("out", &some)).code(0);
    let expected = std::array::from_fn(|at| {
        let is_right = at + 1 < N;
        (
            asked[at].id.as_str(),
            is_right.into(),
            "[DOC] Record test-0000",
        )
    });
    checked::<N>(&scene, expected);
    counts_as_the_model(&scene);
    hands_on(&scene, told);
}

/// Where both stand in a request for Chat Completions.
const OF_CHAT: [&str; 2] = ["/reasoning_effort", "/max_tokens"];

#[test]
fn codex_answers_questions() {
    answers_questions::<3>("codex_exec", ["/reasoning/effort", ""]);
}

#[test]
fn claude_code_answers_questions() {
    answers_questions::<3>("claude_code_exec", ["/output_config/effort", "/max_tokens"]);
}

#[test]
fn copilot_answers_questions() {
    answers_questions::<2>("copilot_exec", OF_CHAT);
}

#[test]
fn opencode_answers_questions() {
    answers_questions::<2>("opencode_exec", OF_CHAT);
}

#[test]
fn gemini_answers_questions() {
    // By its name this model does not think.
    answers_questions::<2>("gemini_exec", ["", "/generationConfig/maxOutputTokens"]);
}

#[test]
fn qwen_code_answers_questions() {
    answers_questions::<2>("qwen_code_exec", OF_CHAT);
}

/// Checks what became of the books.
#[track_caller]
fn books_are_judged(scene: &Scene) {
    checked(scene, BOOKS.map(|(id, hard, output, _)| (id, hard, output)));
    let rows = by_item(&scene.world.path("out"));
    for (id, _, _, words) in BOOKS {
        let why = rows[id]["fail_reason"].as_str().unwrap();
        assert!(why.contains(words), "{id}: {why}");
        assert_eq!(why.is_empty(), words.is_empty(), "{id}: {why}");
    }
}

#[track_caller]
fn edits_books(backend: &str) {
    let scene = books::scene(backend);
    run(&mut scene.eval("out", &[])).code(0);
    books_are_judged(&scene);
    counts_as_the_model(&scene);
}

#[test]
fn codex_edits_workbooks() {
    edits_books("codex_exec");
}

#[test]
fn claude_code_edits_workbooks() {
    edits_books("claude_code_exec");
}

#[test]
fn copilot_edits_workbooks() {
    edits_books("copilot_exec");
}

#[test]
fn opencode_edits_workbooks() {
    edits_books("opencode_exec");
}

#[test]
fn gemini_edits_workbooks() {
    edits_books("gemini_exec");
}

#[test]
fn qwen_code_edits_workbooks() {
    edits_books("qwen_code_exec");
}

#[test]
fn codex_edits_workbooks_on_a_cluster() {
    let scene = books::scene("codex_exec");
    let cluster = scene.cluster(2, 1);
    run(&mut scene.submit(&cluster, "out", &[])).code(0);
    books_are_judged(&scene);
    let row = used(&cluster, &scene.world.run_id("out"));
    let answered = scene.answered();
    for (name, told) in [
        ("requests", answered.requests),
        ("prompt_tokens", answered.input),
        ("completion_tokens", answered.output),
    ] {
        assert_eq!(row[name], told, "{name}: {row} {answered:?}");
    }
}

#[test]
fn a_step_of_training_makes_the_skill_of_codex_better() {
    let scene = Scene::real("codex_exec");
    // The fewest of which what is trained on and what is judged by have a kind in common.
    scene.script(learns(&scene, 6));
    let optimizer = Sim::start(&["--p-harm", "0", "--rules-per-call", "4"]);
    let url = format!(
        "model.optimizer_openai_compatible_base_url={}",
        optimizer.url()
    );
    let untested = "evaluation.eval_test=false";
    let small = ["--limit", "6", "--batch_size", "6", "--set", untested];
    let ended = run(&mut scene.train("out", &[&small[..], &["--set", &url]].concat()));
    ended.code(0);
    let best = scene.world.text("out/best_skill.md");
    assert!(best.contains(SKILL) && best.contains("[[RULE:"), "{best}");
    let summary = scene.world.json("out/summary.json");
    let score = |name: &str| summary[name].as_f64().unwrap();
    assert!(
        score("best_selection_hard") > score("baseline_selection_hard"),
        "{summary}"
    );
}
