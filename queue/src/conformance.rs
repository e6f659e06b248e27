//! What every implementation of [`Queue`] and [`Store`] has to do, as one suite.
//!
//! An implementation writes a function that makes a fresh, empty [`Rig`] and names it in
//! [`conformance!`](crate::conformance!), which turns each property into a test. No property
//! sleeps: time is the rig's [`TestClock`].

pub mod boards;
pub mod leases;
pub mod ledgers;
pub mod machine;
pub mod rates;
pub mod runs;
pub mod server;
pub mod stores;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::clock::TestClock;
use crate::ledger::Ledger;
use crate::message::{Enqueue, Lane, Leased, Priority, RunId, Want};
use crate::notice::{Ended, Notice, Notices};
use crate::queue::{Limits, Queue};
use crate::rates::Rates;
use crate::store::Store;

/// Lease time of the suite.
pub const TTL: Duration = Duration::from_secs(30);
/// The shortest time that a clock can tell.
pub const MS: Duration = Duration::from_millis(1);

/// A fresh queue on its store.
pub struct Rig {
    /// The queue; it judges time by `clock`.
    pub queue: Arc<dyn Queue>,
    /// The store that the queue completes into.
    pub store: Arc<dyn Store>,
    /// The queue's clock.
    pub clock: TestClock,
    /// Whatever has to live as long, e.g. a folder or a server.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The limits under which the suite wants its queue.
#[must_use]
pub const fn limits() -> Limits {
    Limits {
        jobs_max: 8,
        losses_max: 3,
        dead_max: 2,
    }
}

/// Makes one test per property; `$make` is a path to `async fn() -> Rig`, with [`limits`]. With
/// `in one:` in front it makes a single test, for rigs that are costly to share between tests.
#[macro_export]
macro_rules! conformance {
    (in one: $make:path) => {
        $crate::conformance!(@list one $make);
    };
    (@list $how:ident $make:path) => {
        $crate::conformance!(@ $how $make,
            leases:
            a_job_goes_around priority_comes_first_then_age a_worker_gets_only_its_lanes
            a_waiting_worker_is_woken drain_ends_the_wait an_expired_lease_returns_the_job
            renewal_keeps_a_lease a_zombie_is_refused the_first_result_wins
            a_job_that_costs_too_many_workers_dies retries_wait_and_are_counted
            a_postponed_job_waits_and_counts_nothing
            a_job_handed_back_is_untouched giving_up_tells_the_run a_dead_job_can_be_revived
            a_delayed_job_waits_for_its_time;
            runs:
            equal_jobs_of_two_runs_run_once a_stored_result_answers_at_once
            a_full_queue_takes_nothing cancelling_removes_and_signals
            cancelling_spares_other_runs single_jobs_can_be_withdrawn
            idle_jobs_can_be_withdrawn
            dropped_notices_leave_the_job a_joined_job_is_raised
            many_results_wait_in_bounded_memory counts_add_up every_job_can_be_found
            jobs_are_counted_for_the_run_that_asked_first;
            stores:
            blobs_are_stored_once results_are_never_overwritten events_are_idempotent
            events_are_read_from_anywhere logs_do_not_mix limits_are_kept
            large_values_are_kept_as_small_ones_are;);
    };
    (@ each $make:path, $($group:ident: $($name:ident)*;)*) => {
        $($(#[tokio::test] async fn $name() {
            $crate::conformance::$group::$name(&$make().await).await;
        })*)*
    };
    (@ one $make:path, $($group:ident: $($name:ident)*;)*) => {
        #[tokio::test]
        async fn every_property_holds() {
            $($(
                println!("{}", stringify!($name));
                $crate::conformance::$group::$name(&$make().await).await;
            )*)*
        }
    };
    (@ $make:path, $($groups:tt)*) => {
        $crate::conformance!(@ each $make, $($groups)*;);
    };
    ($make:path) => {
        $crate::conformance!(@list each $make);
    };
}

