//! What a worker does when it, or the queue, is not well.

use std::sync::atomic::Ordering;
use std::time::Duration;

use skillopt_core::job::{Failure, FailureClass};
use skillopt_queue::fleet::WorkerRecord;
use skillopt_queue::{Ended, Queue as _};

use super::rig::{Rig, Running, answers, until};
use crate::Place;
use crate::metrics::Outcome;

#[tokio::test]
async fn a_sick_worker_burns_no_tries_and_recovers_by_a_trial() {
    let rig = Rig::new().await;
    rig.model.is_broken.store(true, Ordering::SeqCst);
    let notices = rig.submit(&["a", "b", "c", "d", "e", "f", "g"]).await;
    let running = rig.start();
    let record = rig.record(|record| record.state == "sick").await;
    assert!(
        record.cause.contains("no client can be made"),
        "{}",
        record.cause
    );
    // Every look is followed by one trial, which fails.
    let faults = running.worker.metrics.total(Outcome::Fault);
    until(async || running.worker.metrics.total(Outcome::Fault) > faults).await;
    let stats = rig.stats().await;
    assert_eq!((stats.dead, stats.delayed), (0, 0));
    assert_eq!(rig.asked(), 0);

    rig.model.is_broken.store(false, Ordering::SeqCst);
    assert_eq!(answers(notices).await, ["a", "b", "c", "d", "e", "f", "g"]);
    rig.record(|record| record.state == "well").await;
    let said = rig.said.lock().unwrap().join("\n");
    assert!(
        said.contains("sick") && said.contains("well again"),
        "{said}"
    );
    running.drain().await;
}

#[tokio::test]
async fn a_full_disk_makes_a_worker_sick_before_a_job_finds_out() {
    let rig = Rig::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = rig.settings(1);
    let scratch = folder.path().join("scratch");
    settings.scratch = Some(scratch.clone());
    let running = Running::start(rig.worker(settings));
    let record = rig.record(|record| record.state == "sick").await;
    assert!(record.cause.contains("temporary files"), "{}", record.cause);
    let notices = rig.submit(&["a"]).await;
    std::fs::create_dir(&scratch).unwrap();
    assert_eq!(answers(notices).await, ["a"]);
    running.drain().await;
}

#[tokio::test]
async fn a_worker_whose_machine_fails_its_calls_gets_sick_and_burns_no_tries() {
    let rig = Rig::new().await;
    let jobs = ["a", "b", "c", "d", "e", "f", "g"].map(|name| format!("lost-{name}"));
    let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let _notices = rig.submit(&jobs).await;
    let running = rig.start();
    let record = rig.record(|record| record.state == "sick").await;
    let told = "worker `w1`: a fault of this machine: as the test wishes";
    assert!(record.cause.contains(told), "{}", record.cause);
    let stats = rig.stats().await;
    assert_eq!((stats.dead, stats.delayed), (0, 0));
    running.drain().await;
}

#[tokio::test]
async fn a_worker_alone_tries_again_what_its_machine_failed_and_then_says_so() {
    let rig = Rig::new().await;
    let mut notices = rig.submit(&["lost"]).await;
    let mut settings = rig.settings(1);
    settings.place = Place::Alone;
    let running = Running::start(rig.worker(settings));
    for tries in 1..3 {
        until(async || rig.stats().await.delayed == 1).await;
        assert_eq!(rig.asked(), tries);
        rig.clock.advance(Duration::from_secs(1));
    }
    let notice = notices.next(1).await.unwrap().pop().unwrap();
    let Ended::Failed(letter) = notice.ended else {
        panic!("{:?}", notice.ended);
    };
    assert_eq!(rig.asked(), 3);
    let failure: Failure = serde_json::from_slice(&letter.failure.detail).unwrap();
    assert_eq!(failure.class, FailureClass::Infrastructure);
    let cause = &failure.cause;
    assert!(cause.contains("a fault of this machine"), "{cause}");
    running.drain().await;
}

