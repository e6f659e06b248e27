//! A cap is never exceeded, and nothing stays reserved.

use std::time::Duration;

use super::{LedgerRig, MS, TTL};
use crate::ledger::{Amount, Balance, Caps, Counts, Reservation, Reserved, Settlement, Tally, Use};

const RUN: &str = "run/r1";
const SWEEP: &str = "sweep/s1";
const DAY: Duration = Duration::from_secs(24 * 3600);

fn amount(tokens: u64) -> Amount {
    Amount {
        requests: 1,
        prompt_tokens: tokens,
        completion_tokens: 0,
        micro_usd: 2 * tokens,
    }
}

fn tokens(cap: u64) -> Caps {
    Caps {
        tokens: Some(cap),
        ..Caps::default()
    }
}

fn reservation(id: &str, purses: &[&str], most: u64) -> Reservation {
    Reservation {
        id: id.to_owned(),
        purses: purses.iter().map(|&p| p.to_owned()).collect(),
        most: amount(most),
        is_unpriced: false,
        lifetime: TTL,
    }
}

fn settlement(id: &str, purses: &[&str], used: Amount) -> Settlement {
    Settlement {
        id: id.to_owned(),
        purses: purses.iter().map(|&p| p.to_owned()).collect(),
        is_reserved: true,
        used,
        is_unpriced: false,
        tally: Tally::default(),
    }
}

fn refused(purse: &str, what: &'static str) -> Reserved {
    let purse = purse.to_owned();
    Reserved::Refused { purse, what }
}

fn wait(purse: &str) -> Reserved {
    let purse = purse.to_owned();
    Reserved::Wait { purse }
}

impl LedgerRig {
    async fn cap(&self, purse: &str, caps: Caps) {
        self.ledger.set_caps(purse, caps).await.expect("caps");
    }

    async fn reserve(&self, id: &str, purses: &[&str], most: u64) -> Reserved {
        let asked = [reservation(id, purses, most)];
        let mut answers = self.ledger.reserve(&asked).await.expect("an answer");
        answers.pop().expect("one answer")
    }

    async fn settle(&self, id: &str, purses: &[&str], used: Amount) {
        let done = [settlement(id, purses, used)];
        self.ledger.settle(&done).await.expect("a settlement");
    }

    async fn balance(&self, purse: &str) -> Balance {
        let balances = self.ledger.balances(&[purse.to_owned()]).await;
        balances.expect("balances").pop().expect("one balance")
    }

    /// Tokens spent and reserved.
    async fn tokens(&self, purse: &str) -> (u64, u64) {
        let balance = self.balance(purse).await;
        (balance.spent.tokens(), balance.reserved.tokens())
    }
}

/// Reserved at its most, settled at what it was, the rest given back.
pub async fn what_is_reserved_is_settled_at_what_it_was(rig: &LedgerRig) {
    assert_eq!(rig.balance(RUN).await, Balance::default());
    rig.cap(RUN, tokens(100)).await;
    assert_eq!(rig.reserve("a", &[RUN], 60).await, Reserved::Held);
    let balance = rig.balance(RUN).await;
    assert_eq!(balance.reserved, amount(60));
    assert_eq!(balance.caps, tokens(100));
    let used = Amount {
        requests: 1,
        prompt_tokens: 7,
        completion_tokens: 3,
        micro_usd: 19,
    };
    rig.settle("a", &[RUN], used).await;
    let balance = rig.balance(RUN).await;
    assert_eq!((balance.spent, balance.reserved), (used, Amount::default()));
    assert!(!balance.has_unpriced);
    let answers = rig
        .ledger
        .reserve(&[reservation("b", &[RUN], 90), reservation("c", &[RUN], 1)])
        .await;
    assert_eq!(
        answers,
        Ok(vec![Reserved::Held, wait(RUN)]),
        "answers in order"
    );
}

