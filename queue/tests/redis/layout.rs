//! The keys on a server are those of docs/redis.md, and what has ended leaves only what it says.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use skillopt_queue::board::Expect;
use skillopt_queue::conformance::job;
use skillopt_queue::conformance::server::Server;
use skillopt_queue::ledger::{Amount, Caps, Counts, Reservation, Settlement, Tally, Use};
use skillopt_queue::queue::{Failure, Which};
use skillopt_queue::rates::{Ask, Limits, Outcome};
use skillopt_queue::redis::{Link, Options, RedisBoard, RedisLedger, RedisRates};
use skillopt_queue::{
    Board as _, Lane, Ledger as _, Priority, Queue as _, Rates as _, RunId, Store as _, Want,
};
use tokio_util::sync::CancellationToken;

use crate::rig::open;

/// A line of the table of keys.
struct Line {
    /// The text between the words in capitals, which stand for anything.
    parts: Vec<String>,
    kind: String,
    /// Whether it may be there when all jobs have ended.
    stays: bool,
}

fn documented() -> Vec<Line> {
    let page = include_str!("../../../docs/redis.md");
    let rows = page.lines().filter(|line| line.starts_with("| `skillopt:"));
    let read = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let mut parts = vec![String::new()];
        for letter in cells[0].trim_matches('`').chars() {
            if !letter.is_ascii_uppercase() {
                parts.last_mut().unwrap().push(letter);
            } else if !parts.last().unwrap().is_empty() {
                parts.push(String::new());
            }
        }
        Line {
            parts,
            kind: cells[1].to_owned(),
            stays: cells[3].starts_with("stays"),
        }
    };
    rows.map(read).collect()
}

impl Line {
    fn matches(&self, key: &[u8]) -> bool {
        let Some(mut rest) = key.strip_prefix(self.parts[0].as_bytes()) else {
            return false;
        };
        for part in &self.parts[1..] {
            let part = part.as_bytes();
            if part.is_empty() {
                return !rest.is_empty();
            }
            let Some(at) = rest.windows(part.len()).position(|there| there == part) else {
                return false;
            };
            if at == 0 {
                return false;
            }
            rest = &rest[at + part.len()..];
        }
        rest.is_empty()
    }
}

/// The places in the documentation that the keys of the server match.
fn present(server: &Server, lines: &[Line]) -> BTreeSet<usize> {
    let Value::Array(keys) = server.ask(&["KEYS", "*"]) else {
        panic!("a list")
    };
    let mut connection = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let mut found = BTreeSet::new();
    for key in keys {
        let Value::BulkString(key) = key else {
            panic!("a name")
        };
        let kind: String = redis::cmd("TYPE").arg(&key).query(&mut connection).unwrap();
        let line = lines
            .iter()
            .rposition(|line| line.matches(&key) && line.kind == kind);
        let shown = String::from_utf8_lossy(&key);
        found.insert(line.unwrap_or_else(|| panic!("`{shown}` ({kind}) is not documented")));
    }
    found
}

#[tokio::test]
async fn keys_are_documented_and_nothing_leaks() {
    let server = Server::redis();
    let (queue, store) = open(&server.url(), Options::default()).await;
    let lines = documented();
    assert!(lines.len() > 10, "the table is read");
    let large = skillopt_queue::conformance::noise(3 << 20);
    store.put_blobs(vec!["b".into(), large]).await.unwrap();
    let run = RunId::new("r1");
    store.append_event(&run, 0, "start".into()).await.unwrap();

    let mut later = job("later");
    later.not_before = Some(skillopt_queue::Timestamp::from_ms(u64::MAX));
    let mut jobs = ["a", "b", "c", "d", "e"].map(job).to_vec();
    jobs.push(later);
    let mut notices = queue.submit(jobs).await.unwrap();
    let mut raised = job("e");
    raised.priority = Priority::FIRST;
    raised.run = RunId::new("r2");
    let _second = queue.submit(vec![raised]).await.unwrap();
    let want = |max| Want {
        worker: "w1".into(),
        lanes: vec![Lane::new("chat")],
        max,
        ttl: Duration::from_millis(400),
    };
    let drain = CancellationToken::new();
    let leased = queue.lease(want(4), &drain).await.unwrap();
    queue.complete(leased[0].ticket, "x".into()).await.unwrap();
    let failure = Failure {
        cause: "no".into(),
        detail: Bytes::new(),
    };
    queue.give_up(leased[1].ticket, failure).await.unwrap();
    queue
        .retry(leased[2].ticket, Duration::from_secs(60), "busy")
        .await
        .unwrap();
    // The lease of the fourth runs out.
    while queue.stats().await.unwrap().losses == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let held = queue.lease(want(1), &drain).await.unwrap();
    present(&server, &lines);

    // The client may have read its inbox already: one that nobody reads shows it.
    queue.cancel(&run, Which::All).await.unwrap();
    queue.cancel(&RunId::new("r2"), Which::All).await.unwrap();
    queue.hand_back(&[held[0].ticket]).await.unwrap();
    while notices.remaining() > 0 {
        notices.next(9).await.unwrap();
    }
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.queued, stats.delayed, stats.leased), (0, 0, 0));
    for at in present(&server, &lines) {
        let line = &lines[at];
        assert!(line.stays, "`{}` is still there", line.parts.join("…"));
    }
}

