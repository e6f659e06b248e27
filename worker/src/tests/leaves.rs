//! How a worker goes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use skillopt_queue::board::Expect;
use skillopt_queue::fleet::WorkerRecord;

use super::rig::{Rig, Running, answers, until};

#[tokio::test]
async fn a_worker_that_drains_finishes_what_is_under_way_and_takes_no_more() {
    let rig = Rig::new().await;
    let first = rig.submit(&["wait-1", "wait-2"]).await;
    let running = rig.start();
    until(async || rig.asked() == 2).await;
    running.shutdown.drain.cancel();
    let _later = rig.submit(&["later"]).await;
    let record = rig.record(|record| record.state == "draining").await;
    assert_eq!((record.busy["chat"], record.slots["chat"]), (2, 4));
    rig.model.gate.0.add_permits(2);
    running.ended().await.unwrap();
    assert_eq!(answers(first).await, ["wait-1", "wait-2"]);
    assert_eq!((rig.asked(), rig.stats().await.queued), (2, 1));
    let path = WorkerRecord::path("w1");
    assert_eq!(rig.board.get(&path).await.unwrap(), None, "off the list");
}

#[tokio::test]
async fn what_is_left_when_the_time_to_drain_is_over_goes_back_untouched() {
    let rig = Rig::new().await;
    let _notices = rig.submit(&["wait-1", "wait-2"]).await;
    let mut settings = rig.settings(4);
    settings.drain = Duration::from_millis(30);
    let running = Running::start(rig.worker(settings));
    until(async || rig.asked() == 2).await;
    running.drain().await;
    let stats = rig.stats().await;
    assert_eq!((stats.queued, stats.leased, stats.losses), (2, 0, 0));
    assert_eq!(rig.steal().await.retries, 0);
    assert_eq!(rig.model.dropped.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_second_signal_hands_jobs_back_at_once() {
    let rig = Rig::new().await;
    let _notices = rig.submit(&["wait-1"]).await;
    let running = rig.start();
    until(async || rig.asked() == 1).await;
    running.shutdown.drain.cancel();
    running.shutdown.now.cancel();
    running.ended().await.unwrap();
    let stats = rig.stats().await;
    assert_eq!((stats.queued, stats.leased), (1, 0));
}

#[tokio::test]
async fn a_worker_that_is_wished_away_leaves_and_takes_the_wish_with_it() {
    let rig = Rig::new().await;
    let running = rig.start();
    rig.record(|record| record.state == "well").await;
    let wish = WorkerRecord::drain_path("w1");
    rig.board
        .put(&wish, "{}".into(), Expect::Any, None)
        .await
        .unwrap();
    running.ended().await.unwrap();
    assert_eq!(rig.board.get(&wish).await.unwrap(), None);
}

#[tokio::test]
async fn nobody_waits_for_a_cancelled_job() {
    let rig = Rig::new().await;
    let _notices = rig.submit(&["wait-1"]).await;
    let running = rig.start();
    until(async || rig.asked() == 1).await;
    let run = skillopt_queue::RunId::new("r1");
    let all = skillopt_queue::queue::Which::All;
    skillopt_queue::Queue::cancel(rig.queue.as_ref(), &run, all)
        .await
        .unwrap();
    until(async || rig.model.dropped.load(Ordering::SeqCst) == 1).await;
    running.drain().await;
    let stats = rig.stats().await;
    assert_eq!((stats.queued, stats.leased, stats.dead), (0, 0, 0));
}
