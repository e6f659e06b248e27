//! What holds for every CLI.

use std::collections::BTreeMap;

use serde_json::Map;

use super::declared::Declared;
use super::*;

const SKILL: &str = "---\nname: skillopt-target\n---\n\nAlways count twice.\n";

fn with_errand<T>(prompt: &str, work: impl FnOnce(&Errand<'_>) -> T) -> T {
    let files = BTreeMap::from([("notes/a.md".to_owned(), "a note".to_owned())]);
    work(&Errand {
        prompt,
        skill: SKILL,
        skill_files: &files,
        model: "m-1",
        port: 8080,
        key: "dummy-key",
        effort: "high",
        max_tokens: 1_000,
        home: "/inside",
        work: "/inside/project",
        settings: &Map::new(),
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

const DECLARED: &str = r#"{
    "name": "my_agent", "command": ["my-agent", "--model", "{model}", "--dir", "{work}"],
    "skills": ".agents/skills", "wire": "chat",
    "environment": {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "{key}"},
    "files": {"home:.my-agent/config.json": "{\"model\":\"{model}\"}"},
    "answer": {"event": "message", "text": "data.text", "failure": "error"}
}"#;

#[test]
fn one_can_be_declared_without_rust() {
    let declared = Declared::parse(DECLARED).unwrap();
    let call = with_errand("Count.", |errand| declared.call(errand));
    assert_eq!(call.args, ["--model", "m-1", "--dir", "/inside/project"]);
    assert_eq!(call.env["OPENAI_BASE_URL"], "http://127.0.0.1:8080/v1");
    assert!(
        call.files
            .contains(&File::home(".my-agent/config.json", "{\"model\":\"m-1\"}"))
    );
    let well = crate::streams::End {
        exit_code: Some(0),
        was_told_to_go: false,
    };
    let said = "{\"type\":\"message\",\"data\":{\"text\":\"one\"}}\nnoise\n{\"type\":\"message\",\"data\":{\"text\":\"two\"}}\n";
    let account = declared.account(said, well);
    assert_eq!(account.final_text.as_deref(), Some("two"));
    assert_eq!(account.outcome, crate::Outcome::Success);
    let failed = declared.account("{\"type\":\"error\",\"why\":\"x\"}", well);
    assert_eq!(failed.outcome, crate::Outcome::Crashed);
}

#[test]
fn a_wrong_declaration_says_what_is_wrong() {
    for (from, to, words) in [
        ("\"wire\": \"chat\"", "\"wire\": \"smoke\"", "smoke"),
        ("\"home:.my", "\".my", "home:"),
        ("\"name\"", "\"nome\"", "nome"),
        (
            "\"skills\"",
            "\"prompt\": \"argument\", \"skills\"",
            "{prompt}",
        ),
    ] {
        let error = Declared::parse(&DECLARED.replace(from, to))
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}
