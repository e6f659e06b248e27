//! What goes wrong around an agent is never its score.

use std::time::Duration;

use serde_json::{Value, json};
use skillopt_agents::relay::{Caps, Wire};
use skillopt_agents::verdict::Verdict;
use skillopt_backends::{CallError, Disposition};

use crate::rig::{Job, KEY, Rig};

/// CLIs that are asked through interfaces of their own.
const CLIS: [&str; 2] = ["codex_exec", "claude_code_exec"];

fn fault(fault: Value) -> Value {
    json!({"default": {"text": "<answer>4</answer>", "fault": fault}})
}

async fn verdict(backend: &str, script: Value) -> (Verdict, usize, String) {
    let rig = Rig::start(script).await;
    let job = Job {
        wall: Duration::from_secs(60),
        ..Job::of(backend)
    };
    let finished = rig.run(job).await;
    let asked = rig.mock.requests();
    let asked = asked.iter().filter(|entry| !entry.api.is_empty()).count();
    let all = format!("{finished:?}");
    assert!(!all.contains(KEY), "{all}");
    (finished.verdict, asked, all)
}

#[tokio::test]
async fn what_the_provider_does_wrong_is_no_score() {
    for backend in CLIS {
        for (script, want) in [
            (
                fault(json!({"kind": "status", "status": 401})),
                Disposition::StopRun,
            ),
            (
                fault(json!({"kind": "status", "status": 404})),
                Disposition::StopRun,
            ),
            (
                fault(json!({"kind": "status", "status": 429})),
                Disposition::Retry(None),
            ),
            (
                fault(json!({"kind": "status", "status": 500})),
                Disposition::Retry(None),
            ),
            (fault(json!({"kind": "close"})), Disposition::Retry(None)),
            (fault(json!({"kind": "drop"})), Disposition::Retry(None)),
        ] {
            let words = script.to_string();
            let (verdict, _, all) = verdict(backend, script).await;
            let Verdict::NotJudged(error) = &verdict else {
                panic!("{backend} {words}: {verdict:?}\n{all}");
            };
            assert_eq!(
                error.disposition(),
                want,
                "{backend} {words}: {error}\n{all}"
            );
        }
    }
}

/// Checks the two faults that programs take most differently: a refusal, and an answer that breaks off.
async fn is_no_score(backend: &str) {
    // Of an interface whose answer is one piece, nothing is left if that is not there.
    let breaks = if backend == "gemini_exec" {
        "close"
    } else {
        "drop"
    };
    for (script, want) in [
        (
            fault(json!({"kind": "status", "status": 401})),
            Disposition::StopRun,
        ),
        (fault(json!({"kind": breaks})), Disposition::Retry(None)),
    ] {
        let words = script.to_string();
        let (verdict, _, all) = verdict(backend, script).await;
        let Verdict::NotJudged(error) = &verdict else {
            panic!("{backend} {words}: {verdict:?}\n{all}");
        };
        let found = error.disposition();
        assert_eq!(found, want, "{backend} {words}: {error}\n{all}");
    }
}

#[tokio::test]
async fn what_the_provider_of_copilot_does_wrong_is_no_score() {
    is_no_score("copilot_exec").await;
}

#[tokio::test]
async fn what_the_provider_of_opencode_does_wrong_is_no_score() {
    is_no_score("opencode_exec").await;
}

#[tokio::test]
async fn what_the_provider_of_gemini_does_wrong_is_no_score() {
    is_no_score("gemini_exec").await;
}

#[tokio::test]
async fn what_the_provider_of_qwen_code_does_wrong_is_no_score() {
    is_no_score("qwen_code_exec").await;
}

