//! A failure never becomes a number: the run stops with its cause and an exit code that says so,
//! what is paid for is kept, and the same command goes on once the fault is lifted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use skillopt_backends::conformance::server::{Reply, Server};
use skillopt_backends::conformance::wire::CHAT_COMPLETIONS;
use skillopt_runtime::clock::Stopwatch;
use skillopt_tests::support::fake::{Fake, refusal};
use skillopt_tests::support::folder::{rows, rows_are_real};
use skillopt_tests::support::program::run;
use skillopt_tests::support::wait::until;
use skillopt_tests::support::{Ended, Process, Sim, World, sim, store};

/// Slow enough that a fault can be brought in the middle of a run.
const SLOW: &[&str] = &["--latency", "fixed:8"];
const ARGS: &[&str] = &[
    "--slots",
    "8",
    "--set",
    "env.exec_timeout=2",
    "model.optimizer_timeout=2",
];

/// Answers after which the fault begins: in the baseline, in reflection, late.
const MOMENTS: [u64; 3] = [5, 60, 150];

/// Brings a fault after each of [`MOMENTS`] answers, expects a pause that names `words`, lifts the
/// fault and goes on.
#[track_caller]
fn check(fault: Value, lifted: Value, args: &[&str], words: &[&str]) {
    let (world, sim) = (World::new(), Sim::start(SLOW));
    let args = [ARGS, args].concat();
    world.trained("whole", &sim.url(), &args);
    let calls = sim.stats().ok();
    for moment in MOMENTS {
        sim.reset();
        let out = moment.to_string();
        let process = Process::start(&mut world.train(&out, &sim.url(), &args));
        until("the run is under way", || sim.stats().ok() >= moment);
        sim.configure(fault.clone());
        let ended = process.wait();
        paused(&world, &out, ended, words);
        let kept = store::results(&world.store(&out));
        assert_eq!(sim.settled().ok(), kept, "every answer is kept");
        sim.configure(lifted.clone());
        world.trained(&out, &sim.url(), &args);
        assert_eq!(sim.stats().ok(), calls, "an answered call was asked again");
        world.same("whole", &out);
    }
}

/// Checks everything that a pause promises.
#[track_caller]
fn paused(world: &World, out: &str, ended: Ended, words: &[&str]) {
    stands_still(
        world,
        out,
        ended.says(&["go on with", "skillopt train"]),
        words,
    );
}

/// Checks what holds of every pause, also of one that the same command does not end.
#[track_caller]
fn stands_still(world: &World, out: &str, ended: Ended, words: &[&str]) {
    ended.code(4).says(&["paused"]).says(words);
    let status = world.status(out);
    assert!(status.starts_with("paused ("), "{status}");
    if world.path("whole").exists() {
        rows_are_real(&rows(&world.path(out)), &world.path("whole"));
    }
    assert!(
        !world.path(out).join("summary.json").exists(),
        "no summary without an end"
    );
}

#[test]
fn rejected_credentials_pause_the_run() {
    check(
        json!({"unauthorized": true}),
        json!({"unauthorized": false}),
        &[],
        &["401", "credentials"],
    );
}

#[test]
fn answers_that_are_no_completions_pause_the_run() {
    check(
        json!({"pmalformed": 1}),
        json!({"pmalformed": 0}),
        &[],
        &["not a chat completion"],
    );
}

#[test]
fn an_endpoint_that_cuts_every_connection_pauses_the_run() {
    check(
        json!({"dead": true}),
        json!({"dead": false}),
        &[],
        &["no connection to"],
    );
}

#[test]
fn a_provider_that_only_fails_pauses_the_run() {
    check(
        json!({"p500": 1}),
        json!({"p500": 0}),
        &[],
        &["HTTP 500", "4 tries"],
    );
}

#[test]
fn a_provider_that_never_answers_pauses_the_run() {
    let quick = [
        "env.exec_timeout=1",
        "model.optimizer_timeout=1",
        "model.retry_attempts=2",
    ];
    check(
        json!({"phang": 1}),
        json!({"phang": 0}),
        &quick,
        &["did not answer within"],
    );
}

