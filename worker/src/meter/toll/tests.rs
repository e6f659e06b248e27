//! Tasks of agents under caps and rates.

use std::sync::atomic::{AtomicU64, Ordering};

use skillopt_backends::CallError;
use skillopt_core::job::{FailureClass, Price, Usage};
use skillopt_queue::ledger::{Amount, Balance, Caps, Ledger as _};
use skillopt_queue::rates::{Limits, Rates};
use skillopt_queue::{MemoryLedger, MemoryRates, SystemClock};
use tokio::task::JoinSet;

use super::*;

const ANSWER_MAX: u32 = 1_000;
const PROMPT: u64 = 500;

struct Rig {
    ledger: MemoryLedger,
    rates: MemoryRates,
    meter: Arc<Meter>,
}

impl Rig {
    fn new() -> Self {
        let clock = Arc::new(SystemClock::new());
        let ledger = MemoryLedger::new(clock.clone());
        let rates = MemoryRates::new(clock);
        let shared: Arc<dyn Rates> = Arc::new(rates.clone());
        Self {
            meter: Arc::new(Meter::new("w1", Arc::new(ledger.clone()), Some(shared))),
            ledger,
            rates,
        }
    }

    async fn caps(&self, caps: Caps) {
        self.ledger.set_caps("run/r1", caps).await.unwrap();
    }

    fn toll(&self, name: &str, noted: &Noted) -> Toll {
        let task = Task {
            name: name.to_owned(),
            payer: Some(Payer {
                run: "r1".to_owned(),
                sweep: String::new(),
                tenant: "t1".to_owned(),
                price: Some(Price {
                    input: 1_000_000,
                    output: 2_000_000,
                    ..Price::default()
                }),
                is_capped: true,
            }),
            profile: Profile {
                role: "target".to_owned(),
                backend: "codex_exec".to_owned(),
                model: "m".to_owned(),
                endpoint: "http://models".to_owned(),
                temperature: None,
                max_tokens: 0,
                reasoning_effort: String::new(),
                settings: serde_json::Map::new(),
            },
            stage: "rollout".to_owned(),
            lifetime: Duration::from_secs(60),
            answer_limit: ANSWER_MAX,
        };
        Toll::new(&self.meter, task, noted)
    }

    async fn balance(&self) -> Balance {
        self.meter.flush().await.unwrap();
        self.ledger.balances(&["run/r1".to_owned()]).await.unwrap()[0]
    }
}

fn at_most() -> AtMost {
    AtMost {
        prompt_tokens: PROMPT,
        completion_tokens: None,
    }
}

fn answered(tokens: u64) -> Passed {
    Passed::Answered(Usage {
        calls: 1,
        prompt_tokens: PROMPT / 2,
        completion_tokens: tokens,
        ..Usage::default()
    })
}

fn throttled(wait: Duration) -> Passed {
    Passed::Failed(CallError::Throttled {
        endpoint: "http://models".to_owned(),
        retry_after: Some(wait),
    })
}

/// 24 tasks of ten requests each; no cap is exceeded at any time, and what they use is what is
/// counted.
#[tokio::test(start_paused = true)]
async fn requests_of_many_tasks_stay_within_each_cap() {
    for caps in [
        Caps {
            requests: Some(50),
            ..Caps::default()
        },
        Caps {
            tokens: Some(30_000),
            ..Caps::default()
        },
        Caps {
            micro_usd: Some(40_000),
            ..Caps::default()
        },
    ] {
        let rig = Arc::new(Rig::new());
        rig.caps(caps).await;
        let (care, mut tasks) = (Arc::clone(&rig), JoinSet::new());
        let mut caring = JoinSet::new();
        caring.spawn(async move { care.meter.run().await });
        let sums: Arc<[AtomicU64; 3]> = Arc::default();
        for task in 0..24 {
            let (rig, sums) = (Arc::clone(&rig), Arc::clone(&sums));
            tasks.spawn(async move {
                let noted = Noted::default();
                let toll = rig.toll(&task.to_string(), &noted);
                let gate = toll.gate();
                for n in 0..10 {
                    let Ok(permit) = gate.enter(at_most()).await else {
                        break;
                    };
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let tokens = task * 37 % 900 + n;
                    let used = [1, PROMPT / 2 + tokens, PROMPT / 2 + 2 * tokens];
                    for (sum, n) in sums.iter().zip(used) {
                        sum.fetch_add(n, Ordering::Relaxed);
                    }
                    permit.close(answered(tokens));
                }
                noted.take()
            });
        }
        let refused = tasks.join_all().await.into_iter().flatten();
        let refused: Vec<_> = refused.collect();
        assert!(!refused.is_empty());
        for instead in refused {
            if let Instead::Refused(failure) = instead {
                assert_eq!(failure.class, FailureClass::Budget);
                assert!(failure.cause.contains("`run/r1`"), "{}", failure.cause);
            }
        }
        caring.shutdown().await;
        let Balance {
            spent, reserved, ..
        } = rig.balance().await;
        let [requests, tokens, usd] = [0, 1, 2].map(|n| sums[n].load(Ordering::Relaxed));
        assert_eq!(reserved, Amount::default());
        assert_eq!(
            (spent.requests, spent.tokens(), spent.micro_usd),
            (requests, tokens, usd)
        );
        for (used, cap) in [
            (requests, caps.requests),
            (tokens, caps.tokens),
            (usd, caps.micro_usd),
        ] {
            let cap = cap.unwrap_or(used);
            assert!(used <= cap && used > cap / 2, "{used} of {cap}");
        }
    }
}

