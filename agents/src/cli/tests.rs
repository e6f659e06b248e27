//! What holds for every CLI.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use skillopt_backends::agents::declared::Declared;
use skillopt_backends::declare::Options;
use skillopt_backends::registry;
use skillopt_core::job::Profile;

use super::*;

const SKILL: &str = "---\nname: skillopt-target\n---\n\nAlways count twice.\n";

fn with_errand<T>(prompt: &str, work: impl FnOnce(&Errand<'_>) -> T) -> T {
    with_settings(&json!({}), prompt, work)
}

fn with_settings<T>(settings: &Value, prompt: &str, work: impl FnOnce(&Errand<'_>) -> T) -> T {
    let files = BTreeMap::from([("notes/a.md".to_owned(), "a note".to_owned())]);
    work(&Errand {
        prompt,
        skill: SKILL,
        skill_files: &files,
        model: "m-1",
        port: 8080,
        key: "dummy-key",
        effort: "high",
        max_tokens: 40_000,
        home: "/inside",
        work: "/inside/project",
        wants_files: false,
        settings: settings.as_object().unwrap_or(&Map::new()),
    })
}

#[test]
fn each_has_its_skill_its_model_and_its_way_out() {
    for cli in ALL {
        let call = with_errand("Count the words.", cli.call);
        let skills: Vec<&File> = call
            .files
            .iter()
            .filter(|file| file.path.ends_with("skillopt-target/SKILL.md"))
            .collect();
        assert!(!skills.is_empty(), "{cli:?}");
        assert!(
            skills
                .iter()
                .all(|file| file.text == SKILL && file.place == Place::Work)
        );
        let has_note = call
            .files
            .iter()
            .any(|file| file.path.ends_with("notes/a.md"));
        assert!(has_note, "{cli:?}");
        let all = format!("{call:?}");
        assert!(all.contains("m-1"), "{cli:?}");
        assert!(all.contains("127.0.0.1:8080"), "{cli:?}");
        assert!(all.contains("dummy-key"), "{cli:?}");
        assert!(
            call.stdin.contains("skillopt-target"),
            "{cli:?}: {}",
            call.stdin
        );
    }
}

#[test]
fn a_prompt_never_stands_among_the_arguments_and_never_reads_as_a_command() {
    for cli in ALL {
        for prompt in [
            "/etc/passwd is a file",
            "--help me",
            "$x",
            "long ".repeat(60_000).as_str(),
        ] {
            let call = with_errand(prompt, cli.call);
            let in_args = call.args.iter().any(|arg| arg.contains(prompt));
            assert!(!in_args, "{cli:?}");
            assert!(call.stdin.contains(prompt), "{cli:?}");
            assert!(!call.stdin.starts_with(prompt), "{cli:?}: {prompt}");
        }
    }
}

#[test]
fn names_are_unique() {
    for cli in ALL {
        assert_eq!(
            find(cli.backend).map(|found| found.program),
            Some(cli.program)
        );
    }
}

#[test]
fn what_an_option_says_stands_in_the_call() {
    for (backend, settings, has, word) in [
        (
            "codex_exec",
            json!({}),
            true,
            "approval_policy = \\\"never\\\"",
        ),
        (
            "codex_exec",
            json!({"codex_exec_approval_policy": "on-request"}),
            true,
            "approval_policy = \\\"on-request\\\"",
        ),
        ("claude_code_exec", json!({}), true, "\"16384\""),
        (
            "claude_code_exec",
            json!({"claude_code_exec_max_thinking_tokens": 0}),
            false,
            "--max-thinking-tokens",
        ),
        (
            "claude_code_exec",
            json!({"claude_code_exec_profile": "p1"}),
            true,
            "\"Profile: p1\"",
        ),
        ("copilot_exec", json!({}), true, "--allow-all-tools"),
        (
            "copilot_exec",
            json!({"copilot_exec_allow_all_tools": "false"}),
            false,
            "--allow-all-tools",
        ),
        ("cursor_exec", json!({}), true, "\"enabled\""),
        (
            "cursor_exec",
            json!({"cursor_exec_sandbox": "disabled"}),
            true,
            "\"disabled\"",
        ),
    ] {
        let cli = find(backend).unwrap();
        let call = with_settings(&settings, "Count.", cli.call);
        let all = format!("{call:?}");
        assert_eq!(all.contains(word), has, "{backend} {settings}: {all}");
    }
}

/// Settings that every model has: how hard it thinks, and the most tokens of one answer.
type Said<'a> = (&'a str, u32);

/// Returns what of these settings is left for the program of a backend.
fn left(backend: &str, (effort, max_tokens): Said<'_>) -> (String, u32) {
    let mut profile = Profile {
        role: "target".to_owned(),
        backend: backend.to_owned(),
        model: THINKER.to_owned(),
        endpoint: String::new(),
        temperature: None,
        max_tokens,
        reasoning_effort: effort.to_owned(),
        settings: Map::new(),
    };
    let declared = registry::find(backend).unwrap();
    (declared.describe)(Options(&|_| None), &mut profile);
    (profile.reasoning_effort, profile.max_tokens)
}

/// A model that every CLI takes for one that thinks.
const THINKER: &str = "gemini-3-pro";

fn told(cli: &Cli, (effort, max_tokens): Said<'_>) -> Call {
    with_errand("Count.", |errand| {
        (cli.call)(&Errand {
            model: THINKER,
            effort,
            max_tokens,
            ..*errand
        })
    })
}

/// What a backend keeps of a setting its program is told, and what it takes out the program has no
/// place for: nothing is lost on the way that nobody speaks of.
#[test]
fn a_program_is_told_what_its_backend_keeps_for_it() {
    for cli in ALL {
        let nothing = told(cli, ("", 0));
        for effort in ["low", "high", "xhigh"] {
            let kept = left(cli.backend, (effort, 0)).0;
            let is_heard = told(cli, (effort, 0)) != nothing;
            assert_eq!(!kept.is_empty(), is_heard, "{cli:?}: {effort}");
            assert!(kept.is_empty() || kept == effort, "{cli:?}: {kept}");
        }
        let kept = left(cli.backend, ("", 900)).1;
        let is_heard = told(cli, ("", 900)) != nothing;
        assert_eq!(kept > 0, is_heard, "{cli:?}");
        if is_heard {
            let call = format!("{:?}", told(cli, ("", 900)));
            assert!(call.contains("900"), "{cli:?}: {call}");
        }
    }
}

#[test]
fn thoughts_leave_room_for_the_rest_of_an_answer() {
    let claude = find("claude_code_exec").unwrap();
    for (max_tokens, want) in [(0, 16_384), (100_000, 16_384), (9_000, 4_500), (900, 0)] {
        let args = told(claude, ("", max_tokens)).args;
        let at = args.iter().position(|arg| arg == "--max-thinking-tokens");
        assert_eq!(args[at.unwrap() + 1], want.to_string(), "{max_tokens}");
    }
}

#[test]
fn words_for_effort_are_those_of_the_cli() {
    let claude = find("claude_code_exec").unwrap();
    for (word, want) in [
        ("", Some("medium")),
        ("none", None),
        ("off", None),
        ("LOW", Some("low")),
        ("high", Some("high")),
        ("xhigh", Some("max")),
        ("max", Some("max")),
        ("ultra", Some("medium")),
    ] {
        let call = with_errand("Count.", |errand| {
            (claude.call)(&Errand {
                effort: word,
                ..*errand
            })
        });
        let at = call.args.iter().position(|arg| arg == "--effort");
        let seen = at.map(|at| call.args[at + 1].as_str());
        assert_eq!(seen, want, "{word}");
    }
}

fn declared(change: impl FnOnce(&mut Value)) -> Declared {
    let mut text = json!({
        "name": "my_agent", "command": ["my-agent", "--model", "{model}", "--dir", "{work}"],
        "skills": ".agents/skills", "wire": "chat",
        "environment": {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{key}"},
        "files": {"home:.my-agent/config.json": "{\"model\":\"{model}\"}"},
        "told": "Use {skill} in {skills}.\n{prompt}",
    });
    change(&mut text);
    Declared::read(&text).unwrap()
}

#[test]
fn one_can_be_declared_without_rust() {
    let cli = declared(|_| {});
    let call = with_errand("Count {model}.", |errand| {
        super::declared::call(&cli, errand)
    });
    assert_eq!(call.args, ["--model", "m-1", "--dir", "/inside/project"]);
    assert_eq!(call.env["OPENAI_BASE_URL"], "http://127.0.0.1:8080/v1");
    assert!(
        call.files
            .contains(&File::home(".my-agent/config.json", "{\"model\":\"m-1\"}"))
    );
    assert_eq!(
        call.stdin,
        "Use skillopt-target in .agents/skills.\nCount {model}."
    );
}

#[test]
fn a_declared_one_is_told_its_task_as_it_says() {
    let cli = declared(|text| {
        text["prompt"] = "argument".into();
        text["command"] = json!(["my-agent", "{prompt}"]);
    });
    let call = with_errand("Count.", |errand| super::declared::call(&cli, errand));
    assert!(call.args[0].ends_with("Count."), "{:?}", call.args);
    assert_eq!(call.stdin, "");
    let cli = declared(|text| {
        text["prompt"] = "file".into();
        text["command"] = json!(["my-agent", "prompt.md"]);
    });
    let call = with_errand("Count.", |errand| super::declared::call(&cli, errand));
    let file = call.files.iter().find(|file| file.path == "prompt.md");
    assert!(file.unwrap().text.ends_with("Count."));
}

#[test]
fn a_release_is_called_with_the_flags_that_it_knows() {
    let cli = Cli {
        tested: Range {
            first: Version(3, 0, 0),
            last: Version(3, 2, 0),
        },
        since: &[
            Since {
                flag: "--quiet",
                values: 0,
                first: Version(3, 1, 0),
            },
            Since {
                flag: "--level",
                values: 1,
                first: Version(3, 1, 7),
            },
        ],
        call: |errand| Call {
            args: args(&["run", "--quiet", "--level", "2", errand.model]),
            ..Call::default()
        },
        ..ALL[0]
    };
    for (release, want) in [
        (Some(Version(3, 0, 0)), "run m-1"),
        (Some(Version(3, 1, 0)), "run --quiet m-1"),
        (Some(Version(3, 1, 7)), "run --quiet --level 2 m-1"),
        (Some(Version(4, 0, 0)), "run --quiet --level 2 m-1"),
        (None, "run --quiet --level 2 m-1"),
    ] {
        let call = with_errand("Count.", |errand| cli.call_of(release, errand));
        assert_eq!(call.args.join(" "), want, "{release:?}");
    }
    for (release, is_doubted) in [
        ("", false),
        ("3.1.0", false),
        ("3.2.1", true),
        ("2.9.9", false),
    ] {
        assert_eq!(cli.doubt(release).is_some(), is_doubted, "{release}");
    }
}

/// Whoever adds one touches its file and a line of the list: nothing else of this crate knows it.
#[test]
fn a_cli_is_named_in_its_own_file_and_in_the_list_alone() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![src.clone()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&src).unwrap().display().to_string();
            let is_of_tests = ["cli.rs", "cli/tests.rs", "cli/events.rs"].contains(&name.as_str());
            if is_of_tests || name.ends_with("/tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let lines = code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let code: Vec<&str> = lines.collect();
            seen += 1;
            for cli in ALL {
                let own = format!("cli/{}.rs", cli.dialect.name);
                let words = [
                    cli.backend,
                    cli.package,
                    cli.vendor.map_or("", |vendor| vendor.hosts),
                ];
                let words = words.into_iter().filter(|word| !word.is_empty());
                for word in words.chain([format!("\"{}\"", cli.program).as_str()]) {
                    let is_named = code.iter().any(|line| line.contains(word));
                    assert!(!is_named || name == own, "{name} names `{word}`");
                }
            }
        }
    }
    assert!(seen > 40, "{seen} files");
}