#[test]
fn a_closed_port_pauses_the_run_and_a_server_there_lets_it_go_on() {
    let (world, port) = (World::new(), sim::closed_port());
    let url = sim::url(port);
    let ended = world.ended("a", &url, ARGS);
    paused(&world, "a", ended, &["no connection to", &url]);
    assert!(
        rows(&world.path("a")).values().all(Vec::is_empty),
        "nothing was scored"
    );
    let sim = Sim::start_at(port, SLOW);
    world.trained("a", &url, ARGS);
    let ok = sim.stats().ok();
    sim.reset();
    world.trained("whole", &url, ARGS);
    assert_eq!(ok, sim.stats().ok());
    world.same("whole", "a");
}

/// Its jobs wait while its circuit is open, but the run does not wait for longer than they would have
/// tried.
#[test]
fn a_closed_port_pauses_the_run_though_its_circuit_opens() {
    let world = World::new();
    let url = sim::url(sim::closed_port());
    let patient = [
        "--slots",
        "16",
        "--set",
        "model.retry_attempts=12",
        "model.retry_base_ms=1000",
        "model.retry_cap_ms=1000",
    ];
    let ended = world.ended("a", &url, &patient);
    let words = [
        "does not answer: one call at a time",
        "answered no call for",
        "no connection to",
    ];
    paused(&world, "a", ended, &words);
    let rows = rows(&world.path("a"));
    assert!(rows.values().all(Vec::is_empty), "nothing was scored");
}

/// No run waits for as long as that.
#[test]
fn a_provider_that_wants_hours_of_silence_pauses_the_run() {
    let world = World::new();
    let sim = Sim::start(&["--p429", "1", "--retry-after", "4000"]);
    let ended = world.ended("a", &sim.url(), ARGS);
    paused(&world, "a", ended, &["asked us to slow down"]);
}

/// A single slot, so that the next call is another item's.
#[test]
fn a_throttled_call_slows_the_others_and_changes_no_answer() {
    let (world, watch) = (World::new(), Stopwatch::start());
    world.write("skill.md", "Answer with one word.\n");
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&times);
    let items = 12;
    let server = Server::start(move |_, number| {
        seen.lock().unwrap().push(watch.elapsed());
        if number == items {
            let wait = ("retry-after", "2".to_owned());
            return Reply::Answer(429, vec![wait], b"{}".to_vec());
        }
        Reply::json(200, &(CHAT_COMPLETIONS.answer)("<answer>Paris</answer>"))
    });
    let url = format!("model.openai_compatible_base_url={}/v1", server.url());
    let eval = |out: &str| run(&mut world.eval(out, &[&*url, "--slots", "1"])).code(0);
    eval("well");
    assert_eq!(times.lock().unwrap().len(), items);
    let ended = eval("throttled");
    world.same("well", "throttled");
    let times = times.lock().unwrap();
    assert_eq!(times.len(), 2 * items + 1, "one call was made twice");
    let apart = times[items + 1] - times[items];
    assert!(apart >= Duration::from_millis(1_900), "{apart:?}");
    ended.says(&["asks for fewer calls (HTTP 429)"]);
}

#[test]
fn a_server_that_is_killed_in_the_middle_pauses_the_run() {
    let (world, sim) = (World::new(), Sim::start(SLOW));
    let (url, port) = (sim.url(), sim.port());
    world.trained("whole", &url, ARGS);
    let results = store::results(&world.store("whole"));
    sim.reset();
    let process = Process::start(&mut world.train("a", &url, ARGS));
    until("the run is under way", || sim.stats().ok() >= 60);
    drop(sim);
    paused(&world, "a", process.wait(), &["no connection to"]);
    let kept = store::results(&world.store("a"));
    assert!(
        (50..results).contains(&kept),
        "{kept} of {results} are kept"
    );
    let sim = Sim::start_at(port, SLOW);
    world.trained("a", &url, ARGS);
    assert_eq!(
        sim.stats().ok(),
        results - kept,
        "an answered call was asked again"
    );
    world.same("whole", "a");
}

