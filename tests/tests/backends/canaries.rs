//! A key shows in nothing that the program writes, wherever it was given and whatever a server
//! does with it.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use skillopt_backends::conformance::server::{Reply, Seen, Server};
use skillopt_backends::conformance::wire::{CHAT_COMPLETIONS, GENERATE_CONTENT, MESSAGES, Wire};
use skillopt_queue::redis::unpack_all;
use skillopt_tests::support::program::{command, run};
use skillopt_tests::support::sim::closed_port;
use skillopt_tests::support::{Cluster, Redis, World};

/// No part of it is an ordinary word.
const CANARY: &str = "cnry-7f3a91d2e8b64c05";
/// As a proxy is told it, with the user `me`.
const TOLD_TO_PROXY: &str = "bWU6Y25yeS03ZjNhOTFkMmU4YjY0YzA1";

/// A server that says what it was sent: in refusals of the kind `status`, or in whole answers.
fn echo(status: u16) -> Server {
    echo_in(CHAT_COMPLETIONS, status)
}

/// The same in the words of another interface.
fn echo_in(wire: Wire, status: u16) -> Server {
    Server::start(move |seen: &Seen, _| {
        // What a proxy is told it does not hand on.
        let text = seen.echo().replace(TOLD_TO_PROXY, "");
        let body = match status {
            200 => (wire.answer)(&text),
            _ => (wire.error)(&text),
        };
        Reply::json(status, &body)
    })
}

/// Returns the files below a folder that hold the key, except where it was put.
fn with_canary(folder: &Path, except: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let is_ours = !except.as_os_str().is_empty() && path.starts_with(except);
            if is_ours {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if holds(&std::fs::read(&path).unwrap_or_default()) {
                found.push(path);
            }
        }
    }
    found
}

fn holds(bytes: &[u8]) -> bool {
    has(bytes, CANARY) || has(bytes, TOLD_TO_PROXY)
}

fn has(bytes: &[u8], text: &str) -> bool {
    let text = text.as_bytes();
    bytes.windows(text.len()).any(|part| part == text)
}

/// Returns all that was ever written to Redis, values as they were before they were compressed: every
/// command that changed something is in its append-only file.
fn told_to(redis: &Redis) -> Vec<Vec<u8>> {
    let mut told = Vec::new();
    let mut folders = vec![redis.dir().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).expect("a file");
            told.extend(unpack_all(&bytes).into_iter().map(Vec::from));
            told.push(bytes);
        }
    }
    told
}

/// Gives a key in one way, to a server of each kind, and looks through all that was written. The
/// path that is handed over is where the key may lie.
#[track_caller]
fn check(give: impl Fn(&mut Command, &Path)) {
    check_with("key", echo, |_, call, place| give(call, place));
}

/// The same where the key lies below `place`, with servers of the caller's.
#[track_caller]
fn check_with(
    place: &str,
    serve: impl Fn(u16) -> Server,
    give: impl Fn(&Server, &mut Command, &Path),
) {
    for status in [200, 400, 401, 500] {
        let (world, server) = (World::new(), serve(status));
        let url = format!("model.openai_compatible_base_url={}/v1", server.url());
        let record = [
            "train",
            "config.yaml",
            "--out",
            "out",
            "--record",
            "tape.jsonl",
        ];
        let mut call = command(record);
        call.args(["--set", &url]);
        call.args(["model.retry_attempts=2", "train.num_epochs=1"]);
        call.current_dir(world.path(""));
        let place = world.path(place);
        give(&server, &mut call, &place);
        let ended = run(&mut call);
        let was_sent = server
            .seen()
            .iter()
            .any(|seen| seen.echo().contains(CANARY));
        assert!(was_sent, "{status}: {}", ended.stderr);
        for said in [&ended.stdout, &ended.stderr] {
            assert!(!holds(said.as_bytes()), "{status}: {said}");
        }
        let found = with_canary(&world.path(""), &place);
        assert!(found.is_empty(), "{status}: {found:?}");
        let recorded = world.text("tape.jsonl");
        assert!(
            status != 200 || recorded.contains("[redacted]"),
            "{recorded}"
        );
    }
}

#[test]
fn a_key_of_the_environment_is_nowhere() {
    check(|call, _| {
        call.env("OPENAI_COMPATIBLE_API_KEY", CANARY);
    });
}

#[test]
fn a_key_of_the_command_line_is_nowhere() {
    check(|call, _| {
        call.arg(format!("model.openai_compatible_api_key={CANARY}"));
    });
}

