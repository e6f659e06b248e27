//! What one worker is told by a provider holds for all.

use std::time::Duration;

use super::{MS, RatesRig, TTL};
use crate::clock::{Clock as _, Timestamp};
use crate::rates::{Account, Ask, Go, Hold, Limits, Outcome};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn limits() -> Limits {
    Limits::default()
}

impl RatesRig {
    async fn limit(&self, limits: Limits) {
        self.rates.set_limits("a", limits).await.expect("limits");
    }

    async fn ask_of(&self, account: &str, call: &str, tokens: u64) -> Go {
        let asked = [Ask {
            account: account.to_owned(),
            call: call.to_owned(),
            tokens,
            lifetime: TTL,
        }];
        let mut answers = self.rates.ask(&asked).await.expect("an answer");
        answers.pop().expect("one answer")
    }

    async fn ask(&self, call: &str) -> Go {
        self.ask_of("a", call, 10).await
    }

    async fn report(&self, call: &str, outcome: Outcome) {
        let done = [("a".to_owned(), call.to_owned(), outcome)];
        self.rates.report(&done).await.expect("a report");
    }

    /// How account `a` is doing, if there is anything to say.
    async fn account(&self) -> Option<Account> {
        self.rates.accounts().await.expect("accounts").pop()
    }

    /// Makes `n` calls that are answered.
    async fn answer(&self, n: usize) {
        for i in 0..n {
            let call = format!("fine{i}");
            assert_eq!(self.ask(&call).await, Go::Now);
            self.report(&call, Outcome::Answered(1)).await;
        }
    }

    async fn held_up(&self, call: &str, expected: Hold) -> Timestamp {
        match self.ask(call).await {
            Go::NotBefore { at, wait, why } => {
                assert_eq!(why, expected);
                assert_eq!(self.clock.now().plus(wait), at);
                assert!(at > self.clock.now(), "a time that is over is no answer");
                at
            }
            Go::Now => panic!("`{call}` may go, though {expected:?} should hold it up"),
        }
    }

    fn advance_to(&self, at: Timestamp) {
        self.clock.advance(at.since(self.clock.now()));
    }
}

/// Nothing is known of it, so workers need not ask.
pub async fn an_account_without_limits_or_trouble_is_free(rig: &RatesRig) {
    assert_eq!(rig.account().await, None);
    for i in 0..100 {
        assert_eq!(rig.ask(&format!("c{i}")).await, Go::Now);
    }
    assert_eq!(rig.account().await, None);
    for i in 0..100 {
        rig.report(&format!("c{i}"), Outcome::Answered(5)).await;
    }
    assert_eq!(rig.account().await, None);
}

/// No minute sees more than its limit, and all of it is used.
pub async fn requests_a_minute_are_kept(rig: &RatesRig) {
    let requests_per_minute = Some(60);
    rig.limit(Limits {
        requests_per_minute,
        ..limits()
    })
    .await;
    let mut granted: Vec<Timestamp> = Vec::new();
    for step in 0..1_800 {
        let call = format!("c{step}");
        if rig.ask(&call).await == Go::Now {
            granted.push(rig.clock.now());
            rig.report(&call, Outcome::Answered(1)).await;
        }
        rig.clock.advance(Duration::from_millis(100));
    }
    for (i, at) in granted.iter().enumerate() {
        let minute = granted[i..].iter().take_while(|t| t.since(*at) < MINUTE);
        assert!(minute.count() <= 60);
    }
    assert!((165..=180).contains(&granted.len()), "{}", granted.len());
    let mut more = 0;
    while rig.ask(&format!("d{more}")).await == Go::Now {
        more += 1;
    }
    assert!(more <= 3, "{more} at once");
    rig.held_up("next", Hold::Requests).await;
    let account = rig.account().await.expect("it has limits");
    assert!((50..=60).contains(&account.requests), "{account:?}");
}