/// A record that stays, one that ends, one that was removed, a lease.
async fn write_board(link: &Link) {
    let board = RedisBoard::new(link.clone());
    let life = Some(Duration::from_secs(60));
    for (path, life) in [("a", None), ("b", life), ("c", None)] {
        let put = board.put(path, "x".into(), Expect::Any, life).await;
        put.unwrap();
    }
    board.delete("c", Expect::Any).await.unwrap();
    let held = board.acquire("lead", "me", Duration::from_secs(60)).await;
    assert!(held.unwrap().is_some());
}

/// A reservation under way, one that lapsed, a call without one.
async fn write_ledger(link: &Link) {
    let ledger = RedisLedger::new(link.clone());
    let purses = vec!["run/r1".to_owned()];
    ledger.set_caps(&purses[0], Caps::default()).await.unwrap();
    let amount = Amount {
        requests: 1,
        ..Amount::default()
    };
    let reserve = |id: &str, ms| Reservation {
        id: id.to_owned(),
        purses: purses.clone(),
        most: amount,
        is_unpriced: false,
        lifetime: Duration::from_millis(ms),
    };
    let asked = [reserve("a", 60_000), reserve("b", 0)];
    ledger.reserve(&asked).await.unwrap();
    let mut tally = Tally::default();
    let one = Counts {
        requests: 1,
        ..Counts::default()
    };
    tally.add(Use::new("target", "rollout", "m"), &one);
    let done = Settlement {
        id: "c".into(),
        purses: purses.clone(),
        is_reserved: false,
        used: amount,
        is_unpriced: false,
        tally,
    };
    ledger.settle(&[done]).await.unwrap();
}

/// An account with limits and a call under way.
async fn write_rates(link: &Link) {
    let rates = RedisRates::new(link.clone());
    let limits = Limits {
        concurrency: Some(2),
        ..Limits::default()
    };
    rates.set_limits("acme", limits).await.unwrap();
    let ask = |call: &str| Ask {
        account: "acme".into(),
        call: call.to_owned(),
        tokens: 1,
        lifetime: Duration::from_secs(60),
    };
    rates.ask(&[ask("1"), ask("2")]).await.unwrap();
    let report = ("acme".to_owned(), "1".to_owned(), Outcome::Answered(1));
    rates.report(&[report]).await.unwrap();
}

#[tokio::test]
async fn keys_beside_the_queue_are_documented_and_nothing_else_is() {
    let server = Server::redis();
    let link = Link::open(&server.url(), Options::default()).await.unwrap();
    write_board(&link).await;
    write_ledger(&link).await;
    write_rates(&link).await;
    let lines = documented();
    let found = present(&server, &lines);
    for (at, line) in lines.iter().enumerate() {
        let beside = ["board", "ledger", "rates"].map(|name| format!("skillopt:{{q}}:{name}"));
        if beside.iter().any(|name| line.parts[0].starts_with(name)) {
            let shown = line.parts.join("…");
            assert!(found.contains(&at), "`{shown}` was not seen");
        }
    }
}
