//! Each CLI does a task: the skill reaches the model, a command runs, a file comes back, and tokens are
//! what the model counted.

use skillopt_agents::relay::Wire;
use skillopt_agents::verdict::Verdict;

use crate::rig::{Job, KEY, Rig, works};

async fn does_its_task(backend: &str, provider: Option<Wire>) {
    let rig = Rig::start(works()).await;
    let files = [("task.md".to_owned(), b"one two three four\n".to_vec())];
    let finished = rig
        .run(Job {
            files: &files,
            collect: &["result.txt"],
            provider,
            ..Job::of(backend)
        })
        .await;
    let what = format!(
        "{:?}\n{}\n{:?}",
        finished.account, finished.stderr, finished.refused
    );
    assert_eq!(
        finished.verdict,
        Verdict::Answered("<answer>4</answer>".to_owned()),
        "{what}"
    );
    assert!(finished.is_skill_seen, "{what}");
    let (path, bytes) = finished.files.first().expect(&what);
    assert_eq!(path.to_str(), Some("result.txt"));
    assert_eq!(String::from_utf8_lossy(bytes).trim(), "4", "{what}");
    assert!(
        finished.account.tool_calls.iter().all(|tool| tool.ok),
        "{what}"
    );
    assert!(!finished.account.tool_calls.is_empty(), "{what}");
    // What the relay counted is what the model said, call by call.
    let told = rig.mock.requests();
    let told = told.iter().filter(|entry| !entry.api.is_empty());
    let sums = told.fold((0, 0), |sum, entry| {
        (sum.0 + entry.tokens.0, sum.1 + entry.tokens.1)
    });
    let tokens = finished.record.tokens;
    assert_eq!((tokens.input, tokens.output), sums, "{what}");
    assert!(tokens.input >= 2_200, "{what}");
    let all = format!("{finished:?}");
    assert!(
        !all.contains(KEY),
        "the sandbox and its traces never held the credential"
    );
}

#[tokio::test]
async fn codex_does_its_task() {
    does_its_task("codex_exec", None).await;
}

#[tokio::test]
async fn codex_does_its_task_with_a_model_that_speaks_chat_completions() {
    does_its_task("codex_exec", Some(Wire::Chat)).await;
}

#[tokio::test]
async fn claude_code_does_its_task() {
    does_its_task("claude_code_exec", None).await;
}

#[tokio::test]
async fn copilot_does_its_task() {
    does_its_task("copilot_exec", None).await;
}

#[tokio::test]
async fn opencode_does_its_task() {
    does_its_task("opencode_exec", None).await;
}

#[tokio::test]
async fn gemini_does_its_task() {
    does_its_task("gemini_exec", None).await;
}

#[tokio::test]
async fn qwen_code_does_its_task() {
    does_its_task("qwen_code_exec", None).await;
}
