//! Each try of a request asks the gate, and says how it ended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use skillopt_agents::relay::{AtMost, Gate, Passed, Permit, Tries, Trouble, Wire};
use skillopt_backends::CallError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rig::{DUMMY, PAIRS, Rig, ask, well};

/// Lets so many requests out and keeps what is said of them.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    left: u64,
    limit: Option<u64>,
    at_most: Vec<AtMost>,
    passed: Vec<Passed>,
    dropped: u64,
}

struct Way(Counted, bool);

impl Counted {
    fn of(left: u64, limit: Option<u64>) -> Self {
        let counted = Self::default();
        *counted.0.lock().unwrap() = Book {
            left,
            limit,
            ..Book::default()
        };
        counted
    }

    async fn rig(&self, (cli, provider): (Wire, Wire), script: Value) -> Rig {
        let patient = |plan: &mut skillopt_agents::relay::Plan| {
            plan.tries = Tries {
                base: Duration::from_millis(1),
                silence: Duration::from_millis(300),
                ..Tries::default()
            };
        };
        Rig::guarded(cli, provider, script, patient, Arc::new(self.clone())).await
    }

    fn passed(&self) -> Vec<Passed> {
        self.0.lock().unwrap().passed.clone()
    }
}

#[async_trait]
impl Gate for Counted {
    fn answer_limit(&self) -> Option<u64> {
        self.0.lock().unwrap().limit
    }

    async fn enter(&self, at_most: AtMost) -> Result<Box<dyn Permit>, String> {
        let mut book = self.0.lock().unwrap();
        if book.left == 0 {
            return Err("the budget is used up".to_owned());
        }
        book.left -= 1;
        book.at_most.push(at_most);
        Ok(Box::new(Way(self.clone(), false)))
    }
}

impl Permit for Way {
    fn close(mut self: Box<Self>, passed: Passed) {
        self.1 = true;
        self.0.0.lock().unwrap().passed.push(passed);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        if !self.1 {
            self.0.0.lock().unwrap().dropped += 1;
        }
    }
}

#[tokio::test]
async fn a_request_that_is_not_let_out_ends_the_task_and_counts_for_nothing() {
    let gate = Counted::of(1, None);
    let rig = gate.rig((Wire::Messages, Wire::Messages), well()).await;
    assert_eq!(rig.ask(Wire::Messages, true).await.0, 200);
    let passed = gate.passed();
    let Some(Passed::Answered(usage)) = passed.first() else {
        panic!("{passed:?}");
    };
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (100, 20));
    let (status, text) = rig.ask(Wire::Messages, true).await;
    assert_eq!(status, 503);
    assert!(text.contains("the budget is used up"), "{text}");
    // Whoever runs the task hears of it at once.
    rig.relay.is_shut().await;
    let record = rig.relay.record();
    let why = Trouble::Gate("the budget is used up".to_owned());
    assert_eq!(record.trouble, Some(why));
    assert_eq!(record.requests, 1, "the second was given back");
    assert_eq!(rig.mock.requests().len(), 1);
}

#[tokio::test]
async fn a_request_says_what_it_can_come_to_and_its_answer_is_limited() {
    for (cli, provider) in PAIRS {
        let gate = Counted::of(9, Some(77));
        let rig = gate.rig((cli, provider), well()).await;
        let (status, text) = rig.ask(cli, true).await;
        assert_eq!(status, 200, "{text}");
        let book = gate.0.lock().unwrap();
        // Messages names a limit of its own.
        let limit = if cli == Wire::Messages { 9 } else { 77 };
        assert_eq!(book.at_most[0].completion_tokens, Some(limit), "{cli:?}");
        let sent = rig.mock.requests()[0].body.to_string();
        assert!(book.at_most[0].prompt_tokens >= sent.len() as u64, "{sent}");
        assert!(sent.contains(&limit.to_string()), "{sent}");
    }
}

#[tokio::test]
async fn every_try_asks_and_its_end_is_told() {
    let throttled = |times: u64| {
        json!({"default": {"text": "well", "headers": {"retry-after": "0"},
            "fault": {"kind": "status", "status": 429, "times": times}}})
    };
    let gate = Counted::of(9, None);
    let rig = gate.rig((Wire::Chat, Wire::Chat), throttled(2)).await;
    assert_eq!(rig.ask(Wire::Chat, true).await.0, 200);
    let passed = gate.passed();
    assert_eq!(passed.len(), 3, "{passed:?}");
    for refused in &passed[..2] {
        let is_told = matches!(
            refused,
            Passed::Failed(CallError::Throttled { retry_after: Some(wait), .. }) if wait.is_zero()
        );
        assert!(is_told, "{refused:?}");
    }
    assert!(matches!(passed[2], Passed::Answered(_)), "{passed:?}");
}