#[test]
fn a_key_that_a_variable_or_a_file_holds_is_nowhere_but_there() {
    check(|call, _| {
        call.arg("model.openai_compatible_api_key=env:MY_KEY");
        call.env("MY_KEY", CANARY);
    });
    check(|call, file| {
        std::fs::write(file, format!("{CANARY}\n")).expect("a key");
        let place = format!("model.openai_compatible_api_key=file:{}", file.display());
        call.arg(place);
    });
}

#[test]
fn a_key_of_a_configuration_file_is_nowhere_but_there() {
    check_with("config.yaml", echo, |_, _, config| {
        let text = std::fs::read_to_string(config).expect("a configuration");
        let keyed = format!("model:\n  openai_compatible_api_key: {CANARY}\n");
        let text = text.replacen("model:\n", &keyed, 1);
        std::fs::write(config, text).expect("a configuration");
    });
}

/// As a cluster mounts it: links to a folder that is replaced as a whole.
#[test]
fn a_key_of_a_mounted_secret_is_nowhere_but_there() {
    check_with("mounted", echo, |_, call, mounted| {
        let version = mounted.join("..2026_01_02");
        std::fs::create_dir_all(&version).expect("a folder");
        std::fs::write(version.join("api-key"), CANARY).expect("a key");
        symlink("..2026_01_02", mounted.join("..data")).expect("a link");
        symlink("..data/api-key", mounted.join("api-key")).expect("a link");
        let place = mounted.join("api-key");
        call.arg(format!(
            "model.openai_compatible_api_key=file:{}",
            place.display()
        ));
    });
}

/// Escaped as a form, it is another text.
const APPLICATION_SECRET: &str = "a+/b-cnry-7f3a91d2e8b64c05";

/// A server that gives tokens, each with the canary in it, and says what it was sent.
fn echo_with_tokens(status: u16) -> Server {
    Server::start(move |seen: &Seen, number| {
        let said = seen.echo();
        let gives_token = seen.path.contains("/oauth2/v2.0/token");
        match (gives_token, status) {
            // Somebody whose token is refused asks for another one, and is refused that.
            (true, 200 | 500) => Reply::json(200, &token(number)),
            (true, 401) if number == 0 => Reply::json(200, &token(number)),
            (true, _) => Reply::json(status, &json!({"error": "invalid_client", "sent": said})),
            (false, 200) => Reply::json(200, &(CHAT_COMPLETIONS.answer)(&said)),
            (false, _) => Reply::json(status, &(CHAT_COMPLETIONS.error)(&said)),
        }
    })
}

fn token(number: usize) -> Value {
    json!({"access_token": format!("token-{number}-{CANARY}"), "expires_in": 3_600})
}

#[test]
fn the_secret_of_an_application_and_the_tokens_that_it_gets_are_nowhere() {
    check_with("nowhere", echo_with_tokens, |server, call, _| {
        let url = server.url();
        call.args([
            "model.backend=openai_chat",
            "model.azure_openai_auth_mode=client_credentials",
            "model.azure_openai_tenant_id=t",
            "model.azure_openai_client_id=c",
            "model.azure_openai_token_hosts=127.0.0.1",
        ]);
        call.arg(format!("model.azure_openai_authority={url}"));
        call.arg(format!("model.azure_openai_endpoint={url}"));
        call.env("AZURE_CLIENT_SECRET", APPLICATION_SECRET);
    });
}

/// Of the machine's identity only the header is a secret at first, then each token.
#[test]
fn the_header_of_a_managed_identity_and_its_tokens_are_nowhere() {
    check_with("nowhere", echo_with_tokens, |server, call, _| {
        on_azure(call, server, "managed_identity");
        let service = format!("{}/oauth2/v2.0/token", server.url());
        call.env("IDENTITY_ENDPOINT", service);
        call.env("IDENTITY_HEADER", CANARY);
    });
}

#[test]
fn the_token_of_the_azure_command_line_is_nowhere_but_in_its_words() {
    check_with("az", echo, |server, call, az| {
        let said = format!("{{\"accessToken\": \"token-{CANARY}\"}}");
        std::fs::write(az, format!("#!/bin/sh\necho '{said}'\n")).expect("a program");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(az, mode).expect("a program");
        on_azure(call, server, "azure_cli");
        call.arg(format!("model.azure_openai_cli_path={}", az.display()));
    });
}

/// Settings of a resource that takes tokens.
fn on_azure(call: &mut Command, server: &Server, mode: &str) {
    call.args([
        "model.backend=openai_chat",
        "model.azure_openai_token_hosts=127.0.0.1",
    ]);
    call.arg(format!("model.azure_openai_auth_mode={mode}"));
    call.arg(format!("model.azure_openai_endpoint={}", server.url()));
}