/// Each of the three caps.
pub async fn a_cap_refuses_what_can_never_fit(rig: &LedgerRig) {
    rig.cap(RUN, tokens(100)).await;
    assert_eq!(rig.reserve("a", &[RUN], 101).await, refused(RUN, "tokens"));
    assert_eq!(rig.reserve("b", &[RUN], 100).await, Reserved::Held);
    rig.settle("b", &[RUN], amount(100)).await;
    assert_eq!(rig.reserve("c", &[RUN], 1).await, refused(RUN, "tokens"));
    let caps = Caps {
        micro_usd: Some(9),
        ..Caps::default()
    };
    rig.cap(SWEEP, caps).await;
    assert_eq!(
        rig.reserve("d", &[SWEEP], 5).await,
        refused(SWEEP, "dollars")
    );
    assert_eq!(rig.reserve("d", &[SWEEP], 4).await, Reserved::Held);
    let caps = Caps {
        requests: Some(1),
        ..Caps::default()
    };
    rig.cap("tenant/t", caps).await;
    assert_eq!(rig.reserve("e", &["tenant/t"], 9_999).await, Reserved::Held);
    rig.settle("e", &["tenant/t"], amount(1)).await;
    let answer = rig.reserve("f", &["tenant/t"], 1).await;
    assert_eq!(answer, refused("tenant/t", "requests"));
    assert_eq!(rig.balance(RUN).await.reserved, Amount::default());
}

/// As long as calls under way may come to less.
pub async fn what_may_be_given_back_is_waited_for(rig: &LedgerRig) {
    rig.cap(RUN, tokens(100)).await;
    assert_eq!(rig.reserve("a", &[RUN], 80).await, Reserved::Held);
    assert_eq!(rig.reserve("b", &[RUN], 50).await, wait(RUN));
    assert_eq!(rig.tokens(RUN).await, (0, 80), "who waits holds nothing");
    rig.settle("a", &[RUN], amount(50)).await;
    assert_eq!(rig.reserve("b", &[RUN], 50).await, Reserved::Held);
    rig.settle("b", &[RUN], amount(1)).await;
    assert_eq!(rig.reserve("c", &[RUN], 50).await, refused(RUN, "tokens"));
}

/// If one purse cannot pay, none does; what is final is said before what may pass.
pub async fn all_purses_pay_or_none(rig: &LedgerRig) {
    rig.cap(RUN, tokens(100)).await;
    rig.cap(SWEEP, tokens(60)).await;
    assert_eq!(rig.reserve("a", &[RUN, SWEEP], 50).await, Reserved::Held);
    assert_eq!(rig.reserve("b", &[RUN, SWEEP], 20).await, wait(SWEEP));
    assert_eq!(rig.tokens(RUN).await, (0, 50));
    let answer = rig.reserve("c", &[RUN, SWEEP], 70).await;
    assert_eq!(answer, refused(SWEEP, "tokens"), "not `wait` for the run");
    rig.settle("a", &[RUN, SWEEP], amount(10)).await;
    assert_eq!(rig.tokens(RUN).await, (10, 0));
    assert_eq!(rig.tokens(SWEEP).await, (10, 0));
    let free = rig.reserve("d", &["run/free", "tenant/free"], u64::from(u32::MAX));
    assert_eq!(free.await, Reserved::Held, "no cap, no limit");
}

/// Answers get lost and calls are made again.
pub async fn a_repeated_call_counts_once(rig: &LedgerRig) {
    rig.cap(RUN, tokens(100)).await;
    for _ in 0..3 {
        assert_eq!(rig.reserve("a", &[RUN], 60).await, Reserved::Held);
    }
    assert_eq!(rig.tokens(RUN).await, (0, 60));
    for _ in 0..3 {
        rig.settle("a", &[RUN], amount(30)).await;
    }
    assert_eq!(rig.tokens(RUN).await, (30, 0));
}

/// At the end of its time, not before.
pub async fn a_lost_worker_gives_back(rig: &LedgerRig) {
    rig.cap(RUN, tokens(100)).await;
    assert_eq!(rig.reserve("a", &[RUN, SWEEP], 60).await, Reserved::Held);
    rig.clock.advance(TTL - MS);
    assert_eq!(rig.reserve("b", &[RUN], 60).await, wait(RUN));
    rig.clock.advance(MS);
    assert_eq!(rig.reserve("b", &[RUN], 60).await, Reserved::Held);
    assert_eq!(rig.tokens(RUN).await, (0, 60));
    assert_eq!(rig.tokens(SWEEP).await, (0, 0));
}

