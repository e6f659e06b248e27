//! What is asked and answered through a relay.

use std::time::Duration;

use serde_json::{Value, json};
use skillopt_agents::relay::{Caps, Refusal, Tokens, Trouble, Wire};
use skillopt_agents::verdict::{Verdict, judge};
use skillopt_agents::{Account, Outcome};
use skillopt_backends::Disposition;
use skillopt_sandbox::Ending;

use crate::rig::{DUMMY, KEY, PAIRS, Rig, ask, well};

#[tokio::test]
async fn an_answer_is_handed_on_and_recorded() {
    for (cli, provider) in PAIRS {
        for is_stream in [true, false] {
            let rig = Rig::start(cli, provider, well(), |_| {}).await;
            let (status, text) = rig.ask(cli, is_stream).await;
            let what = format!("{cli:?} to {provider:?}, stream {is_stream}: {text}");
            assert_eq!(status, 200, "{what}");
            assert!(text.contains("bash"), "{what}");
            let record = rig.relay.record();
            let exchange = &record.exchanges[0];
            assert_eq!(exchange.said.text, "well done", "{what}");
            let (name, arguments) = &exchange.said.calls[0];
            assert_eq!(
                (name.as_str(), arguments.as_str()),
                ("bash", "{\"command\":\"ls\"}")
            );
            let tokens = Tokens {
                input: 100,
                cached: 30,
                output: 20,
                ..Tokens::default()
            };
            assert_eq!(record.tokens, tokens, "{what}");
            assert!(
                exchange.sent("THE SKILL") && !exchange.sent("another"),
                "{what}"
            );
            assert_eq!(record.trouble, None, "{what}");
        }
    }
}

#[tokio::test]
async fn the_credential_is_added_and_what_the_sandbox_sent_is_not_passed_on() {
    for (cli, provider) in PAIRS {
        let rig = Rig::start(cli, provider, well(), |_| {}).await;
        let (status, _) = rig.ask(cli, true).await;
        assert_eq!(status, 200, "the mock server takes no other key");
        let seen = &rig.mock.requests()[0];
        assert!(!seen.headers.contains_key("x-secret"), "{:?}", seen.headers);
        assert!(!format!("{seen:?}").contains(DUMMY), "{seen:?}");
        let has_version = seen.headers.contains_key("anthropic-version");
        assert!(has_version, "{:?}", seen.headers);
    }
}

#[tokio::test]
async fn nothing_but_the_model_can_be_reached() {
    let rig = Rig::start(Wire::Chat, Wire::Chat, well(), |_| {}).await;
    let (_, good) = ask(Wire::Chat, false);
    let mut other = good.clone();
    other["model"] = "expensive".into();
    for (path, body, want) in [
        ("/v1/files", &good, 404),
        ("/v1/messages", &good, 404),
        ("/__mock/requests", &good, 404),
        ("/v1/chat/completions", &other, 400),
        ("/v1/chat/completions", &Value::Null, 400),
    ] {
        let (status, text) = rig.post(path, body).await;
        assert_eq!(status.as_u16(), want, "{path}: {text}");
    }
    assert!(rig.mock.requests().is_empty(), "nothing left");
    assert_eq!(rig.relay.record().refused.len(), 5);
}

