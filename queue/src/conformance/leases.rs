//! From the queue to a worker and back.

use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{MS, Rig, TTL, assert_result, job, key, names, next, want};
use crate::clock::Clock;
use crate::message::{Lane, Leased, Priority, Want};
use crate::notice::Ended;
use crate::queue::{Error, Failure, Refused, Renewal};

fn stale<T>(leased: &Leased) -> Result<T, Error> {
    Err(Error::Refused(Refused::StaleFence(leased.ticket)))
}

/// Submit, lease, complete, notice; afterwards the queue is empty.
pub async fn a_job_goes_around(rig: &Rig) {
    let mut notices = rig.submit([job("a")]).await;
    let leased = rig.lease_one().await;
    assert_eq!((leased.ticket.key, &*leased.job), (key("a"), &b"a"[..]));
    assert_eq!((leased.deliveries, leased.retries), (1, 0));
    assert_eq!(leased.expires_at, rig.clock.now().plus(TTL));
    assert!(rig.complete(&leased, "one").await);
    assert_result(&next(&mut notices, "a").await, "one");
    assert!(notices.next(9).await.expect("an end").is_empty());
    assert_eq!(rig.stored("a").await.expect("stored"), "one");
    let stats = rig.queue.stats().await.expect("stats");
    assert_eq!((stats.queued, stats.delayed, stats.leased), (0, 0, 0));
}

/// The highest priority first, then first in, first out.
pub async fn priority_comes_first_then_age(rig: &Rig) {
    let mut urgent = job("urgent");
    urgent.priority = Priority::FIRST;
    let mut idle = job("idle");
    idle.priority = Priority::LAST;
    let _notices = rig.submit([idle, job("a"), job("b"), urgent]).await;
    assert_eq!(names(&rig.lease(3).await), ["urgent", "a", "b"]);
    assert_eq!(names(&rig.lease(3).await), ["idle"]);
}

/// Lanes are kept apart, and several are served in one order.
pub async fn a_worker_gets_only_its_lanes(rig: &Rig) {
    let mut exec = job("exec");
    exec.lane = Lane::new("exec");
    let _notices = rig.submit([exec, job("chat")]).await;
    assert_eq!(names(&rig.lease(9).await), ["chat"]);
    let lanes = vec![Lane::new("chat"), Lane::new("exec")];
    let both = Want { lanes, ..want(9) };
    let leased = rig
        .queue
        .lease(both, &CancellationToken::new())
        .await
        .expect("a lease");
    assert_eq!(names(&leased), ["exec"]);
}

/// Two workers that wait before there is work get one job each.
pub async fn a_waiting_worker_is_woken(rig: &Rig) {
    let wait = || {
        let queue = rig.queue.clone();
        tokio::spawn(async move { queue.lease(want(1), &CancellationToken::new()).await })
    };
    let (first, second) = (wait(), wait());
    tokio::task::yield_now().await;
    let _notices = rig.submit([job("a"), job("b")]).await;
    let mut got = names(&first.await.expect("no panic").expect("a lease"));
    got.extend(names(&second.await.expect("no panic").expect("a lease")));
    got.sort();
    assert_eq!(got, ["a", "b"]);
}

/// A worker that stops does not wait for work.
pub async fn drain_ends_the_wait(rig: &Rig) {
    let drain = CancellationToken::new();
    let (queue, token) = (rig.queue.clone(), drain.clone());
    let waiting = tokio::spawn(async move { queue.lease(want(1), &token).await });
    tokio::task::yield_now().await;
    drain.cancel();
    assert!(
        waiting
            .await
            .expect("no panic")
            .expect("an answer")
            .is_empty()
    );
    let _notices = rig.submit([job("a")]).await;
    assert!(
        rig.queue
            .lease(want(1), &drain)
            .await
            .expect("an answer")
            .is_empty()
    );
}

/// A lease that is not renewed is granted to someone who waits.
pub async fn an_expired_lease_returns_the_job(rig: &Rig) {
    let _notices = rig.submit([job("a"), job("b")]).await;
    let first = rig.lease(2).await.remove(0);
    rig.clock.advance(TTL - MS);
    assert!(rig.lease(1).await.is_empty());
    let queue = rig.queue.clone();
    let waiting =
        tokio::spawn(async move { queue.lease(want(1), &CancellationToken::new()).await });
    tokio::task::yield_now().await;
    rig.clock.advance(MS);
    let second = waiting.await.expect("no panic").expect("a lease").remove(0);
    assert_eq!((second.ticket.key, second.deliveries), (key("a"), 2));
    assert!(first.ticket.fence < second.ticket.fence);
}

