//! Boards, ledgers and rates on a real server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Link, Options, RedisBoard, RedisLedger, RedisRates};
use crate::TestClock;
use crate::board::{Board as _, Expect};
use crate::conformance::server::Server;
use crate::conformance::{BoardRig, LedgerRig, RatesRig};
use crate::ledger::{Amount, Caps, Ledger as _, Reservation, Reserved, Settlement};
use crate::rates::{Ask, Go, Hold, Outcome, Rates as _};

static SERVER: LazyLock<Server> = LazyLock::new(Server::redis);

/// Opens `n` links to one namespace that nobody else uses.
async fn links(n: usize, clock: Option<&TestClock>) -> Vec<Link> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut links = Vec::with_capacity(n);
    for _ in 0..n {
        let options = Options {
            namespace: format!("skillopt:spend{number}"),
            clock: clock.map(|clock| Arc::new(clock.clone()) as _),
            ..Options::default()
        };
        links.push(Link::open(&SERVER.url(), options).await.unwrap());
    }
    links
}

async fn link(clock: Option<&TestClock>) -> Link {
    links(1, clock).await.remove(0)
}

async fn board() -> BoardRig {
    let clock = TestClock::new();
    BoardRig {
        board: Arc::new(RedisBoard::new(link(Some(&clock)).await)),
        clock,
        keep: Box::new(()),
    }
}

async fn ledger() -> LedgerRig {
    let clock = TestClock::new();
    LedgerRig {
        ledger: Arc::new(RedisLedger::new(link(Some(&clock)).await)),
        clock,
        keep: Box::new(()),
    }
}

async fn rates() -> RatesRig {
    let clock = TestClock::new();
    RatesRig {
        rates: Arc::new(RedisRates::new(link(Some(&clock)).await)),
        clock,
        keep: Box::new(()),
    }
}

mod boards {
    crate::conformance_board!(super::board);
}

mod ledgers {
    crate::conformance_ledger!(super::ledger);
}

mod accounts {
    crate::conformance_rates!(super::rates);
}

fn amount(tokens: u64) -> Amount {
    Amount {
        requests: 1,
        prompt_tokens: tokens,
        completion_tokens: 0,
        micro_usd: 3 * tokens,
    }
}

/// What one worker saw: paid, answered and refused calls.
#[derive(Default)]
struct Seen {
    paid: u64,
    answered: u64,
    refused: u64,
}

/// The cap is worth 100 calls at their most; 64 workers want 20 each, at unknown lengths.
#[tokio::test]
async fn sixty_four_workers_stay_within_a_cap() {
    const MOST: u64 = 1_000;
    const CAP: u64 = 100 * MOST;
    let links = links(64, None).await;
    let purse = "run/r1".to_owned();
    let ledger = RedisLedger::new(links[0].clone());
    let caps = Caps {
        tokens: Some(CAP),
        ..Caps::default()
    };
    ledger.set_caps(&purse, caps).await.unwrap();
    let mut workers = JoinSet::new();
    for (w, link) in links.into_iter().enumerate() {
        let purse = purse.clone();
        workers.spawn(async move {
            let ledger = RedisLedger::new(link);
            let mut seen = Seen::default();
            for call in 0..20u64 {
                let id = format!("{w}/{call}");
                let asked = Reservation {
                    id: id.clone(),
                    purses: vec![purse.clone()],
                    most: amount(MOST),
                    is_unpriced: false,
                    lifetime: Duration::from_secs(60),
                };
                loop {
                    match ledger.reserve(std::slice::from_ref(&asked)).await.unwrap()[0] {
                        Reserved::Held => break,
                        Reserved::Wait { .. } => tokio::task::yield_now().await,
                        Reserved::Refused { .. } => {
                            seen.refused += 1;
                            break;
                        }
                    }
                }
                if seen.refused > 0 {
                    seen.refused = 20 - call;
                    break;
                }
                let used = 1 + (call * 7_919 + w as u64 * 104_729) % MOST;
                let done = Settlement {
                    id,
                    purses: vec![purse.clone()],
                    is_reserved: true,
                    used: amount(used),
                    is_unpriced: false,
                    tally: Default::default(),
                };
                // Twice, as if an answer had been lost.
                ledger.settle(&[done.clone(), done]).await.unwrap();
                seen.paid += used;
                seen.answered += 1;
            }
            seen
        });
    }
    let mut all = Seen::default();
    while let Some(seen) = workers.join_next().await {
        let seen = seen.unwrap();
        all.paid += seen.paid;
        all.answered += seen.answered;
        all.refused += seen.refused;
    }
    let balance = ledger.balances(&[purse]).await.unwrap()[0];
    assert_eq!(balance.spent.tokens(), all.paid);
    assert_eq!(balance.spent.requests, all.answered);
    assert_eq!(balance.reserved, Amount::default());
    assert!(all.paid <= CAP, "{} of {CAP}", all.paid);
    assert!(
        all.paid > CAP - MOST,
        "the cap is used: {} of {CAP}",
        all.paid
    );
    assert_eq!(all.answered + all.refused, 64 * 20);
}

