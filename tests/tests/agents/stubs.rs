//! Programs that only look like a CLI: missing, of another release, crashing, mute, endless, and one
//! that speaks to its vendor by itself.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use skillopt_agents::cli;
use skillopt_agents::installed::Installed;
use skillopt_agents::verdict::Verdict;
use skillopt_backends::Disposition;
use skillopt_sandbox::Limits;
use skillopt_tests::support::World;
use skillopt_tests::support::folder::holding;
use skillopt_tests::support::program::{Ended, run};

use crate::rig::{Job, Rig};

#[tokio::test]
async fn a_program_that_breaks_or_says_nothing_is_no_score_whatever_the_cli() {
    let rig = Rig::start(json!({"default": {"text": "x"}})).await;
    let world = World::new();
    for cli in cli::ALL.iter().filter(|cli| !cli.is_direct()) {
        for (script, words) in [
            ("echo 'it broke here' >&2; exit 3", "it broke here"),
            ("kill -9 $$", ""),
            ("kill -SEGV $$", ""),
            ("exit 0", ""),
            ("sleep 600", "asked the model nothing"),
            ("echo not an event; exit 0", ""),
            ("echo '{\"type\":\"of another release\"}'; exit 0", ""),
        ] {
            let path = world.program(cli.program, script);
            let job = Job {
                installed: Some(Installed::at(&path, "").unwrap()),
                wall: Duration::from_secs(if script.starts_with("sleep") { 1 } else { 120 }),
                ..Job::of(cli.backend)
            };
            let finished = rig.run(job).await;
            let Verdict::NotJudged(error) = &finished.verdict else {
                panic!("{} `{script}`: {finished:?}", cli.backend);
            };
            let again = matches!(error.disposition(), Disposition::Retry(_));
            assert!(again, "{} `{script}`: {error}", cli.backend);
            let said = error.to_string();
            assert!(said.contains(words), "{} `{script}`: {said}", cli.backend);
        }
    }
}

/// Most memory of this process so far, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    number.parse().unwrap()
}

/// What the worker may need for a task, whatever it prints.
const MEMORY_MAX_KIB: u64 = 192 * 1024;

#[tokio::test]
async fn a_gigabyte_of_output_ends_the_task_and_fills_no_memory() {
    let rig = Rig::start(json!({"default": {"text": "x"}})).await;
    let world = World::new();
    let event = r#"{"type":"item.completed","item":{"type":"agent_message","text":"more"}}"#;
    for script in [
        "head -c 1G /dev/zero | tr '\\0' x".to_owned(),
        "head -c 1G /dev/zero | tr '\\0' x >&2".to_owned(),
        format!("yes '{event}' | head -c 1G"),
    ] {
        let path = world.program("codex", &script);
        let before = peak_kib();
        let job = Job {
            installed: Some(Installed::at(&path, "").unwrap()),
            ..Job::of("codex_exec")
        };
        let finished = rig.run(job).await;
        let grown = peak_kib() - before;
        // Its model was asked nothing: that is no score.
        let Verdict::NotJudged(error) = &finished.verdict else {
            panic!("`{script}`: {:?}", finished.verdict);
        };
        let said = error.to_string();
        assert!(
            said.contains("more output than it may"),
            "`{script}`: {said}"
        );
        assert!(grown < MEMORY_MAX_KIB, "`{script}`: {grown} KiB");
        let limits = Limits::default();
        assert!(finished.stderr.len() <= 3 * limits.kept_bytes, "{script}");
    }
}

fn eval(world: &World, out: &str, env: &[(&str, &str)], more: &[&str]) -> Ended {
    world.write("skill.md", "Count twice.\n");
    run(world.eval(out, more).envs(env.iter().copied()))
}

/// Settings for an agent whose provider is never reached.
const NOWHERE: [&str; 2] = [
    "model.openai_compatible_base_url=http://127.0.0.1:9/v1",
    "model.agent_provider=openai_compatible",
];