#[test]
fn a_judge_that_breaks_pauses_the_run() {
    let (world, sim) = (World::new(), Sim::start(SLOW));
    let broken = world.path("broken");
    let items: String = (0..20)
        .map(|i| format!("{{\"id\": \"i{i}\", \"question\": \"[[sim item=i{i} fam=K00 gold=\\\"a b {i}\\\"]] q\", \"gold\": \"a b {i}\"}}\n"))
        .collect();
    world.write("own/items.jsonl", items);
    world.write("own/prompt.md", "{{question}}\n");
    world.write(
        "own/benchmark.yaml",
        "name: own\nitems: items.jsonl\nsplit_ratio: \"2:1:1\"\nhidden: [gold]\n\
         scorer: {kind: command, command: [sh, judge.sh], timeout_s: 30}\n",
    );
    let judge = format!(
        "if test -e '{}'; then echo no verdict today >&2; exit 3; fi\n\
         cat > /dev/null\necho '{{\"hard\": 0, \"soft\": 0.5, \"reason\": \"so\"}}'\n",
        broken.display()
    );
    world.write("own/judge.sh", judge);
    let args = [
        ARGS,
        &[
            "env.name=custom",
            "env.benchmark_dir=own",
            "env.split_dir=",
            "env.split_mode=ratio",
        ],
    ]
    .concat();
    world.trained("whole", &sim.url(), &args);
    let answered = sim.stats().ok();
    sim.reset();
    world.write("broken", "");
    let ended = world.ended("a", &sim.url(), &args);
    paused(&world, "a", ended, &["judge", "no verdict today"]);
    std::fs::remove_file(broken).unwrap();
    world.trained("a", &sim.url(), &args);
    world.same("whole", "a");
    assert_eq!(
        sim.stats().ok(),
        answered,
        "answers without a verdict are kept too"
    );
}

#[test]
fn a_later_turn_that_fails_asks_no_earlier_one_again() {
    let (world, sim) = (World::new(), Sim::start(SLOW));
    let patience = &[
        "env.max_turns=3",
        "model.retry_attempts=16",
        "model.retry_base_ms=5",
    ];
    let args = [ARGS, patience].concat();
    world.trained("whole", &sim.url(), &args);
    let answered = sim.stats().ok();
    sim.reset();
    sim.configure(json!({"p500": 0.3}));
    world.trained("a", &sim.url(), &args);
    world.same("whole", "a");
    assert_eq!(
        sim.stats().ok(),
        answered,
        "an earlier turn was asked again"
    );
}

#[test]
fn a_folder_made_from_other_answers_is_made_anew() {
    let (world, sim) = (World::new(), Sim::start(SLOW));
    let whole = world.trained("whole", &sim.url(), ARGS);
    let a = world.trained("a", &sim.url(), ARGS);
    // As after a power cut: a stage that is there, but not whole.
    let rows = a.join("selection_eval_baseline/results.jsonl");
    std::fs::write(&rows, "").unwrap();
    world.trained("a", &sim.url(), ARGS);
    world.same("whole", "a");
    assert!(whole.exists());
}

#[test]
fn a_stage_in_which_nobody_answers_is_no_score() {
    let world = World::new();
    let fake = Fake::start(|_| refusal("maximum context length is 10 tokens"));
    let ended = world.ended("a", &fake.url(), ARGS);
    let words = [
        "all",
        "maximum context length",
        "start again",
        "fail_reason",
    ];
    stands_still(&world, "a", ended, &words);
}

#[test]
fn a_gateway_that_takes_no_long_bodies_pauses_the_run() {
    let world = World::new();
    let page = "<html><title>413 Request Entity Too Large</title></html>";
    let server = Server::start(move |_, _| Reply::Answer(413, Vec::new(), page.into()));
    let ended = world.ended("a", &server.url(), ARGS);
    paused(&world, "a", ended, &["HTTP 413", "size of requests"]);
}