/// A job waits half a second each time that it came to a worker that may not call its server.
async fn end(rig: &Rig, job: &str) -> Ended {
    let mut notices = rig.submit(&[job]).await;
    let ended = notices.next(1);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            notices = &mut ended => return notices.unwrap().pop().unwrap().ended,
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        if rig.stats().await.delayed == 1 {
            rig.clock.advance(Duration::from_millis(500));
        }
    }
}

#[tokio::test]
async fn a_worker_without_a_credential_leaves_jobs_to_one_that_has_it() {
    let rig = Rig::new().await;
    rig.model.is_foreign.store(true, Ordering::SeqCst);
    let lacking = Running::start(rig.worker(rig.settings(1)));
    // Alone, it gives the job up, and says who lacks what.
    let Ended::Failed(letter) = end(&rig, "a").await else {
        panic!("nobody may call the server");
    };
    let cause = &letter.failure.cause;
    assert!(
        cause.contains("worker `w1`") && cause.contains("no credential"),
        "{cause}"
    );
    assert_eq!(rig.asked(), 0);

    let mut settings = rig.settings(1);
    settings.name = "w2".into();
    let able = Running::start(rig.worker(settings));
    until(async || {
        let path = WorkerRecord::path("w2");
        rig.board.get(&path).await.unwrap().is_some()
    })
    .await;
    for job in ["b", "c", "d"] {
        let ended = end(&rig, job).await;
        assert!(matches!(ended, Ended::Result(_)), "{ended:?}");
    }
    let record = rig.record(|record| !record.lacks.is_empty()).await;
    assert_eq!((record.id.as_str(), record.state.as_str()), ("w1", "well"));
    assert!(record.lacks.contains("http://models"), "{:?}", record.lacks);
    lacking.drain().await;
    able.drain().await;
}

#[tokio::test]
async fn a_job_that_meets_a_fault_of_ours_again_and_again_ends_alone() {
    let rig = Rig::new().await;
    let mut bad = rig.submit(&["panic"]).await;
    let good = rig.submit(&["a", "b"]).await;
    let running = rig.start();
    assert_eq!(answers(good).await, ["a", "b"]);
    let notice = bad.next(1).await.unwrap().pop().unwrap();
    let Ended::Failed(letter) = notice.ended else {
        panic!("{:?}", notice.ended);
    };
    assert!(letter.failure.cause.contains("please report it"));
    running.drain().await;
}

#[tokio::test]
async fn an_answer_is_kept_until_the_queue_is_back() {
    let rig = Rig::new().await;
    let first = rig.submit(&["wait-1"]).await;
    let mut settings = rig.settings(1);
    // The lease outlives the queue's absence; what becomes of one that does not is told elsewhere.
    settings.lease_ttl = Duration::from_secs(60);
    let running = Running::start(rig.worker(settings));
    until(async || rig.asked() == 1).await;
    rig.queue.is_away.store(true, Ordering::SeqCst);
    rig.model.gate.0.add_permits(1);
    until(async || rig.queue.completions.load(Ordering::SeqCst) > 1).await;
    let said = rig.said.lock().unwrap().join("\n");
    assert!(said.contains("cannot be reached"), "{said}");
    rig.queue.is_away.store(false, Ordering::SeqCst);
    assert_eq!(answers(first).await, ["wait-1"]);
    let second = rig.submit(&["after"]).await;
    assert_eq!(answers(second).await, ["after"]);
    assert_eq!(rig.asked(), 2, "no answer was asked for again");
    running.drain().await;
}

#[tokio::test]
async fn a_worker_alone_ends_with_its_queue() {
    let rig = Rig::new().await;
    let mut settings = rig.settings(1);
    settings.place = Place::Alone;
    rig.queue.is_away.store(true, Ordering::SeqCst);
    let running = Running::start(rig.worker(settings));
    let error = running.ended().await.unwrap_err();
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert!(rig.queue.states(&[]).await.is_err());
}