/// Renewal counts from the moment it is made; a lost lease is not revived.
pub async fn renewal_keeps_a_lease(rig: &Rig) {
    let _notices = rig.submit([job("a"), job("b")]).await;
    let leased = rig.lease(2).await;
    rig.clock.advance(TTL - MS);
    let answers = rig
        .queue
        .renew(&[leased[0].ticket], TTL)
        .await
        .expect("a renewal");
    assert_eq!(answers, [Renewal::Held(rig.clock.now().plus(TTL))]);
    rig.clock.advance(MS);
    let tickets = [leased[0].ticket, leased[1].ticket];
    let answers = rig.queue.renew(&tickets, TTL).await.expect("a renewal");
    assert_eq!(
        answers,
        [Renewal::Held(rig.clock.now().plus(TTL)), Renewal::Lost]
    );
    assert_eq!(rig.lease_one().await.ticket.key, key("b"));
}

/// Whoever lost a lease has no say any more, in no way.
pub async fn a_zombie_is_refused(rig: &Rig) {
    let mut notices = rig.submit([job("a")]).await;
    let zombie = rig.lease_one().await;
    rig.clock.advance(TTL);
    let late = Bytes::from_static(b"late");
    assert_eq!(
        rig.queue.complete(zombie.ticket, late.clone()).await,
        stale(&zombie)
    );
    assert_eq!(rig.stored("a").await, None);
    let leased = rig.lease_one().await;
    let failure = Failure {
        cause: "x".into(),
        detail: Bytes::new(),
    };
    assert_eq!(
        rig.queue.retry(zombie.ticket, TTL, "x").await,
        stale(&zombie)
    );
    assert_eq!(
        rig.queue.give_up(zombie.ticket, failure).await,
        stale(&zombie)
    );
    assert_eq!(rig.queue.hand_back(&[zombie.ticket]).await, Ok(0));
    assert!(rig.complete(&leased, "right").await);
    assert_eq!(
        rig.queue.complete(zombie.ticket, late.clone()).await,
        stale(&zombie)
    );
    assert_eq!(
        rig.queue.complete(leased.ticket, late).await,
        stale(&leased)
    );
    assert_result(&next(&mut notices, "a").await, "right");
    assert_eq!(rig.stored("a").await.expect("stored"), "right");
    assert!(rig.queue.stats().await.expect("stats").refused >= 4);
}

/// A result that came another way is kept, and everyone hears that one.
pub async fn the_first_result_wins(rig: &Rig) {
    let mut notices = rig.submit([job("a")]).await;
    let leased = rig.lease_one().await;
    assert_eq!(
        rig.store.put_result(key("a"), "first".into()).await,
        Ok(true)
    );
    assert!(!rig.complete(&leased, "second").await);
    assert_result(&next(&mut notices, "a").await, "first");
    assert_eq!(rig.stored("a").await.expect("stored"), "first");
}

/// After three lost leases a job is dead; retries and returned leases do not count.
pub async fn a_job_that_costs_too_many_workers_dies(rig: &Rig) {
    let mut notices = rig.submit([job("a")]).await;
    for _ in 0..5 {
        let leased = rig.lease_one().await;
        rig.queue
            .retry(leased.ticket, Duration::ZERO, "busy")
            .await
            .expect("a retry");
    }
    for _ in 0..3 {
        rig.lease_one().await;
        rig.clock.advance(TTL);
    }
    assert!(rig.lease(1).await.is_empty());
    let Ended::Failed(letter) = next(&mut notices, "a").await else {
        panic!("it is dead")
    };
    assert_eq!(
        (letter.deliveries, letter.retries, letter.losses),
        (8, 5, 3)
    );
    assert_eq!((letter.key, &*letter.job), (key("a"), &b"a"[..]));
    assert_eq!(letter.evidence.len(), 8);
    assert_eq!(&*letter.evidence[7].worker, "w1");
    assert_eq!(rig.queue.dead_letters(9).await.expect("letters"), [letter]);
}