/// The worker was slow, not dead: what it paid is counted, although others spend it already.
pub async fn a_late_settlement_counts_once(rig: &LedgerRig) {
    rig.cap(RUN, tokens(100)).await;
    assert_eq!(rig.reserve("a", &[RUN], 60).await, Reserved::Held);
    rig.clock.advance(TTL);
    assert_eq!(rig.reserve("b", &[RUN], 100).await, Reserved::Held);
    for _ in 0..3 {
        rig.settle("a", &[RUN], amount(30)).await;
    }
    assert_eq!(rig.tokens(RUN).await, (30, 100));
    rig.settle("b", &[RUN], amount(100)).await;
    assert_eq!(rig.tokens(RUN).await, (130, 0), "what was paid is told");
    assert_eq!(rig.reserve("c", &[RUN], 1).await, refused(RUN, "tokens"));
}

/// Where nothing is capped nothing is reserved, but counted.
pub async fn a_call_without_a_reservation_counts_once(rig: &LedgerRig) {
    let free = |id, used| Settlement {
        is_reserved: false,
        is_unpriced: true,
        ..settlement(id, &[RUN, SWEEP], used)
    };
    let done = [
        free("a", amount(5)),
        free("b", amount(6)),
        free("a", amount(5)),
    ];
    for _ in 0..2 {
        rig.ledger.settle(&done).await.expect("a settlement");
    }
    for purse in [RUN, SWEEP] {
        let balance = rig.balance(purse).await;
        let spent = Amount {
            requests: 2,
            ..amount(11)
        };
        assert_eq!(balance.spent, spent);
        assert!(balance.has_unpriced);
    }
}

/// By what they were for, and in no way that a cap sees.
pub async fn calls_are_told_apart_once_by_what_they_were_for(rig: &LedgerRig) {
    let counts = |n: u64| Counts {
        requests: n,
        cached_tokens: 2 * n,
        outcomes: [("answer".to_owned(), n)].into(),
        ..Counts::default()
    };
    let tally = |uses: &[(&str, u64)]| {
        let mut tally = Tally::default();
        for (stage, n) in uses {
            tally.add(Use::new("optimizer", stage, "a/b:c"), &counts(*n));
        }
        tally
    };
    let told = |id, uses| Settlement {
        is_reserved: false,
        tally: tally(uses),
        ..settlement(id, &[RUN, SWEEP], Amount::default())
    };
    let done = [
        told("a", &[("merge", 1), ("rank", 4)]),
        told("b", &[("merge", 2)]),
    ];
    for _ in 0..2 {
        rig.ledger.settle(&done).await.expect("a settlement");
    }
    let purses = [RUN, "run/none", SWEEP].map(str::to_owned);
    let all = tally(&[("merge", 3), ("rank", 4)]);
    let expected = vec![all.clone(), Tally::default(), all];
    assert_eq!(rig.ledger.tallies(&purses).await, Ok(expected));
    assert_eq!(rig.balance(RUN).await.spent, Amount::default());
}

/// It does not count as free.
pub async fn an_unknown_price_is_refused_by_a_cap_in_dollars(rig: &LedgerRig) {
    let caps = Caps {
        micro_usd: Some(1_000_000),
        ..Caps::default()
    };
    rig.cap(RUN, caps).await;
    rig.cap(SWEEP, tokens(100)).await;
    let ask = |purses: &[&str]| Reservation {
        is_unpriced: true,
        ..reservation("a", purses, 1)
    };
    let answers = rig.ledger.reserve(&[ask(&[RUN]), ask(&[SWEEP])]).await;
    let answers = answers.expect("answers");
    assert!(matches!(&answers[0], Reserved::Refused { purse, .. } if purse == RUN));
    assert_eq!(answers[1], Reserved::Held);
}

/// Up, down, and away.
pub async fn caps_may_be_moved(rig: &LedgerRig) {
    rig.cap(RUN, tokens(10)).await;
    assert_eq!(rig.reserve("a", &[RUN], 11).await, refused(RUN, "tokens"));
    rig.cap(RUN, tokens(20)).await;
    assert_eq!(rig.reserve("a", &[RUN], 11).await, Reserved::Held);
    rig.cap(RUN, tokens(5)).await;
    assert_eq!(rig.reserve("b", &[RUN], 1).await, wait(RUN));
    rig.settle("a", &[RUN], amount(8)).await;
    assert_eq!(rig.reserve("b", &[RUN], 1).await, refused(RUN, "tokens"));
    rig.cap(RUN, Caps::default()).await;
    assert_eq!(rig.reserve("b", &[RUN], 1_000).await, Reserved::Held);
}

