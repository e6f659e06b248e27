//! Caps, rates and copies, over a model whose times and answers are chosen.

mod soak;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32};

use async_trait::async_trait;
use skillopt_backends::{Message, Role};
use skillopt_core::job::{Price, Usage};
use skillopt_queue::ledger::{Amount, Balance, Caps};
use skillopt_queue::rates::Outcome;
use skillopt_queue::{MemoryLedger, MemoryRates, SystemClock};
use skillopt_runtime::clock::Stopwatch;
use tokio::task::JoinSet;

use super::*;

const MAX_TOKENS: u32 = 1_000;

/// Answers after the time that is due, or throttles.
#[derive(Default)]
struct Model {
    calls: AtomicU32,
    times: Mutex<VecDeque<Duration>>,
    throttled: AtomicU32,
    /// Whether it says nothing of tokens.
    is_silent: AtomicBool,
    /// Whether its server only fails.
    is_down: AtomicBool,
}

#[async_trait]
impl ChatModel for Model {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply, CallError> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        let time = lock(&self.times).pop_front();
        tokio::time::sleep(time.unwrap_or(Duration::from_millis(10))).await;
        if self.is_down.load(Ordering::Relaxed) {
            return Err(CallError::Server {
                endpoint: "http://models".to_owned(),
                status: 503,
                retry_after: None,
                detail: "down".to_owned(),
            });
        }
        let left = self.throttled.load(Ordering::Relaxed);
        if left > 0 {
            self.throttled.store(left - 1, Ordering::Relaxed);
            return Err(CallError::Throttled {
                endpoint: "http://models".to_owned(),
                retry_after: Some(Duration::from_secs(1)),
            });
        }
        let usage = Usage {
            calls: 1,
            prompt_tokens: 20,
            completion_tokens: u64::from(n * 37 % MAX_TOKENS),
            ..Usage::default()
        };
        let usage = if self.is_silent.load(Ordering::Relaxed) {
            Usage::default()
        } else {
            usage
        };
        Ok(ChatReply::text(n.to_string(), usage))
    }
}

struct Rig {
    ledger: MemoryLedger,
    meter: Arc<Meter>,
    model: Model,
    profile: Profile,
    payer: Payer,
}

impl Rig {
    fn new(is_capped: bool) -> Self {
        let clock = Arc::new(SystemClock::new());
        let ledger = MemoryLedger::new(clock.clone());
        let rates: Arc<dyn Rates> = Arc::new(MemoryRates::new(clock));
        Self {
            meter: Arc::new(Meter::new("w1", Arc::new(ledger.clone()), Some(rates))),
            ledger,
            model: Model::default(),
            profile: Profile {
                role: "target".to_owned(),
                backend: "openai_compatible".to_owned(),
                model: "m".to_owned(),
                endpoint: "http://models".to_owned(),
                temperature: None,
                max_tokens: 0,
                reasoning_effort: String::new(),
                settings: serde_json::Map::new(),
            },
            payer: Payer {
                run: "r1".to_owned(),
                sweep: String::new(),
                tenant: "t1".to_owned(),
                price: Some(Price {
                    input: 1_000_000,
                    output: 2_000_000,
                    ..Price::default()
                }),
                is_capped,
            },
        }
    }

    async fn call(&self, id: &str, hedge_permille: u32) -> Metered {
        let which = Which {
            id,
            payer: Some(&self.payer),
            profile: &self.profile,
            hedge_permille,
        };
        self.meter.call(which, &self.model, &request()).await
    }

    async fn balance(&self, purse: &str) -> Balance {
        self.ledger.balances(&[purse.to_owned()]).await.unwrap()[0]
    }
}

fn request() -> ChatRequest {
    let messages = vec![Message::text(Role::User, "What is the capital of France?")];
    ChatRequest::new("m", messages, MAX_TOKENS, Duration::from_secs(60))
}

/// The price of a call at most.
fn most(rig: &Rig) -> Amount {
    worst(&request(), rig.payer.price)
}