#[test]
fn a_program_that_is_missing_or_of_another_release_is_told_before_anything_is_spent() {
    let world = World::new();
    let codex = ["model.target_backend=codex_exec"];
    let all: Vec<&str> = NOWHERE.iter().chain(&codex).copied().collect();
    let bin = "tools/node_modules/@openai/codex/bin";
    let path = format!("{}:/usr/bin:/bin", world.path(bin).display());
    let env = [("PATH", path.as_str())];
    let ended = eval(&world, "out", &env, &all);
    ended
        .code(2)
        .says(&["`codex` is not installed", "npm install -g"]);

    let said = concat!(
        r#"printf '%s\n' '{"type":"item.completed","item":{"type":"agent_message","text":"<answer>x</answer>"}}' "#,
        r#"'{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'"#
    );
    world.program(&format!("{bin}/codex"), said);
    world.write(
        "tools/node_modules/@openai/codex/package.json",
        r#"{"version": "9.9.9"}"#,
    );
    let ended = eval(&world, "out", &env, &all);
    ended
        .code(2)
        .says(&["9.9.9", "0.171.0", "model.agent_version: 9.9.9"]);
    assert!(!world.path("out").exists());

    let mut asked_for = all.clone();
    asked_for.push("model.agent_version=9.9.9");
    eval(&world, "out", &env, &asked_for).code(0);
    asked_for.pop();
    asked_for.push("model.agent_version=9.9.8");
    let ended = eval(&world, "other", &env, &asked_for);
    ended.code(2).says(&["9.9.9", "9.9.8", "agent_version"]);
}

#[test]
fn a_program_that_this_machine_cannot_start_is_not_told_as_the_providers_fault() {
    let world = World::new();
    world.program("bin/codex", "#!/no/such/interpreter");
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let mut all = vec![
        "model.target_backend=codex_exec",
        "model.retry_attempts=2",
        "model.retry_base_ms=1",
    ];
    all.extend(NOWHERE);
    let ended = eval(&world, "out", &[("PATH", &path)], &all);
    ended.code(4).says(&[
        "a fault of this machine",
        "codex` cannot be started in the sandbox",
        "skillopt doctor",
    ]);
}

/// Returns one of the conversations of a run folder.
fn a_conversation(world: &World, out: &str) -> String {
    let mut items = std::fs::read_dir(world.path(out).join("rollout/predictions")).unwrap();
    let path = items.next().unwrap().unwrap().path();
    std::fs::read_to_string(path.join("conversation.json")).unwrap()
}

/// It is asked in a sandbox without a credential, and without a way out.
#[test]
fn a_program_without_a_package_is_asked_for_its_release() {
    let world = World::new();
    let said = concat!(
        r#"printf '%s\n' '{"type":"item.completed","item":{"type":"agent_message","text":"<answer>x</answer>"}}' "#,
        r#"'{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'"#
    );
    let script = format!(
        "if [ \"$*\" = --version ]; then\n\
         [ -z \"$MODEL_API_KEY$OPENAI_COMPATIBLE_API_KEY\" ] || exit 1\n\
         (exec 3<>/dev/tcp/127.0.0.1/47001) 2>/dev/null && exit 1\n\
         echo codex-cli 9.9.9; exit 0\nfi\n{said}"
    );
    world.program("bin/codex", &script);
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let env = [
        ("PATH", path.as_str()),
        ("OPENAI_COMPATIBLE_API_KEY", "sk-of-the-provider"),
    ];
    let mut all = vec!["model.target_backend=codex_exec"];
    all.extend(NOWHERE);
    let ended = eval(&world, "out", &env, &all);
    // Before the run, not at its first task.
    ended
        .code(2)
        .says(&["9.9.9", "0.171.0", "model.agent_version: 9.9.9"]);
    assert!(!world.path("out/rollout").exists());
    all.push("model.agent_version=9.9.9");
    let ended = eval(&world, "other", &env, &all);
    ended.code(0).says(&["newer than what", "0.171.0"]);
    all.pop();
    all.push("model.agent_version=0.170.0");
    let ended = eval(&world, "old", &env, &all);
    ended.code(2).says(&["0.170.0", "older"]);
    all.pop();

    assert!(a_conversation(&world, "other").contains("\"9.9.9\""));

    // One that does not say it is taken for one that was tried, and that is told.
    let script = format!("[ \"$*\" = --version ] && exit 1\n{said}");
    world.program("bin/codex", &script);
    eval(&world, "third", &env, &all).code(0);
    assert!(a_conversation(&world, "third").contains("\"unknown\""));
}

#[test]
fn what_no_agent_can_have_is_told_before_anything_is_spent() {
    let world = World::new();
    world.program("bin/codex", "exit 0");
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let mut all = vec!["model.target_backend=codex_exec"];
    all.extend(NOWHERE);
    for (setting, words) in [
        ("model.codex_exec_sandbox=read-only", "workspace-write"),
        (
            "model.codex_exec_network_access=true",
            "its model and nothing else",
        ),
        (
            "model.codex_exec_web_search=true",
            "a search that the provider makes",
        ),
        ("model.codex_exec_profile=prof", "agent_cli"),
    ] {
        let mut all = all.clone();
        all.push(setting);
        let (key, _) = setting
            .trim_start_matches("model.")
            .split_once('=')
            .unwrap();
        let ended = eval(&world, "out", &[("PATH", &path)], &all);
        ended.code(2).says(&[key, words]);
    }
    assert!(!world.path("out").exists());
}

