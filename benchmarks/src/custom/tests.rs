use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use serde_json::{Value, json};
use skillopt_backends::{CallError, ChatReply, Message, Worked, Workspace};
use skillopt_core::job::{Ending, Usage};

use super::*;

/// Answers always the same and keeps what it was asked.
struct Parrot(&'static str, Mutex<Vec<Message>>);

#[async_trait]
impl Target for Parrot {
    async fn ask(&self, messages: Vec<Message>, _: u32) -> Result<ChatReply, CallError> {
        self.1.lock().unwrap().extend(messages);
        let usage = Usage {
            calls: 1,
            ..Usage::default()
        };
        Ok(ChatReply::text(self.0, usage))
    }
}

fn run(
    item: &Value,
    settings: &Value,
    reply: &'static str,
) -> (Result<RolloutRecord, RolloutError>, String) {
    let target = Parrot(reply, Mutex::default());
    let files = BTreeMap::new();
    let task = Task {
        item,
        skill: "Be terse.",
        skill_files: &files,
        settings,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let done = runtime.block_on(Custom.rollout(task, &target));
    let asked = target.1.into_inner().unwrap();
    (
        done,
        asked
            .iter()
            .map(|m| format!("{}: {}\n", m.role.as_str(), m.content.as_text()))
            .collect(),
    )
}

fn args(folder: &Path, out: &Path) -> LoadArgs {
    let mut args = LoadArgs {
        out_root: out.to_owned(),
        ..LoadArgs::default()
    };
    args.extra.insert(
        "benchmark_dir".to_owned(),
        folder.display().to_string().into(),
    );
    args
}

#[test]
fn the_shipped_example_loads_and_scores() {
    let out = tempfile::tempdir().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/capitals");
    let suite = Custom.load(&args(&folder, out.path())).unwrap();
    let sizes = Part::ALL.map(|part| suite.splits.part(part).len());
    assert_eq!(sizes, [8, 4, 8]);
    assert_eq!(suite.task_types, ["Africa", "America", "Asia", "Europe"]);
    let items = Part::ALL.iter().flat_map(|part| suite.splits.part(*part));
    let norway = items.clone().find(|item| item.id == "no").unwrap();
    let (done, asked) = run(&norway.value, &suite.settings, "<answer>Oslo</answer>");
    let record = done.unwrap();
    assert_eq!(
        (record.ending, &record.row["hard"]),
        (Ending::Scored, &json!(1.0))
    );
    assert!(asked.contains("system: ## Skill\nBe terse."), "{asked}");
    assert!(
        asked.contains("capital of Norway?") && !asked.contains("Oslo"),
        "{asked}"
    );
    let (done, _) = run(&norway.value, &suite.settings, " \n");
    let record = done.unwrap();
    assert_eq!(
        (record.ending, &record.row["hard"]),
        (Ending::AgentFailed, &json!(0.0))
    );
}

/// Loads a folder made of `files` and returns the error.
fn error(files: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    Custom
        .load(&args(dir.path(), &dir.path().join("out")))
        .unwrap_err()
        .to_string()
}

#[test]
fn mistakes_are_named_before_anything_is_asked() {
    let yaml = (
        "benchmark.yaml",
        "name: x\nitems: i.jsonl\nsplit_ratio: 1:1:1\nscorer: {kind: exact}\n",
    );
    let prompt = ("prompt.md", "{{q}}");
    let items = ("i.jsonl", "{\"id\":\"a\",\"q\":1,\"answer\":2}\n");
    for (files, want) in [
        (vec![], "no `benchmark.yaml`"),
        (
            vec![("benchmark.yaml", "name: x\nitem: i.csv\n")],
            "did you mean `items`?",
        ),
        (
            vec![
                yaml,
                prompt,
                ("i.jsonl", "{\"id\":\"a\",\"q\":1,\"answer\":\" \"}\n"),
            ],
            "item `a`: `answer`: the gold answer is empty",
        ),
        (
            vec![
                (
                    "benchmark.yaml",
                    "name: x\nitems: i.jsonl\nscorer: {kind: command, command: [sh, judge.sh]}\n",
                ),
                prompt,
                items,
            ],
            "`judge.sh` is not in the benchmark's folder",
        ),
        (vec![("benchmark.yaml", "name: [")], "line 2"),
        (vec![yaml], "prompt.md"),
        (
            vec![yaml, ("prompt.md", "{{answer}}"), items],
            "gold answer",
        ),
        (vec![yaml, ("prompt.md", "hello"), items], "no placeholder"),
        (vec![yaml, prompt], "i.jsonl"),
        (
            vec![
                yaml,
                prompt,
                ("i.jsonl", "{\"id\":\"a\",\"q\":1,\"anwser\":2}\n"),
            ],
            "did you mean `anwser`",
        ),
        (
            vec![
                yaml,
                prompt,
                ("i.jsonl", "{\"id\":\"a\",\"q\":1,\"answer\":2}\n{\"id\""),
            ],
            "line 2",
        ),
        (
            vec![
                (
                    "benchmark.yaml",
                    "name: x\nitems: i.jsonl\nscorer: {kind: regex, pattern: '('}\n",
                ),
                prompt,
                items,
            ],
            "regular expression",
        ),
    ] {
        let text = error(&files);
        assert!(text.contains(want), "{want}: {text}");
    }
}

#[test]
fn a_broken_judge_is_an_error_and_a_working_one_scores() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    put(
        "benchmark.json",
        r#"{"name":"x","items":"i.json","scorer":{"kind":"command","command":["sh","judge.sh"]}}"#,
    );
    put("prompt.md", "{{q}}");
    put("i.json", r#"[{"id":"a","q":"Q","answer":"42"}]"#);
    put(
        "judge.sh",
        "grep -q '\"answer\":\"42\"' && echo '{\"hard\":1,\"soft\":0.5}'",
    );
    let suite = Custom
        .load(&args(dir.path(), &dir.path().join("out")))
        .unwrap();
    let item = json!({"id": "a", "q": "Q", "answer": "41"});
    let (done, asked) = run(&item, &suite.settings, "42");
    assert_eq!(done.unwrap().row["soft"], json!(0.5));
    assert!(!asked.contains("41"));
    let (done, _) = run(&item, &suite.settings, "43");
    assert!(
        matches!(done, Err(RolloutError::Judge { retry: false, .. })),
        "{done:?}"
    );
}

/// An agent that leaves these files, or fails, and keeps what it found.
struct Agent {
    files: BTreeMap<String, Vec<u8>>,
    failed: Option<&'static str>,
    found: Mutex<Option<(String, Workspace)>>,
}

#[async_trait]
impl Target for Agent {
    async fn ask(&self, _: Vec<Message>, _: u32) -> Result<ChatReply, CallError> {
        panic!("an agent is not asked");
    }

    fn is_agent(&self) -> bool {
        true
    }

    async fn work(
        &self,
        prompt: String,
        workspace: Workspace,
        _: u32,
    ) -> Result<(ChatReply, Worked), CallError> {
        *self.found.lock().unwrap() = Some((prompt, workspace));
        let worked = Worked {
            failed: self.failed.map(str::to_owned),
            files: self.files.clone(),
            ..Worked::default()
        };
        Ok((ChatReply::text("done", Usage::default()), worked))
    }
}

/// A folder whose items are tables in, tables out.
fn tables(scorer: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put(
        "benchmark.yaml",
        &format!(
            "name: tables\nitems: items.jsonl\nsplit_ratio: \"1:1:1\"\n\
             inputs: {{input.csv: \"in/{{{{id}}}}.csv\"}}\noutputs: [output.csv]\n\
             expected: {{output.csv: \"gold/{{{{id}}}}.csv\"}}\nscorer: {scorer}\n"
        ),
    );
    put("prompt.md", "{{task}} Write output.csv.");
    put("system.md", "");
    put(
        "judge.sh",
        "cmp -s outputs/output.csv expected/output.csv && [ -f inputs/input.csv ] \
         && echo '{\"hard\": 1}' || echo '{\"hard\": 0, \"reason\": \"another table\"}'\n",
    );
    let mut items = String::new();
    for id in ["a", "b", "c"] {
        items.push_str(&format!("{{\"id\": \"{id}\", \"task\": \"Double it.\"}}\n"));
        put(&format!("in/{id}.csv"), "1,2\n");
        put(&format!("gold/{id}.csv"), "2,4\n");
    }
    put("items.jsonl", &items);
    dir
}

#[test]
fn an_agent_gets_files_and_is_judged_by_those_that_it_wrote() {
    for scorer in [
        "{kind: files}",
        "{kind: files, text: true}",
        "{kind: command, command: [sh, judge.sh]}",
    ] {
        let dir = tables(scorer);
        let out = dir.path().join("out");
        let suite = Custom.load(&args(dir.path(), &out)).unwrap();
        let item = &suite.splits.train[0].value;
        let is_text = scorer.contains("text");
        for (written, failed, hard, ending, reason) in [
            (Some("2,4\n"), None, 1.0, Ending::Scored, ""),
            (
                Some("2,4  \r\n\n"),
                None,
                f64::from(u8::from(is_text)),
                Ending::Scored,
                "",
            ),
            (Some("2,5\n"), None, 0.0, Ending::Scored, "another"),
            (
                None,
                None,
                0.0,
                Ending::AgentFailed,
                "wrote no `output.csv`",
            ),
            (
                Some("2,4\n"),
                Some("out of time"),
                0.0,
                Ending::AgentFailed,
                "out of time",
            ),
        ] {
            let files = written.map(|text| ("output.csv".to_owned(), text.as_bytes().to_vec()));
            let agent = Agent {
                files: files.into_iter().collect(),
                failed,
                found: Mutex::default(),
            };
            let none = BTreeMap::new();
            let task = Task {
                item,
                skill: "Use awk.",
                skill_files: &none,
                settings: &suite.settings,
            };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let record = runtime.block_on(Custom.rollout(task, &agent)).unwrap();
            let what = format!("{scorer} {written:?}: {:?}", record.row);
            assert_eq!(record.ending, ending, "{what}");
            assert_eq!(record.row["hard"], json!(hard), "{what}");
            let told = record.row["fail_reason"].as_str().unwrap();
            assert!(told.contains(reason), "{what}");
            let (prompt, workspace) = agent.found.into_inner().unwrap().unwrap();
            assert_eq!(prompt, "Double it. Write output.csv.");
            assert_eq!(workspace.files["input.csv"], b"1,2\n");
            assert_eq!(workspace.collect, ["output.csv"]);
            assert!(workspace.skill.contains("Use awk."));
            // What is expected is the judge's alone.
            assert!(!format!("{workspace:?}{prompt}").contains("2,4"));
        }
    }
}

#[test]
fn files_of_items_are_checked_before_anything_is_asked() {
    let dir = tables("{kind: files}");
    std::fs::remove_file(dir.path().join("gold/b.csv")).unwrap();
    let load = || {
        let loaded = Custom.load(&args(dir.path(), &dir.path().join("out")));
        loaded.unwrap_err().to_string()
    };
    let text = load();
    assert!(
        text.contains("item `b`") && text.contains("gold/b.csv"),
        "{text}"
    );
    let yaml = dir.path().join("benchmark.yaml");
    let definition = std::fs::read_to_string(&yaml).unwrap();
    std::fs::write(&yaml, definition.replace("[output.csv]", "[other.csv]")).unwrap();
    assert!(load().contains("name each in both"), "{}", load());
    std::fs::write(&yaml, definition.replace("input.csv:", "../input.csv:")).unwrap();
    assert!(load().contains("`../input.csv`"), "{}", load());
}

#[test]
fn programs_that_an_agent_ran_are_told_and_judged() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "benchmark.yaml",
        "name: tools\nitems: items.json\nsplit_ratio: \"1:1:1\"\n\
         tools: {search: \"no results\", look_up: Oslo}\n\
         scorer: {kind: command, command: [sh, judge.sh]}\n",
    );
    write("prompt.md", "Which is {{id}}?");
    write("items.json", r#"[{"id": "a"}, {"id": "b"}, {"id": "c"}]"#);
    write(
        "judge.sh",
        "grep -q '\"tools_called\":\\[\"look_up\"\\]' && [ -z \"$(ls outputs 2>/dev/null)\" ] && hard=1\n\
         echo \"{\\\"hard\\\": ${hard:-0}, \\\"reason\\\": \\\"called or not\\\"}\"\n",
    );
    let suite = Custom
        .load(&args(dir.path(), &dir.path().join("out")))
        .unwrap();
    for (log, called, hard) in [
        (Some("look_up\nother\nlook_up\n"), json!(["look_up"]), 1.0),
        (None, json!([]), 0.0),
    ] {
        let files = log.map(|log| ("_tool_calls.log".to_owned(), log.as_bytes().to_vec()));
        let agent = Agent {
            files: files.into_iter().collect(),
            failed: None,
            found: Mutex::default(),
        };
        let task = Task {
            item: &suite.splits.train[0].value,
            skill: "Look things up.",
            skill_files: &BTreeMap::new(),
            settings: &suite.settings,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let record = runtime.block_on(Custom.rollout(task, &agent)).unwrap();
        assert_eq!(record.row["tools_called"], called, "{:?}", record.row);
        assert_eq!(record.row["hard"], hard, "{:?}", record.row);
        let files = record.conversation.iter();
        assert!(files.filter(|entry| entry["type"] == "files").count() == 0);
    }
}