/// A cap worth ten calls at most; 32 callers that want 10 each.
#[tokio::test(start_paused = true)]
async fn what_is_billed_stays_within_the_cap_and_the_rest_is_refused() {
    let rig = Arc::new(Rig::new(true));
    let cap = most(&rig).micro_usd * 10;
    let caps = Caps {
        micro_usd: Some(cap),
        ..Caps::default()
    };
    rig.ledger.set_caps("run/r1", caps).await.unwrap();
    let (mut callers, ticker) = (JoinSet::new(), Arc::clone(&rig));
    let mut care = JoinSet::new();
    care.spawn(async move { ticker.meter.run().await });
    for caller in 0..32 {
        let rig = Arc::clone(&rig);
        callers.spawn(async move {
            let (mut paid, mut refused) = (0, 0);
            for call in 0..10 {
                loop {
                    match rig.call(&format!("{caller}/{call}"), 0).await {
                        Metered::Made(answer) => {
                            paid += cost::spent(answer.unwrap().usage, rig.payer.price).micro_usd;
                            break;
                        }
                        Metered::Not(Instead::Later { wait, .. }) => {
                            tokio::time::sleep(wait).await;
                        }
                        Metered::Not(Instead::Refused(failure)) => {
                            assert_eq!(failure.class, FailureClass::Budget);
                            assert!(failure.cause.contains("`run/r1`"), "{}", failure.cause);
                            refused += 1;
                            break;
                        }
                    }
                }
            }
            (paid, refused)
        });
    }
    let (mut paid, mut refused) = (0, 0);
    while let Some(ended) = callers.join_next().await {
        let ended = ended.unwrap();
        (paid, refused) = (paid + ended.0, refused + ended.1);
    }
    care.shutdown().await;
    rig.meter.flush().await.unwrap();
    let balance = rig.balance("run/r1").await;
    assert!(paid <= cap && paid > cap / 2, "{paid} of {cap}");
    assert_eq!(balance.spent.micro_usd, paid);
    assert_eq!(balance.reserved, Amount::default());
    assert_eq!(balance.spent.requests + refused, 320);
    assert_eq!(rig.balance("tenant/t1").await.spent, balance.spent);
}

/// What nobody caps costs no question, and is counted in one batch.
#[tokio::test(start_paused = true)]
async fn uncapped_calls_are_counted_in_batches() {
    let rig = Rig::new(false);
    for call in 0..5 {
        let made = rig.call(&call.to_string(), 0).await;
        assert!(matches!(made, Metered::Made(Ok(_))), "{made:?}");
    }
    assert_eq!(rig.balance("run/r1").await.spent, Amount::default());
    rig.meter.flush().await.unwrap();
    rig.meter.flush().await.unwrap();
    let spent = rig.balance("run/r1").await.spent;
    assert_eq!((spent.requests, spent.prompt_tokens), (5, 100));
    assert!(spent.micro_usd > 100);
}

/// A cap holds also over a provider that does not count.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_counted_is_settled_at_the_most() {
    for is_capped in [true, false] {
        let rig = Rig::new(is_capped);
        rig.model.is_silent.store(true, Ordering::Relaxed);
        assert!(matches!(rig.call("a", 0).await, Metered::Made(Ok(_))));
        rig.meter.flush().await.unwrap();
        let balance = rig.balance("run/r1").await;
        assert_eq!(balance.reserved, Amount::default());
        let once = Amount {
            requests: 1,
            ..Amount::default()
        };
        let expected = if is_capped { most(&rig) } else { once };
        assert_eq!(balance.spent, expected);
    }
}

/// It may have been paid, with as long an answer as was allowed.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_settled_at_what_may_have_been_billed() {
    let rig = Rig::new(true);
    lock(&rig.model.times).push_back(Duration::from_secs(50));
    let short = Duration::from_secs(1);
    let dropped = tokio::time::timeout(short, rig.call("a", 0)).await;
    assert!(dropped.is_err());
    assert_eq!(rig.balance("run/r1").await.reserved, most(&rig));
    rig.meter.flush().await.unwrap();
    let balance = rig.balance("run/r1").await;
    assert_eq!(balance.reserved, Amount::default());
    assert_eq!(balance.spent, most(&rig));
}

/// One caller's 429 holds up the next, which waits in its slot if that is short; the job of the
/// first goes back and nothing is counted against it.
#[tokio::test]
async fn a_throttled_call_goes_back_and_slows_the_others() {
    let rig = Rig::new(false);
    rig.model.throttled.store(1, Ordering::Relaxed);
    let first = rig.call("a", 0).await;
    let Metered::Not(Instead::Later { wait, failure }) = first else {
        panic!("{first:?}");
    };
    assert_eq!(wait, Duration::from_secs(1));
    assert_eq!(failure.class, FailureClass::Provider);
    let watch = Stopwatch::start();
    let second = rig.call("b", 0).await;
    assert!(matches!(second, Metered::Made(Ok(_))), "{second:?}");
    assert!(watch.elapsed() >= Duration::from_millis(900), "it waited");
}

/// A long pause is not spent in the slot, and is no call.
#[tokio::test(start_paused = true)]
async fn a_long_pause_sends_jobs_back() {
    let rig = Rig::new(true);
    let rates = rig.meter.accounts.rates.clone().unwrap();
    let minute = Duration::from_secs(60);
    let throttled = Outcome::Throttled(Some(minute));
    let done = ("http://models".to_owned(), "x".to_owned(), throttled);
    rates.report(&[done]).await.unwrap();
    rig.meter.accounts.look().await;
    let held = rig.call("a", 0).await;
    let Metered::Not(Instead::Later { wait, failure }) = held else {
        panic!("{held:?}");
    };
    assert!(wait > minute / 2 && wait <= minute);
    assert!(failure.cause.contains("asked to wait"), "{}", failure.cause);
    assert_eq!(rig.model.calls.load(Ordering::Relaxed), 0);
    rig.meter.flush().await.unwrap();
    let balance = rig.balance("run/r1").await;
    assert_eq!((balance.spent, balance.reserved), Default::default());
}

