use std::collections::{BTreeMap, BTreeSet};

use skillopt_core::Hash;
use skillopt_core::job::Key;
use skillopt_queue::queue::RunStats;
use skillopt_queue::rates::{Account, Limits};
use skillopt_queue::{Lane, Priority, RunId};

use super::*;
use crate::scheduler::{Hold, Line};

const NOW: Timestamp = Timestamp::from_ms(1_000_000);

fn line(run: &str, waiting: usize, hold: Hold) -> Line {
    Line {
        run: RunId::new(run),
        lane: Lane::new("chat"),
        priority: Priority::NORMAL,
        waiting,
        oldest: Timestamp::from_ms(990_000),
        hold,
    }
}

fn job(run: &str, place: Place) -> JobFacts {
    JobFacts {
        key: Key(Hash::of(b"job")),
        run: RunId::new(run),
        lane: Lane::new("chat"),
        since: Timestamp::from_ms(995_000),
        place,
    }
}

/// Jobs that nobody tells of.
fn left(run: &str, waiting: usize, leased: usize) -> RunStats {
    RunStats {
        run: RunId::new(run),
        lane: Lane::new("chat"),
        waiting,
        leased,
        oldest: Timestamp::from_ms(990_000),
    }
}

fn leased(expires_ms: u64) -> Place {
    Place::Leased {
        worker: "w-1".into(),
        expires_at: Timestamp::from_ms(expires_ms),
    }
}

fn facts() -> Facts {
    Facts {
        now: NOW,
        lanes: BTreeSet::from([Lane::new("chat")]),
        ..Facts::default()
    }
}

fn with_run(state: RunState, account: Option<Account>) -> Facts {
    let accounts = account.iter().map(|a| (Lane::new("chat"), a.name.clone()));
    let run = RunFacts {
        state,
        accounts: accounts.collect(),
    };
    Facts {
        runs: BTreeMap::from([(RunId::new("a"), run)]),
        accounts: account.into_iter().collect(),
        ..facts()
    }
}

fn account() -> Account {
    Account {
        name: "azure".into(),
        ..Account::default()
    }
}

/// One job that waits in the scheduler, and one that waits in the queue.
#[track_caller]
fn check(facts: Facts, hold: Hold, place: Place, expected: [(Code, &str); 2]) {
    let in_line = Facts {
        lines: vec![line("a", 1, hold)],
        ..facts.clone()
    };
    let in_queue = Facts {
        released: vec![job("a", place)],
        ..facts
    };
    for (facts, (code, words)) in [in_line, in_queue].iter().zip(expected) {
        let waits = explain(facts);
        let rows: Vec<_> = waits
            .rows
            .iter()
            .map(|row| (row.code, row.words.as_str()))
            .collect();
        assert_eq!(rows, [(code, words)]);
    }
}