/// Small calls fit into what large ones leave; one larger than all comes alone, and is paid back.
pub async fn tokens_a_minute_are_kept(rig: &RatesRig) {
    let tokens_per_minute = Some(60_000);
    rig.limit(Limits {
        tokens_per_minute,
        ..limits()
    })
    .await;
    assert_eq!(rig.ask_of("a", "large", 30_000).await, Go::Now);
    rig.report("large", Outcome::Answered(30_000)).await;
    let at = rig.held_up("small", Hold::Tokens).await;
    assert!(at.since(rig.clock.now()) >= SECOND * 5);
    rig.clock.advance(SECOND * 20);
    rig.held_up("small", Hold::Tokens).await;
    rig.clock.advance(SECOND * 10);
    assert_eq!(rig.ask("small").await, Go::Now);
    let account = rig.account().await.expect("it has limits");
    assert_eq!(account.limits.tokens_per_minute, tokens_per_minute);
}

/// The worst is taken, what it was remains.
pub async fn what_was_not_used_is_given_back(rig: &RatesRig) {
    let tokens_per_minute = Some(60_000);
    rig.limit(Limits {
        tokens_per_minute,
        ..limits()
    })
    .await;
    for i in 0..50 {
        let call = format!("c{i}");
        assert_eq!(rig.ask_of("a", &call, 3_000).await, Go::Now, "{call}");
        let outcome = if i % 2 == 0 {
            Outcome::Answered(1)
        } else {
            Outcome::Nothing
        };
        rig.report(&call, outcome).await;
        rig.clock.advance(MS * 10);
    }
}

/// A place is free when its call is over, however it went.
pub async fn calls_at_once_are_kept(rig: &RatesRig) {
    let concurrency = Some(2);
    rig.limit(Limits {
        concurrency,
        ..limits()
    })
    .await;
    assert_eq!(rig.ask("c1").await, Go::Now);
    assert_eq!(rig.ask("c2").await, Go::Now);
    rig.held_up("c3", Hold::Concurrency).await;
    let account = rig.account().await.expect("it has limits");
    assert_eq!((account.in_flight, account.allowed), (2, Some(2)));
    rig.report("c1", Outcome::Answered(1)).await;
    assert_eq!(rig.ask("c3").await, Go::Now);
    rig.report("c2", Outcome::Nothing).await;
    assert_eq!(rig.ask("c4").await, Go::Now);
    rig.held_up("c5", Hold::Concurrency).await;
    rig.limit(limits()).await;
    assert_eq!(rig.ask("c5").await, Go::Now, "limits may be taken away");
}

/// The answer got lost, the place is taken.
pub async fn a_repeated_ask_takes_once(rig: &RatesRig) {
    let (requests_per_minute, concurrency) = (Some(1), Some(1));
    rig.limit(Limits {
        requests_per_minute,
        concurrency,
        ..limits()
    })
    .await;
    for _ in 0..3 {
        assert_eq!(rig.ask("c1").await, Go::Now);
    }
    let account = rig.account().await.expect("it has limits");
    assert_eq!((account.in_flight, account.requests), (1, 1));
}

/// Its worker died.
pub async fn a_lost_call_frees_its_place(rig: &RatesRig) {
    let concurrency = Some(1);
    rig.limit(Limits {
        concurrency,
        ..limits()
    })
    .await;
    assert_eq!(rig.ask("c1").await, Go::Now);
    rig.clock.advance(TTL - MS);
    rig.held_up("c2", Hold::Concurrency).await;
    rig.clock.advance(MS);
    assert_eq!(rig.ask("c2").await, Go::Now);
}