/// A call that hangs is overtaken by its copy; the share is kept, and the loser is counted.
#[tokio::test(start_paused = true)]
async fn a_copy_overtakes_a_call_that_hangs() {
    let rig = Rig::new(false);
    for call in 0..40 {
        rig.call(&format!("w{call}"), 0).await;
    }
    let hang = Duration::from_secs(50);
    lock(&rig.model.times).push_back(hang);
    let started = tokio::time::Instant::now();
    let made = rig.call("hangs", 100).await;
    assert!(matches!(made, Metered::Made(Ok(_))), "{made:?}");
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!(rig.model.calls.load(Ordering::Relaxed), 42);
    rig.meter.flush().await.unwrap();
    let spent = rig.balance("run/r1").await.spent;
    assert_eq!(spent.requests, 42, "the copy is counted");
    // Every call hangs: at most one in ten is made twice.
    lock(&rig.model.times).extend(std::iter::repeat_n(hang, 1_000));
    for call in 0..60 {
        rig.call(&format!("h{call}"), 100).await;
    }
    let calls = rig.model.calls.load(Ordering::Relaxed);
    assert!((103..=111).contains(&calls), "{calls}");
}

/// A copy may hang as well: it is overtaken by another, within the same share.
#[tokio::test(start_paused = true)]
async fn a_copy_that_hangs_is_overtaken_too() {
    let rig = Rig::new(false);
    for call in 0..40 {
        rig.call(&format!("w{call}"), 0).await;
    }
    let hang = Duration::from_secs(50);
    lock(&rig.model.times).extend([hang; 3]);
    let started = tokio::time::Instant::now();
    let made = rig.call("hangs", 100).await;
    assert!(matches!(made, Metered::Made(Ok(_))), "{made:?}");
    assert!(started.elapsed() < Duration::from_secs(1));
    rig.meter.flush().await.unwrap();
    let spent = rig.balance("run/r1").await.spent;
    assert_eq!(spent.requests, 44, "each copy is counted");
    // One is left of four: the call whose copy hangs after that is waited for.
    lock(&rig.model.times).extend([hang; 2]);
    rig.call("is waited for", 100).await;
    assert!(started.elapsed() > hang);
    assert_eq!(rig.model.calls.load(Ordering::Relaxed), 46);
}

/// A payer with a cap pays for no copy.
#[tokio::test(start_paused = true)]
async fn a_cap_pays_for_no_copies() {
    let rig = Rig::new(true);
    for call in 0..40 {
        rig.call(&format!("w{call}"), 500).await;
    }
    lock(&rig.model.times).push_back(Duration::from_secs(50));
    rig.call("hangs", 500).await;
    assert_eq!(rig.model.calls.load(Ordering::Relaxed), 41);
}

/// An account that fails every call is given up after the time that was said, with its last words.
#[tokio::test(start_paused = true)]
async fn an_account_that_fails_all_calls_pauses_its_runs_after_the_time_that_was_said() {
    let rig = Rig::new(false);
    let meter = Arc::into_inner(rig.meter).expect("nobody else has it");
    let meter = Arc::new(meter.with_failing_max(Duration::from_secs(60)));
    let rig = Rig { meter, ..rig };
    rig.model.is_down.store(true, Ordering::Relaxed);
    let (mut tries, mut held) = (0, 0);
    let refused = loop {
        tries += 1;
        rig.meter.accounts.look().await;
        let wait = match rig.call(&tries.to_string(), 0).await {
            Metered::Made(Err(CallError::Server { .. })) => Duration::from_secs(1),
            Metered::Not(Instead::Later { wait, .. }) => {
                held += 1;
                wait
            }
            Metered::Not(Instead::Refused(failure)) => break failure,
            other => panic!("{other:?}"),
        };
        tokio::time::sleep(wait).await;
    };
    assert_eq!(refused.class, FailureClass::Provider);
    for words in ["answered no call for", "HTTP 503", "then resume"] {
        assert!(refused.cause.contains(words), "{}", refused.cause);
    }
    assert!(held >= 2, "its circuit was open {held} times");
    let calls = rig.model.calls.load(Ordering::Relaxed);
    assert!((10..=20).contains(&calls), "{calls} calls were made");
}

/// It is there, and a person has to know when it will do something again.
#[tokio::test(start_paused = true)]
async fn a_wait_of_hours_is_no_wait_of_a_run() {
    let rig = Rig::new(false);
    let error = CallError::Throttled {
        endpoint: "http://models".to_owned(),
        retry_after: Some(Duration::from_secs(2 * 3_600)),
    };
    let instead = rig.meter.accounts.throttled("http://models", &error);
    assert!(instead.is_none(), "{instead:?}");
}