#[test]
fn each_reason_has_its_words() {
    let queued = || Place::Queued { losses: 0 };
    let own = Hold::Own { out: 5 };
    let both = |code, words| [(code, words), (code, words)];
    check(
        with_run(
            RunState::Orphaned {
                takeover_ms: 15_000,
            },
            None,
        ),
        own,
        queued(),
        both(Code::NoCoordinator, "no coordinator holds run a"),
    );
    check(
        with_run(RunState::Paused { by: "ada".into() }, None),
        own,
        queued(),
        both(Code::Paused, "run a is paused by ada"),
    );
    let cap = "run/a, dollars".to_owned();
    check(
        with_run(RunState::OutOfBudget { cap }, None),
        own,
        queued(),
        both(Code::Budget, "the cap is reached: run/a, dollars"),
    );
    let dead = Place::Dead {
        tries: 3,
        cause: "the lease ran out\nand so on".into(),
    };
    check(
        facts(),
        own,
        dead,
        [
            (Code::Barrier, "5 earlier jobs of run a are out"),
            (
                Code::SetAside,
                "failed 3 times, set aside: the lease ran out",
            ),
        ],
    );
    let delayed = Place::Delayed {
        until: Timestamp::from_ms(1_005_000),
        cause: Some("503".into()),
    };
    check(
        facts(),
        Hold::Paused,
        delayed,
        [
            (Code::Paused, "run a is paused"),
            (Code::RetryBackoff, "is tried again after: 503"),
        ],
    );
    check(
        facts(),
        Hold::Others,
        leased(999_999),
        [
            (Code::FairShare, "other runs go first"),
            (Code::LeaseExpired, "worker `w-1` stopped answering"),
        ],
    );
    let held = Place::Delayed {
        until: Timestamp::from_ms(1_005_000),
        cause: Some("`azure` is not called now: calls at once".into()),
    };
    check(
        facts(),
        own,
        held,
        [
            (Code::Barrier, "5 earlier jobs of run a are out"),
            (Code::RateLimited, "account `azure`: calls at once"),
        ],
    );
    let down = Account {
        failed: 9,
        paused_until_ms: 1_030_000,
        ..account()
    };
    check(
        with_run(RunState::Running, Some(down)),
        own,
        queued(),
        both(Code::ProviderDown, "account `azure`: its circuit is open"),
    );
    let throttled = Account {
        limits: Limits {
            requests_per_minute: Some(60),
            ..Limits::default()
        },
        requests: 60,
        ..account()
    };
    check(
        with_run(RunState::Running, Some(throttled)),
        own,
        queued(),
        both(
            Code::RateLimited,
            "account `azure`: requests a minute are used up",
        ),
    );
    let nobody = Facts {
        lanes: BTreeSet::new(),
        ..facts()
    };
    check(
        nobody,
        own,
        queued(),
        both(Code::NoCapability, "no live worker offers `chat`"),
    );
    let full = Facts {
        store_pressure: Some("1.9 of 2 GiB".into()),
        ..facts()
    };
    check(
        full,
        own,
        queued(),
        both(
            Code::StorePressure,
            "the store is above its limit: 1.9 of 2 GiB",
        ),
    );
    let away = Facts {
        values_away: Some("`s3://kept` failed".into()),
        store_pressure: Some("1.9 of 2 GiB".into()),
        ..facts()
    };
    check(
        away,
        own,
        queued(),
        both(Code::StorePressure, "`s3://kept` failed"),
    );
    check(
        facts(),
        own,
        queued(),
        [
            (Code::Barrier, "5 earlier jobs of run a are out"),
            (Code::SlotsBusy, "all workers that offer `chat` are busy"),
        ],
    );
}

#[test]
fn jobs_of_which_no_coordinator_tells_wait_for_what_became_of_their_run() {
    let check = |state: RunState, code: Code| {
        let facts = Facts {
            left: vec![left("a", 4, 2)],
            ..with_run(state, None)
        };
        let waits = explain(&facts);
        let rows: Vec<_> = waits.rows.iter().map(|r| (r.code, r.count)).collect();
        assert_eq!(rows, [(code, 4)]);
        assert_eq!((waits.waiting, waits.running), (4, 2));
    };
    let orphaned = RunState::Orphaned { takeover_ms: 6_000 };
    check(orphaned, Code::NoCoordinator);
    check(RunState::Paused { by: "ada".into() }, Code::Paused);
    let cap = "run/a, dollars".to_owned();
    check(RunState::OutOfBudget { cap }, Code::Budget);
    // It has just been taken over.
    check(RunState::Running, Code::SlotsBusy);
    let nobody = Facts {
        left: vec![left("a", 4, 0)],
        lanes: BTreeSet::new(),
        ..facts()
    };
    assert_eq!(explain(&nobody).rows[0].code, Code::NoCapability);
}

#[test]
fn names_of_codes_can_be_read_back() {
    for code in Code::ALL {
        assert_eq!(Code::parse(code.as_str()), Some(code));
    }
    assert!(Code::ALL.is_sorted());
}

#[test]
fn the_page_has_every_code() {
    let page = include_str!("../../../docs/why.md");
    for code in Code::ALL {
        assert!(page.contains(&format!("| `{code}` |")), "{code}");
    }
}

#[test]
fn running_jobs_do_not_wait() {
    let facts = Facts {
        lines: vec![line("a", 7, Hold::Others)],
        released: vec![
            job("a", leased(1_000_001)),
            job("b", Place::Queued { losses: 2 }),
        ],
        ..facts()
    };
    let waits = explain(&facts);
    assert_eq!((waits.waiting, waits.running), (8, 1));
    assert_eq!(
        sentences("the cluster", &waits),
        "the cluster: 8 jobs wait and 1 job runs; most (7): other runs go first.\n  \
         7 fair_share, oldest 10 s: other runs go first. What helps: a higher weight or priority \
         for this run, or more slots.\n  \
         1 lease_expired, oldest 5 s: back from workers that stopped answering, 2 times. What \
         helps: nothing: the next free worker takes it; look at the workers if it happens again."
    );
    let only = facts.only(|run| run.as_str() == "b");
    assert_eq!(explain(&only).waiting, 1);
}