#[tokio::test]
async fn the_end_of_an_answer_is_told_however_it_comes() {
    let fault = |kind: &str, status: u16| {
        json!({"default": {"text": "well done", "chunk_chars": 3,
            "fault": {"kind": kind, "status": status}}})
    };
    for (script, may_be_billed) in [
        (fault("status", 401), false),
        (fault("status", 400), false),
        (fault("status", 503), false),
        (fault("close", 0), true),
        (fault("drop", 0), true),
        (fault("no_terminal", 0), true),
        (fault("hang_mid", 0), true),
        (fault("error_event", 0), true),
    ] {
        let (gate, words) = (Counted::of(9, None), script.to_string());
        let rig = gate.rig((Wire::Messages, Wire::Messages), script).await;
        rig.ask(Wire::Messages, true).await;
        let asked = rig.mock.requests().len();
        let passed = gate.passed();
        assert_eq!(passed.len(), asked, "{words}: {passed:?}");
        for passed in passed {
            let Passed::Failed(error) = passed else {
                panic!("{words}: {passed:?}");
            };
            assert_eq!(error.may_be_billed(), may_be_billed, "{words}: {error:?}");
        }
        assert_eq!(gate.0.lock().unwrap().dropped, 0, "{words}");
    }
}

/// CLIs leave at the event that ends an answer, before the stream has ended.
#[tokio::test]
async fn whoever_leaves_at_the_last_event_has_had_a_whole_answer() {
    for (cli, last) in [
        (Wire::Responses, "response.completed"),
        (Wire::Messages, "message_stop"),
    ] {
        let gate = Counted::of(u64::MAX, None);
        let rig = gate.rig((cli, cli), well()).await;
        let (path, body) = ask(cli, true);
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {DUMMY}\r\n\
             anthropic-version: 2023-06-01\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        for times in 1..=20 {
            let mut stream = TcpStream::connect(&rig.place).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut seen = Vec::new();
            while !String::from_utf8_lossy(&seen).contains(last) {
                let read = stream.read_buf(&mut seen).await.unwrap();
                assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
            }
            drop(stream);
            while gate.passed().len() < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        for passed in gate.passed() {
            let Passed::Answered(usage) = passed else {
                panic!("{cli:?}: {passed:?}");
            };
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (100, 20));
        }
        assert_eq!(rig.relay.record().trouble, None);
    }
}

#[tokio::test]
async fn a_task_that_ends_in_the_midst_tells_so() {
    for kind in ["hang", "hang_mid"] {
        let gate = Counted::of(9, None);
        let script =
            json!({"default": {"text": "well done", "chunk_chars": 3, "fault": {"kind": kind}}});
        let rig = gate.rig((Wire::Chat, Wire::Chat), script).await;
        let (path, body) = ask(Wire::Chat, true);
        let asking = rig.post(path, &body);
        let closing = async {
            while gate.0.lock().unwrap().at_most.is_empty() {
                tokio::task::yield_now().await;
            }
            rig.relay.close().await;
        };
        tokio::join!(asking, closing);
        let book = gate.0.lock().unwrap();
        let told = book.dropped + book.passed.len() as u64;
        assert_eq!(told, 1, "{kind}: {:?}", book.passed);
    }
}

/// Whoever has no connection to its provider is let down no less than whoever is refused by it.
#[tokio::test]
async fn a_task_that_ends_between_two_tries_was_let_down() {
    for (kind, want) in [("close", 0), ("status", 503)] {
        let gate = Counted::of(9, None);
        let fault = json!({"kind": kind, "status": want});
        let script = json!({"default": {"text": "well", "fault": fault}});
        let slowly = |plan: &mut skillopt_agents::relay::Plan| {
            plan.tries.base = Duration::from_secs(10);
        };
        let guard = Arc::new(gate.clone());
        let rig = Rig::guarded(Wire::Chat, Wire::Chat, script, slowly, guard).await;
        let (path, body) = ask(Wire::Chat, true);
        let asking = rig.post(path, &body);
        let closing = async {
            while gate.passed().is_empty() {
                tokio::task::yield_now().await;
            }
            rig.relay.close().await;
        };
        tokio::join!(asking, closing);
        let trouble = rig.relay.record().trouble;
        let is_told = matches!(trouble, Some(Trouble::Provider { status, .. }) if status == want);
        assert!(is_told, "{kind}: {trouble:?}");
    }
}