/// One worker's 429 holds up another one, by the server's clock; then both go on.
#[tokio::test]
async fn a_429_that_one_worker_sees_slows_the_others() {
    let links = links(2, None).await;
    let [one, two] = [&links[0], &links[1]].map(|link| RedisRates::new(link.clone()));
    let ask = |call: &str| {
        [Ask {
            account: "a".to_owned(),
            call: call.to_owned(),
            tokens: 1,
            lifetime: Duration::from_secs(60),
        }]
    };
    assert_eq!(one.ask(&ask("c1")).await.unwrap(), [Go::Now]);
    let wait = Duration::from_millis(400);
    let throttled = (
        "a".to_owned(),
        "c1".to_owned(),
        Outcome::Throttled(Some(wait)),
    );
    one.report(&[throttled]).await.unwrap();
    let answer = two.ask(&ask("c2")).await.unwrap()[0];
    let Go::NotBefore {
        why: Hold::Paused,
        at,
        ..
    } = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!(two.accounts().await.unwrap()[0].paused_until_ms, at.as_ms());
    let board = RedisBoard::new(links[1].clone());
    loop {
        let answer = two.ask(&ask("c2")).await.unwrap()[0];
        let now = board.now().await.unwrap();
        match answer {
            Go::Now => {
                assert!(now >= at);
                break;
            }
            Go::NotBefore { .. } => tokio::task::yield_now().await,
        }
    }
}

/// Every key lies in the slot of the queue, and what is over is not kept.
#[tokio::test]
async fn nothing_is_left_of_what_is_over() {
    let clock = TestClock::new();
    let rig = LedgerRig {
        ledger: Arc::new(RedisLedger::new(link(Some(&clock)).await)),
        clock: clock.clone(),
        keep: Box::new(()),
    };
    crate::conformance::ledgers::a_thousand_crashes_leave_nothing_reserved(&rig).await;
    let link = link(Some(&clock)).await;
    let board = RedisBoard::new(link.clone());
    let life = Some(Duration::from_secs(1));
    for i in 0..300 {
        let (path, name) = (format!("p{i}"), format!("l{i}"));
        board
            .put(&path, "x".into(), Expect::Any, life)
            .await
            .unwrap();
        let taken = board.acquire(&name, "h", Duration::from_secs(1)).await;
        assert!(taken.unwrap().is_some());
    }
    clock.advance(Duration::from_secs(1));
    for _ in 0..3 {
        board.get("p0").await.unwrap();
    }
    let mut cmd = ::redis::cmd("KEYS");
    cmd.arg(format!("{}*", link.key("board")));
    let answer = link.call(&cmd).await.unwrap();
    let left: Vec<String> = ::redis::from_redis_value(answer).unwrap();
    assert_eq!(left, [link.key("board:fence")]);
}