#[test]
fn many_causes_of_one_code_are_put_together() {
    let delayed = |n: u64| Place::Delayed {
        until: Timestamp::from_ms(1_000_000 + n),
        cause: Some(format!("cause {}", n % 50)),
    };
    let facts = Facts {
        released: (0..500).map(|n| job("a", delayed(n))).collect(),
        ..facts()
    };
    let waits = explain(&facts);
    assert_eq!((waits.rows.len(), waits.waiting), (9, 500));
    assert_eq!(waits.rows[8].words, "are tried again later");
}

/// A small generator of numbers: the same for a seed everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

fn any_world(dice: &mut Dice) -> Facts {
    let mut facts = facts();
    if dice.roll(3) == 0 {
        facts.lanes.clear();
    }
    facts.store_pressure = (dice.roll(4) == 0).then(|| "full".to_owned());
    facts.accounts = vec![Account {
        failed: dice.roll(9),
        throttled: dice.roll(9),
        paused_until_ms: 999_000 + dice.roll(2_000),
        in_flight: dice.roll(4),
        allowed: Some(2),
        ..account()
    }];
    for run in ["a", "b", "c"] {
        let state = match dice.roll(6) {
            0 => RunState::Paused { by: "ada".into() },
            1 => RunState::Orphaned { takeover_ms: 9 },
            2 => RunState::OutOfBudget { cap: "x".into() },
            _ => RunState::Running,
        };
        let accounts = BTreeMap::from([(Lane::new("chat"), "azure".to_owned())]);
        let run_facts = RunFacts { state, accounts };
        if dice.roll(2) == 0 {
            facts.runs.insert(RunId::new(run), run_facts);
        }
        let hold = [Hold::Paused, Hold::Own { out: 3 }, Hold::Others];
        let hold = hold[usize::try_from(dice.roll(3)).unwrap()];
        let waiting = usize::try_from(dice.roll(40)).unwrap();
        facts.lines.push(line(run, waiting, hold));
        let size = |n| usize::try_from(n).unwrap();
        let more = left(run, size(dice.roll(3)), size(dice.roll(3)));
        facts.left.push(more);
        for _ in 0..dice.roll(30) {
            let place = match dice.roll(5) {
                0 => Place::Queued {
                    losses: u32::try_from(dice.roll(2)).unwrap(),
                },
                1 => Place::Delayed {
                    until: Timestamp::from_ms(999_000 + dice.roll(9_000)),
                    cause: (dice.roll(2) == 0).then(|| format!("cause {}", dice.roll(20))),
                },
                2 => Place::Dead {
                    tries: 3,
                    cause: "lost".into(),
                },
                _ => leased(999_000 + dice.roll(2_000)),
            };
            facts.released.push(job(run, place));
        }
    }
    facts
}

#[test]
fn in_any_world_the_rows_add_up_and_every_job_is_counted_once() {
    let mut dice = Dice(42);
    for _ in 0..2_000 {
        let facts = any_world(&mut dice);
        let waits = explain(&facts);
        let lines: usize = facts.lines.iter().map(|line| line.waiting).sum();
        let left = facts.left.iter().map(|left| left.waiting + left.leased);
        let jobs = lines + facts.released.len() + left.sum::<usize>();
        let jobs = u64::try_from(jobs).unwrap();
        assert_eq!(waits.waiting + waits.running, jobs);
        assert_eq!(
            waits.rows.iter().map(|row| row.count).sum::<u64>(),
            waits.waiting
        );
        assert!(
            waits
                .rows
                .iter()
                .all(|row| row.count > 0 && !row.help.is_empty())
        );
        assert!(waits.rows.iter().map(|row| row.code).is_sorted());
        // By run they add up to the same.
        let by_run = ["a", "b", "c"].map(|run| explain(&facts.only(|r| r.as_str() == run)).waiting);
        assert_eq!(by_run.iter().sum::<u64>(), waits.waiting);
    }
}
