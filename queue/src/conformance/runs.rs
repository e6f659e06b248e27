//! From a run to the queue and back.

use bytes::Bytes;

use super::{MS, Rig, TTL, assert_result, job, key, limits, names, next};
use crate::clock::Clock;
use crate::message::{Enqueue, Lane, Priority, RunId};
use crate::notice::{Ended, UNREAD_BYTES_MAX};
use crate::queue::{
    Asked, Error, JOB_BYTES_MAX, JobState, LaneStats, Renewal, RunStats, Which, Withdrawn,
};

fn of_run(run: &str, name: &str) -> Enqueue {
    Enqueue {
        run: RunId::new(run),
        ..job(name)
    }
}

/// One delivery, two notices; before, during and within one submission.
pub async fn equal_jobs_of_two_runs_run_once(rig: &Rig) {
    let mut first = rig.submit([job("a"), job("a")]).await;
    let mut second = rig.submit([of_run("r2", "a")]).await;
    let leased = rig.lease_one().await;
    let mut third = rig.submit([of_run("r3", "a")]).await;
    assert!(rig.lease(1).await.is_empty());
    rig.complete(&leased, "one").await;
    for notices in [&mut first, &mut second, &mut third] {
        assert_result(&next(notices, "a").await, "one");
        assert_eq!(notices.remaining(), 0);
    }
}

/// What is known is not asked again.
pub async fn a_stored_result_answers_at_once(rig: &Rig) {
    rig.store
        .put_result(key("a"), "known".into())
        .await
        .expect("a write");
    let mut notices = rig.submit([job("a"), job("b")]).await;
    assert_result(&next(&mut notices, "a").await, "known");
    assert_eq!(names(&rig.lease(9).await), ["b"]);
}

/// A submission is taken whole or not at all; joins need no room.
pub async fn a_full_queue_takes_nothing(rig: &Rig) {
    let many = |from: usize, to: usize| (from..to).map(|i| job(&i.to_string())).collect::<Vec<_>>();
    let max = limits().jobs_max;
    let _notices = rig.submit(many(0, max - 1)).await;
    let error = rig
        .queue
        .submit(many(max - 1, max + 1))
        .await
        .map(|_| ())
        .expect_err("too many");
    assert_eq!(
        error,
        Error::QueueFull {
            new: 2,
            present: max - 1,
            max
        }
    );
    let _joined = rig.submit(many(0, max)).await;
    let mut long = job("long");
    long.job = vec![0; JOB_BYTES_MAX + 1].into();
    let error = rig
        .queue
        .submit(vec![long])
        .await
        .map(|_| ())
        .expect_err("too long");
    assert!(matches!(error, Error::JobTooLarge { .. }), "{error}");
    assert_eq!(rig.queue.stats().await.expect("stats").queued, max);
}

/// Queued jobs go at once; a running one is signalled, and its answer is still welcome.
pub async fn cancelling_removes_and_signals(rig: &Rig) {
    let mut notices = rig.submit([job("a"), job("b")]).await;
    let leased = rig.lease_one().await;
    let withdrawn = rig
        .queue
        .cancel(&RunId::new("r1"), Which::All)
        .await
        .expect("an answer");
    assert_eq!(
        withdrawn,
        Withdrawn {
            removed: 1,
            signalled: 1,
            shared: 0
        }
    );
    for name in ["a", "b"] {
        assert!(matches!(next(&mut notices, name).await, Ended::Cancelled));
    }
    let renewed = rig
        .queue
        .renew(&[leased.ticket], TTL)
        .await
        .expect("an answer");
    assert!(matches!(renewed[..], [Renewal::Cancelled(_)]));
    leased.cancelled.cancelled().await;
    assert!(rig.complete(&leased, "paid").await);
    assert_eq!(rig.stored("a").await.expect("stored"), "paid");
    let stats = rig.queue.stats().await.expect("stats");
    assert_eq!((stats.queued, stats.leased), (0, 0));
}

/// What another run wants goes on; a cancelled job that comes back is dropped.
pub async fn cancelling_spares_other_runs(rig: &Rig) {
    let _first = rig.submit([job("a"), job("b")]).await;
    let mut second = rig.submit([of_run("r2", "b")]).await;
    let only_first = rig.lease_one().await;
    let withdrawn = rig
        .queue
        .cancel(&RunId::new("r1"), Which::All)
        .await
        .expect("an answer");
    assert_eq!(
        withdrawn,
        Withdrawn {
            removed: 0,
            signalled: 1,
            shared: 1
        }
    );
    rig.queue
        .hand_back(&[only_first.ticket])
        .await
        .expect("an answer");
    let leased = rig.lease(9).await;
    assert_eq!(names(&leased), ["b"]);
    rig.complete(&leased[0], "two").await;
    assert_result(&next(&mut second, "b").await, "two");
}