#[test]
fn an_evaluation_tells_of_items_without_an_answer_and_of_cut_answers() {
    let world = World::new();
    world.write("skill.md", "Answer in few words.\n");
    let calls = AtomicU64::new(0);
    let fake = Fake::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => refusal("maximum context length is 10 tokens"),
        _ => (CHAT_COMPLETIONS.truncated)("").to_string().into_bytes(),
    });
    let url = format!("model.openai_compatible_base_url={}", fake.url());
    run(&mut world.eval("a", &[&url])).code(0).says(&[
        "warning: 1 of ",
        "got no answer from the model, and count as wrong: ",
        "maximum context length is 10 tokens",
        "cut at the limit of tokens, and may count as wrong; raise \
         `model.openai_compatible_max_tokens`",
    ]);
    let summary = world.json("a/eval_summary.json");
    assert_eq!(summary["no_answer"]["items"], 1, "{summary}");
    let cut = summary["n_items"].as_u64().map(|n| n - 1);
    assert_eq!(summary["truncated_calls"].as_u64(), cut, "{summary}");
    let rows = world.text("a/rollout/results.jsonl");
    assert!(rows.contains("empty answer (cut at 7 tokens)"), "{rows}");
}

#[test]
fn the_test_split_stays_sealed_while_a_run_is_under_way() {
    let (world, sim) = (World::new(), Sim::start(SLOW));
    let mut process = Process::start(&mut world.train("a", &sim.url(), ARGS));
    let record = world.path("a").join("steps/step_0002/step_record.json");
    until("two steps are over", || record.exists());
    process.signal(Signal::SIGINT);
    process.wait().code(130);
    let shown = world.path("a").join("test_eval_baseline");
    assert!(
        !shown.exists(),
        "numbers of the test split are there too early"
    );
    world.trained("a", &sim.url(), ARGS);
    assert!(shown.join("summary.json").exists() && shown.join("results.jsonl").exists());
}

#[test]
fn an_interrupt_drains_and_the_same_command_goes_on() {
    let (world, sim) = (World::new(), Sim::start(SLOW));
    world.trained("whole", &sim.url(), ARGS);
    let calls = sim.stats().ok();
    for moment in MOMENTS {
        sim.reset();
        let out = moment.to_string();
        let mut process = Process::start(&mut world.train(&out, &sim.url(), ARGS));
        until("the run is under way", || sim.stats().ok() >= moment);
        process.signal(Signal::SIGINT);
        process
            .wait()
            .code(130)
            .says(&["interrupted", "go on with", "skillopt train"]);
        assert!(
            world.status(&out).starts_with("paused (by hand)"),
            "{}",
            world.status(&out)
        );
        let kept = store::results(&world.store(&out));
        let stats = sim.settled();
        assert_eq!(stats.number("aborted"), 0, "calls under way were finished");
        assert_eq!(stats.ok(), kept, "and kept");
        rows_are_real(&rows(&world.path(&out)), &world.path("whole"));
        world.trained(&out, &sim.url(), ARGS);
        assert_eq!(sim.stats().ok(), calls, "an answered call was asked again");
        world.same("whole", &out);
    }
}

#[test]
fn a_second_interrupt_stops_at_once() {
    let (world, sim) = (World::new(), Sim::start(&["--latency", "fixed:600000"]));
    let mut process = Process::start(&mut world.train("a", &sim.url(), &["--slots", "4"]));
    until("calls are under way", || {
        sim.stats().number("in_flight") > 0
    });
    process.signal(Signal::SIGINT);
    until("it says that it drains", || {
        process.stderr().contains("stopping")
    });
    assert!(
        process.status().is_none(),
        "it waits for the calls under way"
    );
    process.signal(Signal::SIGINT);
    // `wait` fails long before the calls would be answered.
    process
        .wait()
        .code(130)
        .says(&["interrupted", "go on with"]);
    sim.configure(json!({"latency": "fixed:0"}));
    world.trained("a", &sim.url(), &["--slots", "4"]);
    run(&mut world.train("a", &sim.url(), &["--slots", "4"])).code(0);
}