/// The provider's wait holds for every worker, up to its end.
pub async fn a_throttled_call_pauses_all(rig: &RatesRig) {
    assert_eq!(rig.ask("c1").await, Go::Now);
    rig.report("c1", Outcome::Throttled(Some(SECOND * 7))).await;
    let until = rig.clock.now().plus(SECOND * 7);
    for call in ["c2", "c3"] {
        assert_eq!(rig.held_up(call, Hold::Paused).await, until);
    }
    let other = rig.ask_of("b", "c2", 1).await;
    assert_eq!(other, Go::Now, "another account is another matter");
    rig.report("c9", Outcome::Throttled(Some(SECOND))).await;
    assert_eq!(
        rig.held_up("c2", Hold::Paused).await,
        until,
        "the later end counts"
    );
    let account = rig.account().await.expect("it is in trouble");
    assert_eq!(account.paused_until_ms, until.as_ms());
    assert_eq!(account.throttled, 2);
    rig.advance_to(until);
    assert_eq!(rig.ask("c2").await, Go::Now);
    rig.report("c2", Outcome::Throttled(Some(Duration::from_secs(9_999))))
        .await;
    let at = rig.held_up("c3", Hold::Paused).await;
    assert!(
        at.since(rig.clock.now()) <= MINUTE * 2,
        "no day is lost to a slip"
    );
}

/// Without a wait by the provider: longer with each further one, never twice the same.
pub async fn pauses_without_a_hint_grow_and_are_spread(rig: &RatesRig) {
    let mut pauses = Vec::new();
    for i in 0..16 {
        let call = format!("c{i}");
        assert_eq!(rig.ask(&call).await, Go::Now);
        rig.report(&call, Outcome::Throttled(None)).await;
        // A second one of the same moment is the same trouble.
        rig.report("other", Outcome::Throttled(None)).await;
        let at = rig.held_up("next", Hold::Paused).await;
        pauses.push(at.since(rig.clock.now()));
        rig.advance_to(at);
    }
    assert!(pauses[0] <= SECOND / 2, "{pauses:?}");
    assert!(
        pauses.iter().all(|pause| *pause <= SECOND * 30),
        "{pauses:?}"
    );
    let late: Duration = pauses[8..].iter().sum();
    assert!(late > SECOND * 20, "{pauses:?}");
    let mut different = pauses.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() >= 12, "{pauses:?}");
    assert_eq!(rig.ask("last").await, Go::Now);
    rig.report("last", Outcome::Answered(1)).await;
    rig.report("new", Outcome::Throttled(None)).await;
    let at = rig.held_up("next", Hold::Paused).await;
    assert!(
        at.since(rig.clock.now()) <= SECOND / 2,
        "an answer ends the row"
    );
}

/// The first is taken seriously; but one in twenty is no sign that the provider has too much: only
/// that call waits.
pub async fn a_few_throttled_calls_among_many_pause_nobody(rig: &RatesRig) {
    rig.report("c", Outcome::Throttled(Some(SECOND))).await;
    rig.held_up("next", Hold::Paused).await;
    rig.clock.advance(SECOND);
    rig.answer(40).await;
    for _ in 0..10 {
        rig.report("c", Outcome::Throttled(Some(SECOND))).await;
        rig.answer(19).await;
    }
    let account = rig.account().await.expect("it is in trouble");
    assert_eq!((account.throttled, account.allowed), (11, None));
    for _ in 0..9 {
        rig.report("c", Outcome::Throttled(Some(SECOND))).await;
    }
    rig.held_up("next", Hold::Paused).await;
}

/// Many calls of one moment cut once; each answer gives a little back, until all is as before.
pub async fn throttling_cuts_once_and_recovery_is_steady(rig: &RatesRig) {
    let call = |i: usize| format!("c{i}");
    for i in 0..100 {
        assert_eq!(rig.ask(&call(i)).await, Go::Now);
    }
    for i in 0..30 {
        rig.report(&call(i), Outcome::Throttled(Some(SECOND))).await;
    }
    let allowed = |account: Option<Account>| account.and_then(|account| account.allowed);
    let cut = allowed(rig.account().await).expect("it was cut");
    assert!((50..=70).contains(&cut), "{cut} of 100");
    rig.clock.advance(SECOND);
    rig.held_up("next", Hold::Concurrency).await;
    for i in 30..100 {
        rig.report(&call(i), Outcome::Answered(1)).await;
    }
    let mut last = allowed(rig.account().await).expect("it is still less than before");
    assert!(last > cut);
    let mut answers = 0;
    while let Some(now) = allowed(rig.account().await) {
        assert!(now >= last && now <= last + 7, "{now} after {last}");
        last = now;
        rig.answer(1).await;
        answers += 1;
        assert!(answers < 1_000);
    }
    assert!(answers > 100, "not at once: {answers}");
    for i in 0..200 {
        assert_eq!(rig.ask(&format!("d{i}")).await, Go::Now);
    }
}