/// A vendor's server: says `vendor` to each connection and keeps what it was sent.
fn vendor() -> (u16, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = std::thread::spawn(move || {
        let mut asked = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut said = [0; 16];
            let n = stream.read(&mut said).unwrap();
            if said[..n].starts_with(b"stop") {
                break;
            }
            stream.write_all(b"vendor").unwrap();
            asked += 1;
        }
        asked
    });
    (port, serve)
}

const KEY: &str = "key_of-the-vendor-0123456789";

/// A stub of the Cursor CLI, from its documented interface: it looks at its flags and its settings,
/// goes out through the proxy that its environment names, and speaks in its events.
const CURSOR: &str = r#"
[ "$1 $2 $3 $4" = "-p --output-format stream-json --trust" ] || { echo "flags: $*" >&2; exit 2; }
grep -q useHttp1ForAgent "$CURSOR_CONFIG_DIR/cli-config.json" || { echo "no settings" >&2; exit 2; }
[ -n "$CURSOR_API_KEY" ] || { echo "Not logged in" >&2; exit 1; }
prompt=$(cat)
case $prompt in *skillopt-target*) ;; *) echo "no skill in the prompt" >&2; exit 1;; esac
[ -f .cursor/skills/skillopt-target/SKILL.md ] || { echo "no skill" >&2; exit 1; }
proxy=${HTTPS_PROXY#http://}
ask() {
  exec 3<>"/dev/tcp/${proxy%:*}/${proxy#*:}"
  printf 'CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n' "$1" >&3
  IFS= read -r status <&3
  case $status in *200*) ;; *) return 1;; esac
  IFS= read -r empty <&3
  printf 'hello' >&3
  said=$(head -c 6 <&3)
}
printf '%s\n' '{"type":"system","subtype":"init","apiKeySource":"env","session_id":"s","model":"composer","permissionMode":"default"}'
ask 127.0.0.1:1 && { echo "it got out" >&2; exit 3; }
ask "127.0.0.1:@PORT@" && [ "$said" = vendor ] || { echo "no way to the vendor" >&2; exit 1; }
printf '%s\n' '{"type":"tool_call","subtype":"started","call_id":"c1","tool_call":{"shellToolCall":{"args":{"command":"env"}}}}'
printf '{"type":"tool_call","subtype":"completed","call_id":"c1","tool_call":{"shellToolCall":{"args":{"command":"env"},"result":{"success":{"stdout":"%s"}}}}}\n' "$CURSOR_API_KEY"
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"duration_ms":5,"result":"<answer>x</answer>","session_id":"s","usage":{"inputTokens":40,"outputTokens":2}}'
"#;

#[test]
fn cursor_goes_out_to_its_vendor_alone_and_only_where_that_is_said() {
    let (port, served) = vendor();
    let world = World::new();
    world.program(
        "bin/cursor-agent",
        &CURSOR.replace("@PORT@", &port.to_string()),
    );
    let path = format!("{}:/usr/bin:/bin", world.path("bin").display());
    let cursor = ["model.target_backend=cursor_exec"];
    let without = [("PATH", path.as_str()), ("CURSOR_API_KEY", KEY)];
    let ended = eval(&world, "out", &without, &cursor);
    ended
        .code(2)
        .says(&["cursor_exec_egress", "its key lies in the sandbox"]);

    let egress = format!("127.0.0.1:{port}");
    let with = [without[0], without[1], ("CURSOR_EXEC_EGRESS", &egress)];
    let capped = [cursor[0], "model.agent_max_tokens=100"];
    let ended = eval(&world, "out", &with, &capped);
    ended.code(2).says(&["agent_max_tokens", "cannot be kept"]);

    eval(&world, "out", &with, &cursor).code(0);
    let conversation = a_conversation(&world, "out");
    assert!(conversation.contains("\"shell\""), "{conversation}");
    assert!(
        conversation.contains("as the program itself counts them"),
        "{conversation}"
    );
    assert!(
        conversation.contains("127.0.0.1:1"),
        "where it was not let: {conversation}"
    );
    let kept = holding(&world.path("out"), KEY);
    assert!(kept.is_empty(), "the key is in the run folder: {kept:?}");

    let mut stop = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stop.set_write_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stop.write_all(b"stop").unwrap();
    assert_eq!(served.join().unwrap(), 12, "one question for each item");
}
