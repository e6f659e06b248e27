//! A trajectory of more than two hundred megabytes.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use skillopt_sim::{Sizes, generate};
use skillopt_tests::support::cluster::{Cluster, Node, Shape};
use skillopt_tests::support::fake::{Fake, completion};
use skillopt_tests::support::program::Process;
use skillopt_tests::support::{Draw, World, folder};

use crate::scene::nothing_is_left;

/// Characters of one reply; of one answer at most 32 MiB are read.
const REPLY_CHARS: usize = 30 << 20;
/// Replies of that length; the one after them is short.
const LONG_REPLIES: u64 = 7;
/// What the trajectory has at least, in bytes.
const BYTES: u64 = LONG_REPLIES * REPLY_CHARS as u64;
/// Memory of a worker and of a coordinator at most, as a multiple of the trajectory. Neither streams it:
/// a worker has what it was told, the record made of it and what is packed; a coordinator what is
/// packed, the record as it lies there, as values and as it is written.
const WORKER_MAX: u64 = 5;
const COORDINATOR_MAX: u64 = 6;
/// Some passes over so much take long in a build that is not optimised.
const LIMIT: Duration = Duration::from_secs(400);

/// Answers each turn with another long text that cannot be compressed by much, and the last one with
/// the answer.
fn models(answer: String) -> Fake {
    let long = Draw::new().letters(REPLY_CHARS);
    Fake::start(move |request: &Value| {
        let messages = request["messages"].as_array();
        let user = messages.and_then(|all| all.last()?["content"].as_str());
        // Each turn is shown the reply of the one before.
        let earlier = user.and_then(|user| user.split_once("\nturn "));
        let turn = earlier.and_then(|(_, rest)| rest.split('\n').next()?.parse::<u64>().ok());
        match turn.unwrap_or(0) {
            LONG_REPLIES.. => completion(&answer),
            turn => completion(&format!("turn {}\n{long}", turn + 1)),
        }
    })
}

/// Makes an evaluation, which goes well; else it is told what others said.
#[track_caller]
fn evaluate(command: &mut Command, others: impl Fn() -> String) {
    let ended = Process::start(command).wait_for(LIMIT);
    assert!(ended.status.success(), "{}\n{}", ended.stderr, others());
}

#[test]
fn a_trajectory_of_two_hundred_megabytes_goes_from_a_worker_into_the_run_folder() {
    let world = World::new();
    let sizes = Sizes {
        train: 1,
        val: 1,
        test: 1,
    };
    generate(&world.path("one"), 42, sizes).expect("data are written");
    world.write("skill.md", "# Skill\n\nAnswer in few words.\n");
    let items = world.json("one/val/items.json");
    let gold = items[0]["answers"][0].as_str().expect("a text");
    let models = models(format!("<answer>{gold}</answer>"));
    let settings = [
        format!("model.openai_compatible_base_url={}", models.url()),
        "model.openai_compatible_max_tokens=1000000".to_owned(),
        "env.max_completion_tokens=1000000".to_owned(),
        format!("env.max_turns={}", LONG_REPLIES + 1),
        "env.split_dir=one".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let turns = LONG_REPLIES + 1;

    evaluate(&mut world.eval("here", &settings), String::new);
    assert_eq!(models.calls(), turns);

    let cluster = Cluster::start_with(Shape {
        slots: "chat=2".to_owned(),
        ..Shape::default()
    });
    let mut submission = world.submit_eval(&cluster, "there", &settings);
    evaluate(&mut submission, || cluster.said());
    assert_eq!(models.calls(), 2 * turns, "no turn is asked for again");

    let conversation = "rollout/predictions/val-00000/conversation.json";
    let written = std::fs::metadata(world.path("there").join(conversation));
    let written = written.expect("the trajectory is there").len();
    assert!(written > BYTES, "{written} bytes are written");
    folder::same(&world.path("here"), &world.path("there"));

    let peaks = [&cluster.workers[0], &cluster.coordinators[0]].map(Node::peak_bytes);
    let [worker, coordinator] = peaks.map(|bytes| bytes >> 20);
    let size = BYTES >> 20;
    println!("{size} MiB: {worker} MiB in the worker, {coordinator} MiB in the coordinator");
    assert!(worker <= WORKER_MAX * size, "{worker} MiB in the worker");
    assert!(
        coordinator <= COORDINATOR_MAX * size,
        "{coordinator} MiB in the coordinator"
    );
    nothing_is_left(&cluster);
}