/// When nothing answers for a while, one call at a time finds out whether it does again.
pub async fn failures_open_the_circuit_and_one_probe_closes_it(rig: &RatesRig) {
    for _ in 0..20 {
        rig.report("c", Outcome::Failed).await;
    }
    assert_eq!(
        rig.ask("c").await,
        Go::Now,
        "a bad moment is not a dead provider"
    );
    rig.report("c", Outcome::Answered(1)).await;
    for i in 0..11 {
        assert_eq!(rig.ask(&format!("c{i}")).await, Go::Now);
        rig.report(&format!("c{i}"), Outcome::Failed).await;
        rig.clock.advance(SECOND / 5);
    }
    let first = rig.held_up("next", Hold::Paused).await;
    let pause = first.since(rig.clock.now());
    rig.advance_to(first);
    assert_eq!(rig.ask("probe1").await, Go::Now);
    rig.held_up("next", Hold::Paused).await;
    rig.report("probe1", Outcome::Failed).await;
    let second = rig.held_up("next", Hold::Paused).await;
    assert!(second.since(rig.clock.now()) > pause, "longer each time");
    rig.advance_to(second);
    assert_eq!(rig.ask("probe2").await, Go::Now);
    rig.report("probe2", Outcome::Nothing).await;
    assert_eq!(
        rig.ask("probe3").await,
        Go::Now,
        "a probe that was not made"
    );
    rig.report("probe3", Outcome::Answered(1)).await;
    for i in 0..9 {
        assert_eq!(rig.ask(&format!("d{i}")).await, Go::Now);
    }
    let account = rig.account().await.expect("it was in trouble");
    assert_eq!((account.failed, account.stuck_for_ms), (32, 0));
}

/// After a while the account is as free as any.
pub async fn trouble_is_forgotten(rig: &RatesRig) {
    rig.report("c", Outcome::Throttled(Some(SECOND))).await;
    rig.report("c", Outcome::Failed).await;
    let account = rig.account().await.expect("it is in trouble");
    assert_eq!((account.throttled, account.failed), (1, 1));
    rig.clock.advance(MINUTE);
    let account = rig.account().await.expect("it is in trouble");
    assert_eq!(account.stuck_for_ms, 60_000, "nothing was answered since");
    rig.clock.advance(MINUTE * 20);
    assert_eq!(rig.account().await, None);
}

/// They do not all come back at one moment.
pub async fn those_who_wait_are_spread(rig: &RatesRig) {
    let requests_per_minute = Some(600);
    rig.limit(Limits {
        requests_per_minute,
        ..limits()
    })
    .await;
    let mut granted = 0;
    while rig.ask(&format!("c{granted}")).await == Go::Now {
        granted += 1;
    }
    let mut times = Vec::new();
    for i in 0..20 {
        times.push(rig.held_up(&format!("d{i}"), Hold::Requests).await);
    }
    assert!(times.is_sorted());
    let span = times[19].since(times[0]);
    assert!(
        span >= SECOND && span <= SECOND * 4,
        "{span:?} for 20 of 10 a second"
    );
}

/// In order, those with limits and those in trouble.
pub async fn accounts_are_told_by_name(rig: &RatesRig) {
    for name in ["c", "a", "b"] {
        let concurrency = Some(3);
        let limits = Limits {
            concurrency,
            ..limits()
        };
        rig.rates.set_limits(name, limits).await.expect("limits");
    }
    let throttled = ("ab".to_owned(), "x".to_owned(), Outcome::Throttled(None));
    rig.rates.report(&[throttled]).await.expect("a report");
    rig.rates.set_limits("c", limits()).await.expect("limits");
    let accounts = rig.rates.accounts().await.expect("accounts");
    let names: Vec<&str> = accounts.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["a", "ab", "b"]);
}
