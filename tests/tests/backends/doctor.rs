//! `skillopt doctor` says in words what keeps a model from answering, and what to do.

use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use skillopt_backends::conformance::server::{Reply, Server};
use skillopt_runtime::clock::unix_ms;
use skillopt_tests::support::fake::completion;
use skillopt_tests::support::program::{Ended, command, run};
use skillopt_tests::support::{Sim, World, sim};

/// Asks for a diagnosis with further settings.
fn doctor(world: &World, settings: &[&str], env: &[(&str, &str)]) -> Ended {
    let mut call: Command = command(["doctor", "config.yaml", "--set"]);
    call.args(settings).current_dir(world.path(""));
    call.envs(env.iter().copied());
    run(&mut call)
}

/// A server that refuses everything.
fn refusing(status: u16, error: Value) -> Server {
    Server::start(move |_, _| Reply::json(status, &json!({"error": error})))
}

/// The settings of both roles for one server.
fn at(url: &str) -> Vec<String> {
    vec![format!("model.openai_compatible_base_url={url}")]
}

#[track_caller]
fn check(settings: &[String], env: &[(&str, &str)], code: i32, words: &[&str]) {
    let world = World::new();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let ended = doctor(&world, &settings, env).code(code);
    for word in words {
        assert!(
            ended.stdout.contains(word),
            "it does not say `{word}`:\n{}{}",
            ended.stdout,
            ended.stderr
        );
    }
}

#[test]
fn a_model_that_answers_is_fine() {
    let sim = Sim::start(&[]);
    check(
        &at(&sim.url()),
        &[],
        0,
        &["● optimizer model", "● target model", "answers", "● clock"],
    );
}

#[test]
fn the_sandbox_that_is_asked_for_is_the_one_that_is_told_of() {
    let sim = Sim::start(&[]);
    let asked = |word| [("SKILLOPT_SANDBOX", word)];
    let lost = ["◇ sandbox", "/proc/*/environ", "every network"];
    check(&at(&sim.url()), &asked("none"), 0, &lost);
    let choices = ["✕ sandbox", "nono", "auto, bubblewrap, landlock, none"];
    check(&at(&sim.url()), &asked("nono"), 2, &choices);
}

