//! A server without memory takes nothing new, and keeps what was paid for.

use std::time::Duration;

use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use skillopt_queue::board::{self, Expect};
use skillopt_queue::conformance::server::Server;
use skillopt_queue::conformance::{job, key};
use skillopt_queue::queue::{Error, Limits};
use skillopt_queue::redis::{Link, Options, RedisBoard};
use skillopt_queue::{Board as _, Lane, Queue as _, Store as _, Want, store};
use tokio_util::sync::CancellationToken;

use crate::rig::{open, options};

/// Bytes that cannot be compressed.
fn noise(len: usize, seed: usize) -> Bytes {
    let part = |i: usize| *Hash::of(format!("{seed} {i}").as_bytes()).as_bytes();
    let bytes: Vec<u8> = (0..len.div_ceil(32)).flat_map(part).collect();
    Bytes::from(bytes).slice(..len)
}

#[tokio::test]
async fn a_full_server_takes_no_jobs_but_results() {
    let server = Server::redis();
    let roomy = Options {
        limits: Limits::default(),
        ..options()
    };
    let (queue, store) = open(&server.url(), roomy).await;
    let _notices = queue.submit(vec![job("a")]).await.unwrap();
    let want = Want {
        worker: "w1".into(),
        lanes: vec![Lane::new("chat")],
        max: 1,
        ttl: Duration::from_secs(30),
    };
    let drain = CancellationToken::new();
    let leased = queue.lease(want.clone(), &drain).await.unwrap().remove(0);
    let _ = server.ask(&["CONFIG", "SET", "maxmemory", "8mb"]);
    let mut error = None;
    for i in 0..1_000 {
        let mut full = job("x");
        full.key = Key(Hash::of(format!("full {i}").as_bytes()));
        full.job = noise(60_000, i);
        if let Err(refused) = queue.submit(vec![full]).await.map(|_| ()) {
            error = Some(refused);
            break;
        }
    }
    let error = error.expect("8 MB are full");
    assert!(
        matches!(error, Error::Store(store::Error::Full { .. })),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("maxmemory") && text.contains("then resume"),
        "{text}"
    );

    // What was paid for is kept.
    let done = queue.complete(leased.ticket, "paid".into()).await.unwrap();
    assert!(done.is_first);
    assert_eq!(
        store.results(&[key("a")]).await.unwrap(),
        [Some("paid".into())]
    );
    // Nothing new is begun until there is memory again.
    let waiting = queue.clone();
    let waiting = tokio::spawn(async move { waiting.lease(want, &CancellationToken::new()).await });
    let _ = server.ask(&["CONFIG", "SET", "maxmemory", "100mb"]);
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
    queue.submit(vec![job("b")]).await.unwrap();
}

#[tokio::test]
async fn a_full_server_takes_no_new_records_but_how_those_stand_that_it_has() {
    let server = Server::redis();
    let board = RedisBoard::new(Link::open(&server.url(), options()).await.unwrap());
    let put = |path, expect| board.put(path, "x".into(), expect, None);
    put("run/a", Expect::Absent).await.unwrap();
    let _ = server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = put("run/b", Expect::Absent).await.unwrap_err();
    assert!(
        matches!(refused, board::Error::Store(store::Error::Full { .. })),
        "{refused}"
    );
    let hour = Duration::from_secs(3_600);
    let held = board.acquire("run/a", "c1", hour).await.unwrap().unwrap();
    let fenced = board.put_fenced("run/a", "y".into(), Expect::Version(1), "run/a", held.fence);
    assert_eq!(fenced.await.unwrap(), 2);
    assert_eq!(put("run/a", Expect::Any).await.unwrap(), 3);
}