/// A fresh board.
pub struct BoardRig {
    /// The board; it judges time by `clock`.
    pub board: Arc<dyn Board>,
    /// The board's clock.
    pub clock: TestClock,
    /// Whatever has to live as long, e.g. a server.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Makes one test per property of a board; `$make` is a path to `async fn() -> BoardRig`.
#[macro_export]
macro_rules! conformance_board {
    ($make:path) => {
        $crate::conformance!(@ $make, boards:
            versions_grow_with_each_write one_of_two_writers_loses
            a_record_ends_with_its_life a_deleted_record_begins_anew
            lists_are_in_order_and_paged a_prefix_is_taken_literally
            any_bytes_are_a_value what_is_too_long_is_refused
            a_lease_has_one_holder a_lease_is_renewed_with_its_fence
            a_lease_ends_by_the_boards_clock a_released_lease_is_free
            fences_grow_with_each_change_of_hands a_late_holder_writes_nothing
            many_ask_for_one_lease many_writers_lose_no_write);
    };
}

/// A fresh ledger.
pub struct LedgerRig {
    /// The ledger; it judges time by `clock`.
    pub ledger: Arc<dyn Ledger>,
    /// The ledger's clock.
    pub clock: TestClock,
    /// Whatever has to live as long, e.g. a server.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Makes one test per property of a ledger; `$make` is a path to `async fn() -> LedgerRig`.
#[macro_export]
macro_rules! conformance_ledger {
    ($make:path) => {
        $crate::conformance!(@ $make, ledgers:
            what_is_reserved_is_settled_at_what_it_was a_cap_refuses_what_can_never_fit
            what_may_be_given_back_is_waited_for all_purses_pay_or_none
            a_repeated_call_counts_once a_lost_worker_gives_back
            a_late_settlement_counts_once a_call_without_a_reservation_counts_once
            calls_are_told_apart_once_by_what_they_were_for
            an_unknown_price_is_refused_by_a_cap_in_dollars caps_may_be_moved
            no_schedule_exceeds_a_cap a_thousand_crashes_leave_nothing_reserved
            late_settlements_are_remembered_for_a_day large_amounts_are_exact);
    };
}

/// Fresh rates.
pub struct RatesRig {
    /// The rates; they judge time by `clock`.
    pub rates: Arc<dyn Rates>,
    /// Their clock.
    pub clock: TestClock,
    /// Whatever has to live as long, e.g. a server.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// Makes one test per property of rates; `$make` is a path to `async fn() -> RatesRig`.
#[macro_export]
macro_rules! conformance_rates {
    ($make:path) => {
        $crate::conformance!(@ $make, rates:
            an_account_without_limits_or_trouble_is_free requests_a_minute_are_kept
            tokens_a_minute_are_kept what_was_not_used_is_given_back calls_at_once_are_kept
            a_repeated_ask_takes_once a_lost_call_frees_its_place
            a_throttled_call_pauses_all pauses_without_a_hint_grow_and_are_spread
            a_few_throttled_calls_among_many_pause_nobody throttling_cuts_once_and_recovery_is_steady
            failures_open_the_circuit_and_one_probe_closes_it trouble_is_forgotten
            those_who_wait_are_spread accounts_are_told_by_name);
    };
}

/// The key of the suite's job `name`.
#[must_use]
pub fn key(name: &str) -> Key {
    Key(Hash::of(name.as_bytes()))
}

/// Bytes that hardly compress, made quickly; the same ones for the same length.
#[must_use]
pub fn noise(len: usize) -> Bytes {
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state ^ (state >> 29)).to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(next)
        .take(len / 8)
        .flatten()
        .collect();
    bytes.resize(len, 0);
    bytes.into()
}

/// A job of run `r1` in lane `chat`.
#[must_use]
pub fn job(name: &str) -> Enqueue {
    Enqueue {
        key: key(name),
        job: Bytes::copy_from_slice(name.as_bytes()),
        lane: Lane::new("chat"),
        priority: Priority::NORMAL,
        run: RunId::new("r1"),
        not_before: None,
    }
}

/// Asks for jobs of lane `chat`.
#[must_use]
pub fn want(max: usize) -> Want {
    Want {
        worker: "w1".into(),
        lanes: vec![Lane::new("chat")],
        max,
        ttl: TTL,
    }
}

impl Rig {
    async fn submit(&self, jobs: impl IntoIterator<Item = Enqueue>) -> Notices {
        self.queue
            .submit(jobs.into_iter().collect())
            .await
            .expect("the jobs fit")
    }

    /// Leases up to `max` jobs without waiting.
    async fn lease(&self, max: usize) -> Vec<Leased> {
        let stats = self.queue.stats().await.expect("stats");
        if stats.queued == 0 {
            return Vec::new();
        }
        self.queue
            .lease(want(max), &CancellationToken::new())
            .await
            .expect("a lease")
    }

    /// Leases one job that must be there.
    async fn lease_one(&self) -> Leased {
        self.lease(1).await.pop().expect("a job is there")
    }

    async fn complete(&self, leased: &Leased, result: &str) -> bool {
        let result = Bytes::copy_from_slice(result.as_bytes());
        self.queue
            .complete(leased.ticket, result)
            .await
            .expect("a completion")
            .is_first
    }

    async fn stored(&self, name: &str) -> Option<Bytes> {
        self.store
            .results(&[key(name)])
            .await
            .expect("a read")
            .pop()
            .flatten()
    }
}

/// The next notice, which must be for `name`.
async fn next(notices: &mut Notices, name: &str) -> Ended {
    let Notice { key: told, ended } = notices
        .next(1)
        .await
        .expect("a notice")
        .pop()
        .expect("not all was told");
    assert_eq!(told, key(name));
    ended
}

#[track_caller]
fn assert_result(ended: &Ended, expected: &str) {
    match ended {
        Ended::Result(result) => assert_eq!(result, expected),
        other => panic!("expected result `{expected}`, got {other:?}"),
    }
}

fn names(leased: &[Leased]) -> Vec<String> {
    leased
        .iter()
        .map(|l| String::from_utf8_lossy(&l.job).into_owned())
        .collect()
}
