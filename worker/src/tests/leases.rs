//! How a worker keeps its leases, and what it does without them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skillopt_core::capability;
use skillopt_queue::{Lane, Queue as _};

use super::rig::{Rig, Running, TTL, answers, until};
use crate::metrics::Outcome;

#[tokio::test]
async fn a_job_whose_lease_is_lost_is_dropped_and_not_completed() {
    let rig = Rig::new().await;
    let notices = rig.submit(&["wait-1"]).await;
    let running = rig.start();
    until(async || rig.asked() == 1).await;
    rig.clock.advance(TTL * 2);
    let stolen = rig.steal().await;
    until(async || rig.model.dropped.load(Ordering::SeqCst) == 1).await;
    let result = r#"{"answer": {"text": "theirs"}, "usage": {"calls": 1, "prompt_tokens": 1, "completion_tokens": 1}}"#;
    rig.queue
        .complete(stolen.ticket, result.into())
        .await
        .unwrap();
    assert_eq!(answers(notices).await, ["theirs"]);
    until(async || running.worker.metrics.total(Outcome::Lost) == 1).await;
    assert_eq!(rig.queue.completions.load(Ordering::SeqCst), 1, "theirs");
    running.drain().await;
}

/// A frozen worker cannot renew; neither can one whose lifeline never comes about.
#[tokio::test]
async fn a_worker_that_was_frozen_asks_before_it_completes() {
    let rig = Rig::new().await;
    let _notices = rig.submit(&["wait-1"]).await;
    let mut settings = rig.settings(1);
    // By the clock of the machine this lease has long run out when the answer comes.
    settings.lease_ttl = Duration::from_nanos(1);
    let worker = rig
        .worker(settings)
        .with_lifeline(Arc::new(|| Box::pin(std::future::pending())));
    let running = Running::start(worker);
    until(async || rig.asked() == 1).await;
    rig.clock.advance(TTL);
    let _stolen = rig.steal().await;
    rig.model.gate.0.add_permits(1);
    let metrics = &running.worker.metrics;
    until(async || metrics.total(Outcome::Refused) == 1).await;
    assert_eq!(rig.queue.completions.load(Ordering::SeqCst), 0);
    running.drain().await;
}

#[tokio::test]
async fn a_late_answer_is_refused_and_counted() {
    let rig = Rig::new().await;
    let _notices = rig.submit(&["wait-1"]).await;
    let mut settings = rig.settings(1);
    settings.lease_ttl = Duration::from_secs(3600);
    let running = Running::start(rig.worker(settings));
    until(async || rig.asked() == 1).await;
    rig.clock.advance(Duration::from_secs(4000));
    let _stolen = rig.steal().await;
    rig.model.gate.0.add_permits(1);
    let metrics = &running.worker.metrics;
    until(async || metrics.total(Outcome::Refused) == 1).await;
    assert_eq!(rig.stats().await.refused, 1);
    running.drain().await;
}

/// Asks a worker for one of its pages.
fn page(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn leases_live_on_while_every_thread_of_the_worker_is_busy() {
    let busy = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let ours = tokio::runtime::Runtime::new().unwrap();
    ours.block_on(async {
        let rig = Rig::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let notices = rig.submit(&["block-1", "block-2"]).await;
        let running = {
            let _entered = busy.enter();
            Running::start(rig.worker(rig.settings(2)).with_ops(listener))
        };
        until(async || rig.asked() == 1).await;
        let before = rig.record(|record| record.busy["chat"] == 2).await;
        for _ in 0..5 {
            // Two renewals begin after the time has moved, so that one of them has seen it.
            rig.clock.advance(TTL * 8 / 10);
            let seen = rig.queue.renewals.load(Ordering::SeqCst);
            until(async || rig.queue.renewals.load(Ordering::SeqCst) >= seen + 2).await;
        }
        assert_eq!(rig.asked(), 1, "the only thread is still held");
        assert_eq!(rig.stats().await.losses, 0);
        let page = |path: &'static str| tokio::task::spawn_blocking(move || page(address, path));
        assert!(page("/healthz").await.unwrap().starts_with("HTTP/1.1 200"));
        let metrics = page("/metrics").await.unwrap();
        assert!(
            metrics.contains("jobs_in_flight{kind=\"chat\"} 1"),
            "{metrics}"
        );
        rig.record(|record| record.seen_ms > before.seen_ms).await;
        rig.model.unblock.store(true, Ordering::SeqCst);
        assert_eq!(answers(notices).await, ["block-1", "block-2"]);
        running.drain().await;
    });
}

#[tokio::test]
async fn readiness_ends_when_the_worker_drains() {
    let rig = Rig::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _notices = rig.submit(&["wait-1"]).await;
    let running = Running::start(rig.worker(rig.settings(1)).with_ops(listener));
    until(async || rig.asked() == 1).await;
    let ready = move || tokio::task::spawn_blocking(move || page(address, "/readyz"));
    assert!(ready().await.unwrap().starts_with("HTTP/1.1 200"));
    running.shutdown.drain.cancel();
    let said = ready().await.unwrap();
    assert!(
        said.starts_with("HTTP/1.1 503") && said.contains("draining"),
        "{said}"
    );
    rig.model.gate.0.add_permits(1);
    running.ended().await.unwrap();
}

#[tokio::test]
async fn a_job_of_a_later_release_is_left_for_a_worker_of_that_release() {
    let rig = Rig::new().await;
    let lane = capability::calls("simulated").replace("v1", "v2");
    let later = rig.submit_to(&lane, &["later"]).await;
    let now = rig.submit(&["now"]).await;
    let old = rig.start();
    assert_eq!(answers(now).await, ["now"]);
    let stats = rig.stats().await;
    assert_eq!((stats.queued, stats.leased, stats.dead), (1, 0, 0));

    let mut settings = rig.settings(1);
    settings.name = "w2".into();
    settings.lanes.push(Lane::new(&lane));
    let new = Running::start(rig.worker(settings));
    assert_eq!(answers(later).await, ["later"]);
    old.drain().await;
    new.drain().await;
}
