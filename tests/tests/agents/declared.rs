//! An agent that a user declares: the example of `docs/new-agent-cli.md`, as people would run it.

use serde_json::{Value, json};
use skillopt_tests::support::fake::Fake;
use skillopt_tests::support::program::{Ended, run};
use skillopt_tests::support::{Cluster, Shape, World};

const PAGE: &str = include_str!("../../../docs/new-agent-cli.md");
const SKILL: &str = "Always answer with the one word that fits.\n";

/// Returns a block of code of the page.
fn block(language: &str) -> &'static str {
    let (_, after) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    after.split_once("```").unwrap().0
}

/// A folder with the example in it.
fn world() -> World {
    let world = World::new();
    world.write("skill.md", SKILL);
    world.write("small-agent.yaml", block("yaml"));
    world.program("bin/small-agent", block("bash"));
    world
}

/// A model that answers everything alike, if it was told the skill.
fn model() -> Fake {
    Fake::start(|request: &Value| {
        let told = request.to_string();
        assert!(told.contains("the one word that fits"), "{told}");
        let answer = json!({
            "id": "c", "object": "chat.completion", "model": "sim-target",
            "choices": [{
                "index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "<answer>word</answer>"},
            }],
            "usage": {"prompt_tokens": 30, "completion_tokens": 3, "total_tokens": 33},
        });
        answer.to_string().into_bytes()
    })
}

fn path_with(world: &World) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", world.path("bin").display())
}

fn eval(world: &World, out: &str, url: &str, more: &[&str]) -> Ended {
    let url = format!("model.openai_compatible_base_url={url}");
    let settings = [
        &*url,
        "model.target_backend=declared_exec",
        "model.agent_cli=small-agent.yaml",
    ];
    let store = ["--store", "answers.sqlite"];
    let mut call = world.eval(out, &[&settings, more, &store].concat());
    run(call.env("PATH", path_with(world)))
}

/// Returns the fact of every conversation of a run folder.
fn facts(world: &World, out: &str) -> Vec<Value> {
    let folder = world.path(out).join("rollout/predictions");
    let found = std::fs::read_dir(folder).unwrap();
    let conversations = found.map(|item| {
        let path = item.unwrap().path().join("conversation.json");
        serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap()
    });
    let facts = conversations.map(|entries| {
        let entries = entries.as_array().unwrap().clone();
        let facts = entries.into_iter().find(|entry| entry["type"] == "agent");
        facts.unwrap()["facts"].clone()
    });
    facts.collect()
}

#[test]
fn the_example_of_the_page_does_its_tasks() {
    let (world, model) = (world(), model());
    eval(&world, "first", &model.url(), &[]).code(0);
    assert_eq!(model.calls(), 12, "one question for each item");
    let facts = facts(&world, "first");
    assert_eq!(facts.len(), 12);
    for fact in &facts {
        assert_eq!(fact["agent"], "declared_exec", "{fact}");
        assert_eq!(fact["skill_reached_the_model"], true, "{fact}");
        assert_eq!(fact["ending"], "success", "{fact}");
    }

    // The same declaration in other words is the same agent, another one is another.
    let page = block("yaml");
    world.write("small-agent.yaml", format!("# A comment.\n\n{page}"));
    eval(&world, "second", &model.url(), &[]).code(0);
    assert_eq!(model.calls(), 12, "every answer was there");
    world.write(
        "small-agent.yaml",
        format!("{page}told: 'Go on: {{prompt}}'\n"),
    );
    eval(&world, "third", &model.url(), &[]).code(0);
    assert_eq!(model.calls(), 24, "an answer of another agent is no answer");
}

#[test]
fn a_cluster_needs_the_program_and_not_the_file() {
    let (world, model) = (world(), model());
    let mut cluster = Cluster::start_with(Shape {
        env: vec![("PATH".to_owned(), path_with(&world))],
        slots: "exec=2".to_owned(),
        ..Shape::default()
    });
    // What a run declares is not known before it comes: this one leaves its tasks to the other.
    cluster.add_worker_with(&[("PATH", "/usr/bin:/bin")]);
    let url = format!("model.openai_compatible_base_url={}", model.url());
    let args = [
        "submit",
        "eval",
        "config.yaml",
        "--skill",
        "skill.md",
        "--split",
        "val",
        "--wait",
        "--out",
        "out",
        "--target_backend",
        "declared_exec",
        "--set",
        &url,
        "model.agent_cli=small-agent.yaml",
    ];
    let ended = run(&mut world.ask(&cluster, &args));
    assert!(
        ended.status.success(),
        "{}\n{}\n{}",
        ended.stdout,
        ended.stderr,
        cluster.said()
    );
    assert_eq!(model.calls(), 12);
    assert_eq!(facts(&world, "out").len(), 12);
    let listed = run(&mut cluster.command(&["workers"])).code(0).stdout;
    assert!(!listed.contains("sick"), "{listed}");
}

#[test]
fn a_wrong_declaration_is_refused_before_anything_is_spent() {
    let (world, model) = (world(), model());
    for (text, words) in [
        ("name: [", &["small-agent.yaml", "agent_cli"][..]),
        ("nome: x\n", &["agent_cli", "nome"]),
        (
            "name: x\ncommand: [/bin/sh]\nskills: s\nwire: chat\n",
            &["/bin/sh", "declared_exec_path"],
        ),
        (
            "name: x\ncommand: [nowhere-to-be-found]\nskills: s\nwire: chat\n",
            &["nowhere-to-be-found", "not installed"],
        ),
    ] {
        world.write("small-agent.yaml", text);
        eval(&world, "out", &model.url(), &[]).code(2).says(words);
    }
    std::fs::remove_file(world.path("small-agent.yaml")).unwrap();
    let ended = eval(&world, "out", &model.url(), &[]);
    ended.code(2).says(&["small-agent.yaml", "cannot be read"]);
    let ended = eval(&world, "out", &model.url(), &["model.agent_cli="]);
    ended
        .code(2)
        .says(&["model.agent_cli", "docs/new-agent-cli.md"]);
    assert_eq!(model.calls(), 0);
}