/// A generator of numbers, so that a schedule can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Reserve, settle, crash, wait: in any order, by many.
pub async fn no_schedule_exceeds_a_cap(rig: &LedgerRig) {
    const CAP: u64 = 5_000;
    for seed in 1..=5u64 {
        let purse = format!("run/{seed}");
        let purses = [purse.as_str(), SWEEP];
        rig.cap(&purse, tokens(CAP)).await;
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut open: Vec<(String, u64)> = Vec::new();
        let (mut paid, mut refusals) = (0, 0);
        for turn in 0..400 {
            match dice.roll(10) {
                0..6 => {
                    let (id, most) = (format!("{seed}/{turn}"), 1 + dice.roll(400));
                    match rig.reserve(&id, &purses, most).await {
                        Reserved::Held => open.push((id, most)),
                        Reserved::Refused { .. } => refusals += 1,
                        Reserved::Wait { .. } => assert!(!open.is_empty()),
                    }
                }
                6..9 if !open.is_empty() => {
                    let at = dice.roll(open.len() as u64);
                    let (id, most) = open.swap_remove(usize::try_from(at).unwrap_or(0));
                    let used = dice.roll(most + 1);
                    paid += used;
                    rig.settle(&id, &purses, amount(used)).await;
                }
                // A worker dies with all its calls; those were not paid for.
                9 => {
                    open.clear();
                    rig.clock.advance(TTL);
                }
                _ => {}
            }
            let (spent, reserved) = rig.tokens(&purse).await;
            assert!(spent + reserved <= CAP, "seed {seed}, turn {turn}");
            assert_eq!(spent, paid, "seed {seed}, turn {turn}");
            assert_eq!(reserved, open.iter().map(|(_, most)| most).sum::<u64>());
        }
        assert!(
            refusals > 0 && paid > CAP / 2,
            "seed {seed} reaches its cap"
        );
    }
}

/// Nothing leaks.
pub async fn a_thousand_crashes_leave_nothing_reserved(rig: &LedgerRig) {
    rig.cap(RUN, tokens(10_000)).await;
    for crash in 0..1_000 {
        let id = format!("crash/{crash}");
        assert_eq!(rig.reserve(&id, &[RUN, SWEEP], 7).await, Reserved::Held);
        if crash % 100 == 0 {
            rig.clock.advance(TTL / 2);
        }
    }
    rig.clock.advance(TTL);
    for purse in [RUN, SWEEP] {
        let balance = rig.balance(purse).await;
        assert_eq!(balance.reserved, Amount::default());
        assert_eq!(balance.spent, Amount::default());
    }
    assert_eq!(rig.reserve("last", &[RUN], 10_000).await, Reserved::Held);
}

/// For a day, and then no more.
pub async fn late_settlements_are_remembered_for_a_day(rig: &LedgerRig) {
    for id in ["a", "b"] {
        assert_eq!(rig.reserve(id, &[RUN], 9).await, Reserved::Held);
    }
    rig.clock.advance(TTL);
    assert_eq!(rig.tokens(RUN).await, (0, 0));
    rig.clock.advance(DAY - MS);
    rig.settle("a", &[RUN], amount(1)).await;
    assert_eq!(rig.tokens(RUN).await, (1, 0));
    rig.clock.advance(MS);
    rig.settle("b", &[RUN], amount(1)).await;
    assert_eq!(rig.tokens(RUN).await, (1, 0));
}

/// Up to 2^53, and beyond what 32 bits hold.
pub async fn large_amounts_are_exact(rig: &LedgerRig) {
    const LARGE: u64 = (1 << 52) - 1;
    let caps = Caps {
        tokens: Some(LARGE + 1),
        ..Caps::default()
    };
    rig.cap(RUN, caps).await;
    let large = Amount {
        requests: 1,
        prompt_tokens: LARGE,
        completion_tokens: 0,
        micro_usd: LARGE,
    };
    let asked = Reservation {
        most: large,
        ..reservation("a", &[RUN], 0)
    };
    assert_eq!(rig.ledger.reserve(&[asked]).await, Ok(vec![Reserved::Held]));
    rig.settle("a", &[RUN], large).await;
    assert_eq!(rig.balance(RUN).await.spent, large);
    assert_eq!(rig.reserve("b", &[RUN], 2).await, refused(RUN, "tokens"));
    assert_eq!(rig.reserve("b", &[RUN], 1).await, Reserved::Held);
}