/// Whatever becomes of a task, each of its requests is counted once.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_when_a_task_ends_is_counted_once() {
    let rig = Rig::new();
    let most = cost::at_most(PROMPT, u64::from(ANSWER_MAX), None);
    let noted = Noted::default();
    let toll = rig.toll("a", &noted);
    let gate = toll.gate();
    let (first, second) = (
        gate.enter(at_most()).await.unwrap(),
        gate.enter(at_most()).await.unwrap(),
    );
    first.close(answered(100));
    // The task goes first, as when its worker drains; its connections follow.
    drop(toll);
    second.close(answered(100));
    let balance = rig.balance().await;
    assert_eq!(balance.reserved, Amount::default());
    assert_eq!(balance.spent.requests, 2);
    let tokens = PROMPT / 2 + 100 + most.tokens();
    assert_eq!(balance.spent.tokens(), tokens);
    // Nothing more is let out, and nothing is held.
    assert!(gate.enter(at_most()).await.is_err());
    assert_eq!(rig.balance().await, balance);
}

#[tokio::test(start_paused = true)]
async fn how_a_request_ended_says_what_it_came_to() {
    let most = cost::at_most(PROMPT, u64::from(ANSWER_MAX), None).tokens();
    let failed = |detail: &str| {
        Passed::Failed(CallError::Connection {
            endpoint: "http://models".to_owned(),
            detail: detail.to_owned(),
        })
    };
    for (passed, requests, tokens) in [
        (answered(7), 1, PROMPT / 2 + 7),
        // A server that does not count.
        (Passed::Answered(Usage::default()), 1, most),
        (Passed::Abandoned, 1, most),
        (failed("the answer broke off"), 1, most),
        (failed("client error (Connect): refused"), 0, 0),
        (throttled(Duration::ZERO), 1, 0),
    ] {
        let (rig, noted) = (Rig::new(), Noted::default());
        let words = format!("{passed:?}");
        let toll = rig.toll("a", &noted);
        let permit = toll.gate().enter(at_most()).await.unwrap();
        permit.close(passed);
        let balance = rig.balance().await;
        let spent = balance.spent;
        assert_eq!(
            (spent.requests, spent.tokens()),
            (requests, tokens),
            "{words}"
        );
        assert_eq!(balance.reserved, Amount::default(), "{words}");
    }
}

/// A task that has paid for answers waits longer than one that has not.
#[tokio::test]
async fn a_throttled_account_holds_all_tasks_and_costs_no_paid_one() {
    let rig = Rig::new();
    let (noted, fresh) = (Noted::default(), Noted::default());
    let toll = rig.toll("a", &noted);
    let gate = toll.gate();
    gate.enter(at_most()).await.unwrap().close(answered(1));
    let wait = Duration::from_secs(3);
    gate.enter(at_most()).await.unwrap().close(throttled(wait));
    let began = tokio::time::Instant::now();
    let other = rig.toll("b", &fresh);
    // Told by the next try, whoever makes it.
    let again = gate.enter(at_most());
    let first = other.gate();
    let (again, first) = tokio::join!(again, first.enter(at_most()));
    assert!(again.is_ok(), "{:?}", noted.take());
    assert!(
        began.elapsed() >= wait - Duration::from_millis(100),
        "it waited"
    );
    assert!(first.is_err(), "it goes back");
    let Some(Instead::Later { wait, .. }) = fresh.take() else {
        panic!("it comes again later");
    };
    assert!(wait > WAIT_MAX, "{wait:?}");
    assert!(noted.take().is_none(), "its task goes on");
}

#[tokio::test]
async fn calls_at_once_are_those_of_the_account() {
    let rig = Arc::new(Rig::new());
    let limits = Limits {
        concurrency: Some(3),
        ..Limits::default()
    };
    rig.rates.set_limits("http://models", limits).await.unwrap();
    let care = Arc::clone(&rig);
    let mut caring = JoinSet::new();
    caring.spawn(async move { care.meter.run().await });
    // Limits are looked for now and then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (now, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..9 {
        let (rig, now, most) = (Arc::clone(&rig), Arc::clone(&now), Arc::clone(&most));
        tasks.spawn(async move {
            let noted = Noted::default();
            let toll = rig.toll(&task.to_string(), &noted);
            let gate = toll.gate();
            let mut made = 0;
            while made < 5 {
                let Ok(permit) = gate.enter(at_most()).await else {
                    continue;
                };
                let at_once = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(at_once, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                permit.close(answered(1));
                made += 1;
            }
        });
    }
    tasks.join_all().await;
    caring.shutdown().await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(rig.balance().await.spent.requests, 45);
}