#[tokio::test]
async fn a_task_has_so_many_requests_and_tokens() {
    for (caps, want) in [
        (
            Caps {
                requests: 2,
                tokens: 0,
            },
            Refusal::Requests(2),
        ),
        (
            Caps {
                requests: 0,
                tokens: 200,
            },
            Refusal::Tokens(200),
        ),
    ] {
        let rig = Rig::start(Wire::Messages, Wire::Messages, well(), |plan| {
            plan.caps = caps;
        })
        .await;
        for expected in [200, 200, 403] {
            let (status, text) = rig.ask(Wire::Messages, true).await;
            assert_eq!(status.as_u16(), expected, "{text}");
        }
        let record = rig.relay.record();
        assert_eq!(record.refused, [want]);
        assert_eq!(record.trouble, None, "a cap is the task's own end");
        assert_eq!(rig.mock.requests().len(), 2);
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_the_rest_is_told() {
    let fault = |kind: &str, status: u16, times: Option<u64>| json!({"default": {"text": "well", "fault": {"kind": kind, "status": status, "times": times}}});
    for (script, tries, want) in [
        (fault("status", 429, Some(1)), 2, None),
        (fault("status", 503, Some(2)), 3, None),
        (fault("close", 0, Some(1)), 2, None),
        (fault("status", 500, None), 3, Some(500)),
        (fault("status", 401, None), 1, Some(401)),
        (fault("status", 400, None), 1, Some(400)),
        (fault("close", 0, None), 3, Some(0)),
    ] {
        let words = script.to_string();
        let rig = Rig::start(Wire::Responses, Wire::Chat, script, |_| {}).await;
        let (status, text) = rig.ask(Wire::Responses, true).await;
        assert_eq!(rig.mock.requests().len(), tries, "{words}");
        let trouble = rig.relay.record().trouble;
        let seen = trouble.as_ref().map(|trouble| match trouble {
            Trouble::Provider { status, .. } => *status,
            Trouble::Gate(why) => panic!("{why}"),
        });
        assert_eq!(seen, want, "{words}");
        assert_eq!(status == 200, want.is_none(), "{words}: {text}");
        assert!(!format!("{trouble:?}{text}").contains(KEY));
    }
}

/// An account without money is not asked again, and the task's run hears that somebody has to pay.
#[tokio::test]
async fn an_account_without_money_is_told_from_one_that_is_slowed_down() {
    let padded = format!("{} insufficient_quota", "x ".repeat(2_000));
    let script = json!({"default": {
        "fault": {"kind": "status", "status": 429, "code": "x", "message": padded},
    }});
    let rig = Rig::start(Wire::Chat, Wire::Chat, script, |_| {}).await;
    let (status, text) = rig.ask(Wire::Chat, false).await;
    assert_eq!(status, 429);
    assert!(text.contains("insufficient_quota"), "it is handed on whole");
    assert_eq!(rig.mock.requests().len(), 1);
    let record = rig.relay.record();
    let verdict = judge(
        &Ending::Exited(1),
        &Account::of(Outcome::Crashed),
        &record,
        ("http://h/v1", false),
        Duration::from_secs(9),
    );
    let Verdict::NotJudged(error) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(error.disposition(), Disposition::StopRun, "{error:?}");
    assert!(error.to_string().len() < 1_000, "{error}");
}

#[tokio::test]
async fn a_wait_that_is_too_long_ends_the_task_instead() {
    let script = json!({"default": {
        "fault": {"kind": "status", "status": 429}, "headers": {"retry-after": "3600"},
    }});
    let rig = Rig::start(Wire::Chat, Wire::Chat, script, |_| {}).await;
    let (status, _) = rig.ask(Wire::Chat, false).await;
    assert_eq!(status, 429);
    assert_eq!(rig.mock.requests().len(), 1);
    let trouble = rig.relay.record().trouble.unwrap();
    assert!(
        matches!(
            trouble,
            Trouble::Provider {
                status: 429,
                retry_after_ms: Some(3_600_000),
                ..
            }
        ),
        "{trouble:?}"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    for (cli, provider) in PAIRS {
        for kind in ["drop", "no_terminal", "error_event", "hang_mid"] {
            let script = json!({"default": {
                "text": "well done", "chunk_chars": 3, "fault": {"kind": kind},
            }});
            let rig = Rig::start(cli, provider, script, |plan| {
                plan.tries.silence = Duration::from_millis(300);
            })
            .await;
            let (_, text) = rig.ask(cli, true).await;
            let record = rig.relay.record();
            let what = format!("{kind}: {cli:?} to {provider:?}: {text}");
            assert!(record.trouble.is_some(), "{what}");
            assert!(!text.contains("response.completed"), "{what}");
        }
    }
}