/// A run can withdraw what it does not need any more.
pub async fn single_jobs_can_be_withdrawn(rig: &Rig) {
    let mut notices = rig.submit([job("a"), job("b"), job("c")]).await;
    let which = [key("c"), key("a"), key("unknown")];
    let run = RunId::new("r1");
    let withdrawn = rig
        .queue
        .cancel(&run, Which::Keys(&which))
        .await
        .expect("an answer");
    assert_eq!(
        withdrawn,
        Withdrawn {
            removed: 2,
            signalled: 0,
            shared: 0
        }
    );
    for name in ["a", "c"] {
        assert!(matches!(next(&mut notices, name).await, Ended::Cancelled));
    }
    assert_eq!(names(&rig.lease(9).await), ["b"]);
}

/// What nobody has begun can be taken back, and what is under way goes on.
pub async fn idle_jobs_can_be_withdrawn(rig: &Rig) {
    let later = Enqueue {
        not_before: Some(rig.clock.now().plus(TTL)),
        ..job("d")
    };
    let mut notices = rig.submit([job("a"), job("b"), job("c"), later]).await;
    let mut other = rig.submit([of_run("r2", "c")]).await;
    let leased = rig.lease_one().await;
    let withdrawn = rig.queue.cancel(&RunId::new("r1"), Which::Idle).await;
    assert_eq!(
        withdrawn.expect("an answer"),
        Withdrawn {
            removed: 2,
            signalled: 0,
            shared: 1
        }
    );
    for name in ["b", "c", "d"] {
        assert!(matches!(next(&mut notices, name).await, Ended::Cancelled));
    }
    assert!(!leased.cancelled.is_cancelled());
    assert!(rig.complete(&leased, "one").await);
    assert_result(&next(&mut notices, "a").await, "one");
    let left = rig.lease(9).await;
    assert_eq!(names(&left), ["c"]);
    rig.complete(&left[0], "three").await;
    assert_result(&next(&mut other, "c").await, "three");
}

/// Not listening is not cancelling.
pub async fn dropped_notices_leave_the_job(rig: &Rig) {
    drop(rig.submit([job("a")]).await);
    let leased = rig.lease_one().await;
    assert!(!leased.cancelled.is_cancelled());
    assert!(rig.complete(&leased, "one").await);
}

/// A join with a higher priority moves the job up, one with a lower does not move it down.
pub async fn a_joined_job_is_raised(rig: &Rig) {
    let _first = rig.submit([job("a"), job("b"), job("c")]).await;
    let with = |name, priority| Enqueue {
        priority,
        ..of_run("r2", name)
    };
    let _second = rig
        .submit([with("b", Priority::FIRST), with("a", Priority::LAST)])
        .await;
    assert_eq!(names(&rig.lease(9).await), ["b", "a", "c"]);
}

/// Results beyond the bound are read back from the store, unnoticed by the reader.
pub async fn many_results_wait_in_bounded_memory(rig: &Rig) {
    let mut notices = rig.submit([job("a"), job("b"), job("c")]).await;
    let long = "x".repeat(UNREAD_BYTES_MAX / 2);
    for leased in rig.lease(9).await {
        rig.complete(&leased, &long).await;
    }
    assert_eq!(notices.remaining(), 3);
    let mut all = Vec::new();
    while all.len() < 3 {
        // Notices may come one by one.
        all.extend(notices.next(9).await.expect("notices"));
    }
    let is_whole = |ended: &Ended| matches!(ended, Ended::Result(r) if r.len() == long.len());
    assert_eq!(
        all.iter().filter(|notice| is_whole(&notice.ended)).count(),
        3
    );
    assert_eq!(notices.remaining(), 0);
}

/// Every job is counted in one place.
pub async fn counts_add_up(rig: &Rig) {
    let mut later = job("later");
    later.not_before = Some(crate::clock::Timestamp::from_ms(u64::MAX));
    let _notices = rig.submit([job("a"), job("b"), job("c"), later]).await;
    rig.clock.advance(MS * 7);
    let leased = rig.lease_one().await;
    let failure = crate::queue::Failure {
        cause: "x".into(),
        detail: Bytes::new(),
    };
    rig.queue
        .give_up(leased.ticket, failure)
        .await
        .expect("to give up");
    rig.lease_one().await;
    let stats = rig.queue.stats().await.expect("stats");
    assert_eq!(
        (stats.queued, stats.delayed, stats.leased, stats.dead),
        (1, 1, 1, 1)
    );
    assert_eq!(stats.oldest, MS * 7);
    rig.clock.advance(TTL);
    let stats = rig.queue.stats().await.expect("stats");
    assert_eq!((stats.queued, stats.leased, stats.losses), (2, 0, 1));
}