/// A retried job waits, keeps its place in the order and counts.
pub async fn retries_wait_and_are_counted(rig: &Rig) {
    let _notices = rig.submit([job("a"), job("b")]).await;
    let leased = rig.lease_one().await;
    rig.queue
        .retry(leased.ticket, Duration::from_secs(5), "busy")
        .await
        .expect("a retry");
    assert_eq!(rig.queue.stats().await.expect("stats").delayed, 1);
    rig.clock.advance(Duration::from_secs(5) - MS);
    assert_eq!(rig.queue.stats().await.expect("stats").delayed, 1);
    rig.clock.advance(MS);
    let again = rig.lease_one().await;
    assert_eq!(
        (again.ticket.key, again.deliveries, again.retries),
        (key("a"), 2, 1)
    );
}

/// A job that could not be tried is as new after its wait, however often.
pub async fn a_postponed_job_waits_and_counts_nothing(rig: &Rig) {
    let _notices = rig.submit([job("a")]).await;
    for _ in 0..5 {
        let leased = rig.lease_one().await;
        assert_eq!((leased.deliveries, leased.retries), (1, 0));
        let wait = Duration::from_secs(5);
        let postponed = rig.queue.postpone(leased.ticket, wait, "no money").await;
        assert_eq!(postponed, Ok(()));
        let again = rig.queue.postpone(leased.ticket, wait, "no money").await;
        assert!(again.is_err(), "the lease is gone");
        rig.clock.advance(wait - MS);
        assert_eq!(rig.queue.stats().await.expect("stats").delayed, 1);
        rig.clock.advance(MS);
    }
}

/// A job handed back is the next one again.
pub async fn a_job_handed_back_is_untouched(rig: &Rig) {
    let _notices = rig.submit([job("a"), job("b")]).await;
    let leased = rig.lease_one().await;
    assert_eq!(rig.queue.hand_back(&[leased.ticket]).await, Ok(1));
    let again = rig.lease_one().await;
    assert_eq!((again.ticket.key, again.retries), (key("a"), 0));
}

/// A failure reaches the run, and the dead letters, newest first and bounded.
pub async fn giving_up_tells_the_run(rig: &Rig) {
    let mut notices = rig.submit([job("a"), job("b"), job("c")]).await;
    for name in ["a", "b", "c"] {
        let leased = rig.lease_one().await;
        let failure = Failure {
            cause: format!("no {name}"),
            detail: "{}".into(),
        };
        rig.queue
            .give_up(leased.ticket, failure.clone())
            .await
            .expect("to give up");
        let Ended::Failed(letter) = next(&mut notices, name).await else {
            panic!("it failed")
        };
        assert_eq!(letter.failure, failure);
    }
    let dead = rig.queue.dead_letters(9).await.expect("letters");
    assert_eq!(
        dead.iter().map(|l| l.key).collect::<Vec<_>>(),
        [key("c"), key("b")]
    );
}

/// Submitting a dead job starts it afresh.
pub async fn a_dead_job_can_be_revived(rig: &Rig) {
    let _first = rig.submit([job("a")]).await;
    let leased = rig.lease_one().await;
    let failure = Failure {
        cause: "x".into(),
        detail: Bytes::new(),
    };
    rig.queue
        .give_up(leased.ticket, failure)
        .await
        .expect("to give up");
    let mut notices = rig.submit([job("a")]).await;
    assert!(rig.queue.dead_letters(9).await.expect("letters").is_empty());
    let again = rig.lease_one().await;
    assert_eq!(again.deliveries, 1);
    rig.complete(&again, "alive").await;
    assert_result(&next(&mut notices, "a").await, "alive");
}

/// `not_before` is kept, and a second submission can make it earlier.
pub async fn a_delayed_job_waits_for_its_time(rig: &Rig) {
    let later = |name| {
        let mut job = job(name);
        job.not_before = Some(rig.clock.now().plus(TTL));
        job
    };
    let _first = rig.submit([later("a"), later("b")]).await;
    assert!(rig.lease(9).await.is_empty());
    let _second = rig.submit([job("b")]).await;
    assert_eq!(names(&rig.lease(9).await), ["b"]);
    rig.clock.advance(TTL - MS);
    rig.queue.stats().await.expect("stats");
    rig.clock.advance(MS);
    assert!(names(&rig.lease(9).await).contains(&"a".to_owned()));
}
