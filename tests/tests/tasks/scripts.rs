//! What models say to real CLIs: rules that see by the words of a request what was done so far.

use serde_json::{Value, json};
use skillopt_agents::cli::SKILL_NAME;
use skillopt_sim::world::last_item;

use crate::scene::{SKILL, Scene};

/// A question of the data.
pub(crate) struct Question {
    pub(crate) id: String,
    answer: String,
    /// The kind of questions that it is one of.
    family: String,
}

impl Question {
    /// Reads question number `at` of a split.
    fn read(scene: &Scene, split: &str, at: usize) -> Self {
        let item = &scene.world.json(&format!("data/{split}/items.json"))[at];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let asked = text(&item["question"]);
        Self {
            id: text(&item["id"]),
            answer: text(&item["answers"][0]),
            family: last_item(&asked).unwrap().family.to_owned(),
        }
    }

    /// Words that only a request holds whose agent has read this question.
    pub(crate) fn words(&self) -> String {
        format!("code phrase does record {} carry", self.id)
    }
}

/// Returns the first questions of the split that is evaluated.
pub(crate) fn questions<const N: usize>(scene: &Scene) -> [Question; N] {
    std::array::from_fn(|at| Question::read(scene, "test", at))
}

/// A call of whichever tool the CLI has for commands, once it has loaded the skill.
///
/// Some put the skill into the first request, others have a tool for it and come to their task one
/// turn later. Where `text` is not empty, only a request that holds it is meant.
pub(crate) fn runs(command: &str, text: &str) -> Vec<Value> {
    let described = json!({"command": command, "description": "does it"});
    let mut in_front = described.clone();
    in_front["is_background"] = false.into();
    [
        // Codex waits no longer than that for the end of a command.
        (
            "exec_command",
            0,
            json!({"cmd": command, "yield_time_ms": 30_000}),
        ),
        ("Bash", 0, described.clone()),
        ("bash", 1, described),
        ("run_shell_command", 1, in_front),
    ]
    .map(|(tool, turn, arguments)| {
        json!({"when": {"tool": tool, "turn": turn, "text": text}, "reply": {
            "tool_calls": [{"name": tool, "arguments": arguments}],
            "usage": {"input": 1000, "output": 50, "cached": 200},
        }})
    })
    .into()
}

/// Rules that come before all others: the skill is loaded where there is a tool for it, and whoever
/// has not got it then gets a wrong answer.
pub(crate) fn wants_the_skill() -> Vec<Value> {
    let load = |tool: &str| {
        let skill = json!({"name": SKILL_NAME, "skill": SKILL_NAME});
        let arguments = match tool {
            "activate_skill" => json!({"name": SKILL_NAME}),
            _ => skill,
        };
        json!({"when": {"tool": tool, "turn": 0}, "reply": {
            "tool_calls": [{"name": tool, "arguments": arguments}],
            "usage": {"input": 800, "output": 20},
        }})
    };
    let without = json!({"when": {"without": SKILL}, "reply": says("<answer>no skill</answer>")});
    vec![load("skill"), load("activate_skill"), without]
}

/// An answer that ends the task.
pub(crate) fn says(text: &str) -> Value {
    json!({"text": text, "usage": {"input": 1200, "output": 10, "cached": 900}})
}

/// A model that reads the task and knows the answers, but to the last question, where it is wrong. It
/// says the first one at once, the others only after so long.
pub(crate) fn knows(questions: &[Question], latency_ms: u64) -> Value {
    knows_once("cat task.md", questions, latency_ms)
}

/// Such a model that reads the task by a command of its own.
pub(crate) fn knows_once(command: &str, questions: &[Question], latency_ms: u64) -> Value {
    let mut rules = wants_the_skill();
    rules.extend(runs(command, ""));
    let last = questions.len() - 1;
    rules.extend(questions.iter().enumerate().map(|(at, question)| {
        let answer = if at == last {
            "somebody else"
        } else {
            &question.answer
        };
        let mut reply = says(&format!("It stands there.\n<answer>{answer}</answer>"));
        reply["latency_ms"] = if at == 0 { 0 } else { latency_ms }.into();
        json!({"when": {"text": question.words()}, "reply": reply})
    }));
    json!({"rules": rules, "default": says("<answer>the task was not read</answer>")})
}

/// A model that reads the task and knows the first `n` answers of what is trained on and what is judged
/// by, where its skill has the rule for such questions.
pub(crate) fn learns(scene: &Scene, n: usize) -> Value {
    let mut rules = wants_the_skill();
    rules.extend(runs("cat task.md", ""));
    let all = ["train", "val"]
        .into_iter()
        .flat_map(|split| (0..n).map(move |at| (split, at)));
    rules.extend(all.flat_map(|(split, at)| {
        let question = Question::read(scene, split, at);
        let (words, rule) = (question.words(), format!("[[RULE:{}]]", question.family));
        let right = says(&format!("<answer>{}</answer>", question.answer));
        [
            json!({"when": {"text": words, "without": rule}, "reply": says("<answer>unknown</answer>")}),
            json!({"when": {"text": words}, "reply": right}),
        ]
    }));
    json!({"rules": rules, "default": says("<answer>the task was not read</answer>")})
}