#[tokio::test]
async fn a_provider_that_recovers_is_waited_for() {
    for backend in CLIS {
        for kind in ["status", "close"] {
            let script = fault(json!({"kind": kind, "status": 503, "times": 2}));
            let (verdict, asked, all) = verdict(backend, script).await;
            let want = Verdict::Answered("<answer>4</answer>".to_owned());
            assert_eq!(verdict, want, "{backend} {kind}\n{all}");
            assert!(asked >= 3, "{backend} {kind}: {asked}");
        }
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_handed_back_with_the_time() {
    let script = json!({"default": {
        "fault": {"kind": "status", "status": 429}, "headers": {"retry-after": "900"},
    }});
    let (verdict, asked, all) = verdict("codex_exec", script).await;
    let Verdict::NotJudged(CallError::Throttled { retry_after, .. }) = verdict else {
        panic!("{verdict:?}\n{all}");
    };
    assert_eq!(retry_after, Some(Duration::from_secs(900)));
    assert_eq!(asked, 1, "{all}");
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_the_agents_own_end() {
    for (backend, code, message) in [
        (
            "codex_exec",
            "context_length_exceeded",
            "the conversation is too long",
        ),
        (
            "claude_code_exec",
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
    ] {
        let script =
            fault(json!({"kind": "status", "status": 400, "code": code, "message": message}));
        let (verdict, _, all) = verdict(backend, script).await;
        assert!(
            matches!(verdict, Verdict::Failed(_)),
            "{backend}: {verdict:?}\n{all}"
        );
    }
}

#[tokio::test]
async fn a_task_that_is_out_of_time_or_tokens_has_failed() {
    // A command that never ends.
    let sleep = json!({"default": {"tool_calls": [
        {"name": "exec_command", "arguments": {"cmd": "sleep 600", "yield_time_ms": 30000}},
    ]}});
    let rig = Rig::start(sleep).await;
    let job = Job {
        wall: Duration::from_secs(4),
        ..Job::of("codex_exec")
    };
    let finished = rig.run(job).await;
    assert!(
        matches!(finished.verdict, Verdict::Failed(_)),
        "{finished:?}"
    );
    // A conversation that never ends.
    let ask = json!({"default": {"tool_calls": [
        {"name": "Bash", "arguments": {"command": "true", "description": "nothing"}},
    ], "usage": {"input": 900, "output": 100}}});
    let rig = Rig::start(ask).await;
    let job = Job {
        caps: Caps {
            requests: 0,
            tokens: 5_000,
        },
        ..Job::of("claude_code_exec")
    };
    let finished = rig.run(job).await;
    assert_eq!(
        finished.verdict,
        Verdict::Failed("the task has had its 5000 tokens".to_owned()),
        "{finished:?}"
    );
    assert_eq!(finished.record.tokens.total(), 5_000);
}

#[tokio::test]
async fn time_that_the_provider_took_is_not_the_agents() {
    for kind in [
        json!({"kind": "hang"}),
        json!({"kind": "hang_mid"}),
        json!({"kind": "status", "status": 503}),
    ] {
        let script = json!({"default": {"text": "four words of text", "chunk_chars": 3, "fault": kind.clone()}});
        let rig = Rig::start(script).await;
        for backend in CLIS {
            let job = Job {
                wall: Duration::from_secs(3),
                base: Duration::from_secs(10),
                ..Job::of(backend)
            };
            let wall = job.wall;
            let finished = rig.run(job).await;
            let is_judged = !matches!(finished.verdict, Verdict::NotJudged(_));
            // How much of the time an answer hung in its midst depends on how fast the program began.
            let is_own = kind["kind"] == "hang_mid" && finished.record.stalled <= wall / 2;
            assert_eq!(is_judged, is_own, "{backend} {kind}: {finished:?}");
        }
    }
}

#[tokio::test]
async fn an_agent_that_says_nothing_is_told_apart_from_one_that_fails() {
    let (verdict, _, all) = verdict("codex_exec", json!({"default": {"text": ""}})).await;
    assert_eq!(verdict, Verdict::Answered(String::new()), "{all}");
}

#[tokio::test]
async fn a_long_prompt_and_a_long_answer_go_through() {
    let rig = Rig::start(json!({"default": {"text": "word ", "repeat": 200_000}})).await;
    let prompt = "Count these. ".repeat(25_000);
    let finished = rig
        .run(Job {
            prompt: &prompt,
            provider: Some(Wire::Chat),
            ..Job::of("codex_exec")
        })
        .await;
    let Verdict::Answered(text) = &finished.verdict else {
        panic!("{:?}", finished.verdict);
    };
    assert_eq!(text.len(), "word ".len() * 200_000);
    assert!(finished.record.exchanges[0].sent(&prompt));
}