/// Each job can be found, with what there is to say of it.
pub async fn every_job_can_be_found(rig: &Rig) {
    let now = rig.clock.now();
    let mut later = job("later");
    later.not_before = Some(now.plus(TTL));
    let mut exec = job("exec");
    exec.lane = Lane::new("exec");
    let jobs = [job("dead"), job("held"), job("back"), job("a"), exec, later];
    let _notices = rig.submit(jobs).await;
    let leased = rig.lease(3).await;
    let failure = crate::queue::Failure {
        cause: "x".into(),
        detail: Bytes::new(),
    };
    let queue = &rig.queue;
    queue
        .give_up(leased[0].ticket, failure)
        .await
        .expect("to give up");
    queue
        .retry(leased[2].ticket, TTL * 2, "busy")
        .await
        .expect("a retry");
    rig.clock.advance(MS);
    let keys = ["dead", "held", "back", "a", "later", "never"].map(key);
    let found = queue.states(&keys).await.expect("states");
    assert!(matches!(&found[0], JobState::Dead(letter) if letter.key == key("dead")));
    assert_eq!(
        found[1],
        JobState::Leased {
            worker: "w1".into(),
            since: now,
            expires_at: now.plus(TTL)
        }
    );
    assert_eq!(
        found[2],
        JobState::Delayed {
            until: now.plus(TTL * 2),
            cause: Some("busy".into())
        }
    );
    let waiting = |losses| JobState::Waiting { since: now, losses };
    assert_eq!(found[3], waiting(0));
    assert_eq!(
        found[4],
        JobState::Delayed {
            until: now.plus(TTL),
            cause: None
        }
    );
    assert_eq!(found[5], JobState::Unknown);
    let lanes = queue.lanes().await.expect("lanes");
    let lane = |name| LaneStats {
        lane: Lane::new(name),
        queued: 1,
        oldest: MS,
    };
    assert_eq!(lanes, [lane("chat"), lane("exec")]);
    rig.clock.advance(TTL);
    let found = queue.states(&[key("held")]).await.expect("states");
    assert_eq!(found, [waiting(1)]);
}

/// What others asked for can be told apart by run and lane.
pub async fn jobs_are_counted_for_the_run_that_asked_first(rig: &Rig) {
    let now = rig.clock.now();
    let exec = Enqueue {
        lane: Lane::new("exec"),
        ..job("exec")
    };
    let later = Enqueue {
        not_before: Some(now.plus(TTL)),
        ..job("later")
    };
    let _first = rig
        .submit([job("held"), job("a"), job("both"), exec, later])
        .await;
    let _second = rig.submit([of_run("r2", "both"), of_run("r2", "b")]).await;
    assert_eq!(rig.lease(1).await.len(), 1);
    let queue = &rig.queue;
    let stats = |run: &str, lane: &str, waiting, leased| RunStats {
        run: RunId::new(run),
        lane: Lane::new(lane),
        waiting,
        leased,
        oldest: now,
    };
    let all = queue.runs(&[]).await.expect("counts");
    let expected = [
        stats("r1", "chat", 3, 1),
        stats("r1", "exec", 1, 0),
        stats("r2", "chat", 1, 0),
    ];
    assert_eq!(all, expected);
    let but = |run: &str| vec![RunId::new(run)];
    let rest = queue.runs(&but("r1")).await.expect("counts");
    assert_eq!(rest, [stats("r2", "chat", 1, 0)]);
    let rest = queue.runs(&but("r2")).await.expect("counts");
    assert_eq!(rest, [stats("r1", "chat", 2, 1), stats("r1", "exec", 1, 0)]);
    let none = [RunId::new("r1"), RunId::new("r2")];
    assert_eq!(queue.runs(&none).await.expect("counts"), []);

    let keys = ["both", "exec", "never"].map(key);
    let asked = |lane: &str, runs: &[&str]| {
        Some(Asked {
            lane: Lane::new(lane),
            since: now,
            runs: runs.iter().map(|run| RunId::new(run)).collect(),
        })
    };
    let expected = [asked("chat", &["r1", "r2"]), asked("exec", &["r1"]), None];
    assert_eq!(queue.asked(&keys).await.expect("who waits"), expected);
}