#[test]
fn the_keys_of_anthropic_and_google_are_nowhere() {
    for (wire, backend, address, key) in [
        (MESSAGES, "claude_chat", "claude_base_url", "CLAUDE_API_KEY"),
        (
            MESSAGES,
            "claude_chat",
            "claude_base_url",
            "ANTHROPIC_API_KEY",
        ),
        (
            GENERATE_CONTENT,
            "gemini_chat",
            "gemini_base_url",
            "GEMINI_API_KEY",
        ),
    ] {
        let serve = |status| echo_in(wire, status);
        check_with("nowhere", serve, |server, call, _| {
            call.arg(format!("model.backend={backend}"));
            call.arg(format!("model.{address}={}/v1beta", server.url()));
            call.env(key, CANARY);
        });
    }
}

/// It goes to the proxy, in another spelling.
#[test]
fn the_password_of_a_proxy_is_nowhere() {
    check_with("nowhere", echo, |server, call, _| {
        let proxy = server
            .url()
            .replace("http://", &format!("http://me:{CANARY}@"));
        call.arg("model.openai_compatible_base_url=http://model.example/v1");
        call.env("HTTP_PROXY", proxy);
        call.env("OPENAI_COMPATIBLE_API_KEY", CANARY);
    });
}

/// Nobody listens there, which is told with its name.
#[test]
fn the_password_of_a_proxy_that_is_away_is_nowhere() {
    let world = World::new();
    let port = closed_port();
    for (variable, scheme) in [("HTTP_PROXY", "http"), ("HTTPS_PROXY", "https")] {
        let mut call = world.train(variable, &format!("{scheme}://model.example/v1"), &[]);
        call.arg("model.retry_attempts=2");
        call.env(variable, format!("http://me:{CANARY}@127.0.0.1:{port}"));
        let ended = run(&mut call).code(4);
        assert!(ended.stderr.contains("no connection"), "{}", ended.stderr);
        for said in [&ended.stdout, &ended.stderr] {
            assert!(!holds(said.as_bytes()), "{said}");
        }
    }
    let found = with_canary(&world.path(""), Path::new(""));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_key_in_an_address_is_refused_and_not_repeated() {
    let world = World::new();
    for address in [
        format!("http://me:{CANARY}@127.0.0.1:1/v1"),
        format!("http://127.0.0.1:1/v1?key={CANARY}"),
    ] {
        let set = format!("model.openai_compatible_base_url={address}");
        let mut call = command(["train", "config.yaml", "--out", "out", "--set", &set]);
        let ended = run(call.current_dir(world.path("")));
        assert!(!ended.status.success());
        assert!(
            ended.stderr.contains("openai_compatible_base_url"),
            "{}",
            ended.stderr
        );
        assert!(!ended.stderr.contains(CANARY), "{}", ended.stderr);
    }
    assert!(with_canary(&world.path(""), Path::new("")).is_empty());
}

/// The submitter's key stays where it was given, and the worker's with the worker.
#[test]
fn a_key_of_a_cluster_is_in_no_message_no_record_and_not_in_redis() {
    for status in [200, 401] {
        let (world, server) = (World::new(), echo(status));
        let key_file = world.path("key");
        std::fs::write(&key_file, CANARY).expect("a key");
        let url = format!("{}/v1", server.url());
        let place = format!("file:{}", key_file.display());
        let mut cluster = Cluster::start(0);
        cluster.add_worker_with(&[
            ("OPENAI_COMPATIBLE_BASE_URL", url.as_str()),
            ("OPENAI_COMPATIBLE_API_KEY", place.as_str()),
        ]);
        let mut call = world.submit(&cluster, "out", &url, &["train.num_epochs=1"]);
        call.arg("model.retry_attempts=2");
        call.env("OPENAI_COMPATIBLE_API_KEY", CANARY);
        let ended = run(&mut call);
        let was_sent = server
            .seen()
            .iter()
            .any(|seen| seen.echo().contains(CANARY));
        assert!(was_sent, "{status}: {}", ended.stderr);
        for said in [ended.stdout, ended.stderr, cluster.said()] {
            assert!(!said.contains(CANARY), "{status}: {said}");
        }
        assert!(with_canary(&world.path(""), &key_file).is_empty());
        let told = told_to(&cluster.redis);
        assert!(!told.iter().any(|value| holds(value)), "{status}");
        // The same search finds what is there.
        let items = world.json("data/train/items.json");
        let question = items[0]["question"].as_str().expect("a question");
        assert!(told.iter().any(|value| has(value, question)), "{status}");
        let (job, planted) = ("\"item_id\"", format!("{CANARY}: planted"));
        assert!(told.iter().any(|value| has(value, job)), "{status}");
        cluster
            .redis
            .ask(&format!("SET planted {planted:?}"))
            .expect("it is stored");
        assert!(told_to(&cluster.redis).iter().any(|value| holds(value)));
    }
}