#[test]
fn a_model_without_a_price_is_named_with_what_to_do() {
    let world = World::new();
    world.write(
        "prices.yaml",
        "prices:\n  - {model: sim-target, input: 1.5, output: 2}\n",
    );
    let prices = |settings: &[&str]| {
        let ended = doctor(&world, &[settings, &["--offline"]].concat(), &[]).code(0);
        let lines = ended
            .stdout
            .lines()
            .skip_while(|line| !line.contains(" prices "));
        lines.take(2).collect::<String>()
    };
    let said = prices(&["train.num_epochs=1"]);
    assert!(said.starts_with('◇'), "{said}");
    for words in [
        "target `sim-target`",
        "optimizer `sim-optimizer`",
        "budget.prices",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let said = prices(&["budget.prices=prices.yaml"]);
    assert!(
        said.contains("the price of optimizer `sim-optimizer` is unknown"),
        "{said}"
    );
    let said = prices(&["budget.prices=prices.yaml", "model.optimizer=sim-target"]);
    assert!(said.starts_with("● prices"), "{said}");
    assert!(said.contains("$1.50 and $2.00"), "{said}");
}

#[test]
fn a_refused_key_is_named_with_the_place_where_it_is_set() {
    let server = refusing(401, json!({"message": "bad key"}));
    check(
        &at(&server.url()),
        &[("OPENAI_COMPATIBLE_API_KEY", "sk-1234567890")],
        4,
        &["HTTP 401", "OPENAI_COMPATIBLE_API_KEY", "another region"],
    );
}

#[test]
fn a_missing_key_is_named() {
    let mut settings = at("http://127.0.0.1:1");
    settings.extend(
        [
            "model.backend=openai_chat",
            "model.azure_openai_endpoint=http://127.0.0.1:1",
            "model.azure_openai_auth_mode=api_key",
        ]
        .map(str::to_owned),
    );
    check(
        &settings,
        &[],
        2,
        &["AZURE_OPENAI_API_KEY", "mend what is said there"],
    );
}

#[test]
fn an_unknown_model_and_a_wrong_deployment_are_told_apart() {
    for (error, words) in [
        (
            json!({"message": "The model `x` does not exist", "code": "model_not_found"}),
            "the provider does not know the model",
        ),
        (
            json!({"message": "no such deployment", "code": "DeploymentNotFound"}),
            "there is no such deployment",
        ),
        (
            json!({"message": "unsupported location: location is not supported"}),
            "another region",
        ),
        (
            json!({"message": "unknown field chat_template_kwargs.enable_thinking"}),
            "refuses the thinking mode",
        ),
    ] {
        let server = refusing(404, error);
        check(&at(&server.url()), &[], 4, &["HTTP 404", words]);
    }
}

#[test]
fn nobody_there_and_no_tls_there_are_told_apart() {
    let closed = sim::url(sim::closed_port());
    check(&at(&closed), &[], 4, &["nothing listens there"]);
    let server = refusing(500, json!({}));
    let url = server.url().replace("http://", "https://");
    check(&at(&url), &[], 4, &["TLS failed", "http://"]);
}

#[test]
fn a_wrong_clock_is_told_also_when_the_blame_falls_on_the_key() {
    let theirs =
        UNIX_EPOCH + Duration::from_millis(unix_ms()) + Duration::from_secs(3 * 3_600 + 60);
    let date = httpdate::fmt_http_date(theirs);
    for (status, body, code) in [
        (200, completion("ready"), 0),
        (401, b"{\"error\":{\"message\":\"expired\"}}".to_vec(), 4),
    ] {
        let date = date.clone();
        let server = Server::start(move |_, _| {
            Reply::Answer(status, vec![("date", date.clone())], body.clone())
        });
        check(
            &at(&server.url()),
            &[],
            code,
            &["clock is 3 h behind the provider's", "set-ntp"],
        );
    }
}

/// The program that the target is lies where the configuration says, and is of the release that it says.
#[test]
fn the_agent_of_the_target_is_looked_for_as_a_worker_does() {
    let world = World::new();
    let program = world.program("node_modules/elsewhere/my-codex", "exit 0");
    world.write(
        "node_modules/elsewhere/package.json",
        r#"{"version": "9.9.9"}"#,
    );
    let at = format!("model.codex_exec_path={}", program.display());
    let gone = format!("model.codex_exec_path={}", world.path("gone").display());
    let declared = r#"model.agent_cli={"name": "small", "command": ["my-agent"], "skills": "s", "wire": "chat"}"#;
    let declared_at = format!("model.declared_exec_path={}", program.display());
    let (codex, own) = (
        "model.target_backend=codex_exec",
        "model.target_backend=declared_exec",
    );
    for (settings, code, words) in [
        (
            &[codex, &at][..],
            2,
            &["✕ agents", "codex_exec", "9.9.9", "agent_version"][..],
        ),
        (
            &[codex, &at, "model.agent_version=9.9.9"],
            0,
            &["● agents", "codex_exec 9.9.9"],
        ),
        (
            &[codex, &gone],
            2,
            &["✕ agents", "gone", "is not installed"],
        ),
        (&[&gone], 0, &["◇ agents", "gone", "is not installed"]),
        (
            &[own, declared],
            2,
            &["✕ agents", "my-agent", "declared_exec_path"],
        ),
        (
            &[own, declared, &declared_at],
            0,
            &["● agents", "small 9.9.9"],
        ),
    ] {
        let common = [
            "model.agent_provider=openai_compatible",
            "model.openai_compatible_base_url=http://127.0.0.1:1/v1",
        ];
        let settings = [settings, &common, &["--offline"]].concat();
        let ended = doctor(&world, &settings, &[("PATH", "/usr/bin:/bin")]).code(code);
        for word in words {
            assert!(ended.stdout.contains(word), "{word}:\n{}", ended.stdout);
        }
    }
}

/// What an agent's relay will ask is asked, without the agent.
#[test]
fn the_model_behind_an_agent_is_asked_as_its_relay_will() {
    let world = World::new();
    let program = world.program("elsewhere/my-agent", "exit 1");
    world.write("elsewhere/package.json", r#"{"version": "9.9.9"}"#);
    let at_program = format!("model.declared_exec_path={}", program.display());
    let declared = r#"model.agent_cli={"name": "small", "command": ["my-agent"], "skills": "s", "wire": "chat"}"#;
    let agent = [
        "model.target_backend=declared_exec",
        "model.agent_provider=openai_compatible",
        declared,
        at_program.as_str(),
    ];
    let sim = Sim::start(&[]);
    let optimizer = format!("model.optimizer_openai_compatible_base_url={}", sim.url());
    let refusing = refusing(401, json!({"message": "bad key"}));
    let codex = [
        "model.target_backend=codex_exec",
        "model.agent_version=9.9.9",
        "model.agent_provider=claude_chat",
    ];
    let at_codex = format!("model.codex_exec_path={}", program.display());
    for (agent, url, code, words) in [
        (
            &agent[..],
            sim.url(),
            0,
            &["● target model", "where `declared_exec` will ask it"][..],
        ),
        (
            &agent,
            refusing.url(),
            4,
            &["✕ target model", "HTTP 401", "OPENAI_COMPATIBLE_API_KEY"],
        ),
        // It speaks another interface than its provider.
        (
            &[&codex[..], &[at_codex.as_str()]].concat(),
            sim.url(),
            2,
            &["✕ target model", "agent_provider"],
        ),
    ] {
        let target = format!("model.target_openai_compatible_base_url={url}");
        let settings = [agent, &[optimizer.as_str(), target.as_str()]].concat();
        let ended = doctor(&world, &settings, &[("PATH", "/usr/bin:/bin")]).code(code);
        for word in words.iter().chain(&["● optimizer model"]) {
            assert!(ended.stdout.contains(word), "{word}:\n{}", ended.stdout);
        }
    }
}
