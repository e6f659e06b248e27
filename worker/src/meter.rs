//! Calls of models under caps and rates that all workers share.
//!
//! Before a call whose payer has a cap, its price at most is reserved; after it, what it was is
//! settled. An account that has limits or is in trouble is asked first; others cost nothing. What
//! nobody caps is counted in batches.

mod accounts;
mod cost;
mod gathered;
mod instead;
mod noted;
mod open;
mod toll;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest};
use skillopt_core::job::{Failure, FailureClass, Payer, Profile};
use skillopt_queue::ledger::{Amount, Ledger, Reservation, Reserved, Settlement, Use};
use skillopt_queue::rates::{Ask, Rates};
use skillopt_queue::store;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::accounts::{Accounts, WAIT_MAX};
use self::cost::{purses, worst};
use self::gathered::Gathered;
use self::open::Open;
use crate::hedge::Hedge;

pub(crate) use self::instead::Instead;
pub(crate) use self::noted::Noted;
pub(crate) use self::toll::{Task, Toll};

/// Between two looks at which accounts have limits or are in trouble.
const POLL: Duration = Duration::from_millis(250);
/// What is counted is told to the ledger this often.
const FLUSH: Duration = Duration::from_millis(500);
/// A reservation outlives the longest call by this, unless nobody is waited for that long.
const MARGIN: Duration = Duration::from_secs(30);
/// When to ask again if a cap may have room once calls under way have ended.
const CAP_WAIT: Duration = Duration::from_secs(1);
/// How a call ended.
#[derive(Debug)]
pub(crate) enum Metered {
    /// It was made.
    Made(Result<ChatReply, CallError>),
    /// It was not, and this has to become of its job.
    Not(Instead),
}

/// Which call.
#[derive(Clone, Copy)]
pub(crate) struct Which<'a> {
    /// Unique: ticket and turn.
    pub(crate) id: &'a str,
    pub(crate) payer: Option<&'a Payer>,
    pub(crate) profile: &'a Profile,
    /// Calls of a thousand that may be made twice.
    pub(crate) hedge_permille: u32,
}

/// Shares caps and rates with all other workers.
pub struct Meter {
    ledger: Arc<dyn Ledger>,
    accounts: Accounts,
    /// Begins the names of settlements.
    name: String,
    batches: AtomicU64,
    gathered: Mutex<Gathered>,
    /// Something reserved waits to be settled, or an account to hear how a call went.
    is_due: Notify,
    hedge: Hedge,
    margin: Duration,
}

impl Meter {
    /// Makes a meter over `ledger`; `name` is unique, also after a restart. Without `rates` an
    /// account is as fast as it is.
    #[must_use]
    pub fn new(name: &str, ledger: Arc<dyn Ledger>, rates: Option<Arc<dyn Rates>>) -> Self {
        Self {
            ledger,
            accounts: Accounts::new(rates),
            name: name.to_owned(),
            batches: AtomicU64::new(0),
            gathered: Mutex::default(),
            is_due: Notify::new(),
            hedge: Hedge::default(),
            margin: MARGIN,
        }
    }

    /// Says after what time a worker that is not heard of is taken for gone: what it held for calls is
    /// not held much longer than these can take.
    #[must_use]
    pub fn with_lease_ttl(mut self, ttl: Duration) -> Self {
        self.margin = MARGIN.min(ttl);
        self
    }

    /// Looks at accounts and tells the ledger what was counted, until dropped. Call
    /// [`Meter::flush`] afterwards.
    pub async fn run(&self) {
        let mut poll = tokio::time::interval(POLL);
        let mut flush = tokio::time::interval(FLUSH);
        for interval in [&mut poll, &mut flush] {
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                () = self.is_due.notified() => {
                    self.accounts.tell().await;
                    drop(self.flush_reserved().await);
                }
                // What could not be told is told at the next time.
                _ = flush.tick() => drop(self.flush().await),
                _ = poll.tick() => self.accounts.look().await,
            }
        }
    }

    /// Tells the ledger everything that was counted.
    ///
    /// # Errors
    /// The ledger cannot be reached; what was counted is kept for the next time.
    pub async fn flush(&self) -> Result<(), store::Error> {
        self.accounts.tell().await;
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        let done = lock(&self.gathered).take_all(&format!("{}/{batch}", self.name));
        self.settle(done).await
    }

    async fn flush_reserved(&self) -> Result<(), store::Error> {
        let done = lock(&self.gathered).take_reserved();
        self.settle(done).await
    }

    async fn settle(&self, done: Vec<Settlement>) -> Result<(), store::Error> {
        if done.is_empty() {
            return Ok(());
        }
        // Under the same names, so that what the ledger knows already counts once.
        let unsent = Unsent {
            meter: self,
            done: Some(done),
        };
        let told = self
            .ledger
            .settle(unsent.done.as_deref().unwrap_or_default());
        let told = told.await;
        if told.is_ok() {
            unsent.forget();
        }
        told
    }

    /// Makes a call as soon as caps and rates allow it.
    ///
    /// # Cancel safety
    /// A dropped call is settled at the most it can have come to, for it may have been paid.
    pub(crate) async fn call(
        self: &Arc<Self>,
        which: Which<'_>,
        model: &dyn ChatModel,
        request: &ChatRequest,
    ) -> Metered {
        let price = which.payer.and_then(|payer| payer.price);
        let wish = Wish {
            of: of(which, request),
            most: worst(request, price),
            lifetime: request.timeout + WAIT_MAX,
            patience: WAIT_MAX,
        };
        let open = match self.admit(which, wish).await {
            Ok(open) => open,
            Err(instead) => return Metered::Not(instead),
        };
        let account = which.profile.account();
        let since = Instant::now();
        let answer = self.make(which, model, request).await;
        open.close(&answer);
        if answer.is_ok() {
            self.hedge.answered(&request.model, since.elapsed());
        }
        self.accounts.tell().await;
        let error = answer.as_ref().err();
        let instead = error.and_then(|error| self.accounts.throttled(account, error));
        instead.map_or(Metered::Made(answer), Metered::Not)
    }

    /// Waits until caps and rates allow a call.
    ///
    /// # Cancel safety
    /// What was held for it is given back.
    async fn admit(self: &Arc<Self>, which: Which<'_>, wish: Wish) -> Result<Open, Instead> {
        if lock(&self.gathered).is_full() {
            return Err(Instead::later(
                CAP_WAIT,
                "the ledger has not been reached for a while".to_owned(),
            ));
        }
        let ask = Ask {
            account: which.profile.account().to_owned(),
            call: which.id.to_owned(),
            tokens: wish.most.tokens(),
            lifetime: wish.lifetime + self.margin,
        };
        let patience = wish.patience;
        let mut open = self.reserve(which, wish).await?;
        match self.accounts.wait_for_turn(&ask, patience).await {
            Some(instead) => Err(instead),
            None => {
                open.is_made = true;
                Ok(open)
            }
        }
    }

    async fn reserve(self: &Arc<Self>, which: Which<'_>, wish: Wish) -> Result<Open, Instead> {
        let model = wish.of.model.clone();
        let open = Open::new(self, which, wish.of, wish.most);
        let Some(payer) = which.payer.filter(|payer| payer.is_capped) else {
            return Ok(open);
        };
        // Made before the question, so that whatever is held is given back if we are dropped.
        let asked = Reservation {
            id: which.id.to_owned(),
            purses: purses(payer),
            most: wish.most,
            is_unpriced: payer.price.is_none(),
            lifetime: wish.lifetime + self.margin,
        };
        match self.ledger.reserve(&[asked]).await.map(|mut all| all.pop()) {
            Ok(Some(Reserved::Held)) => Ok(open),
            Ok(Some(Reserved::Wait { purse })) => {
                open.forget();
                let cause = format!("`{purse}` is nearly used up; calls under way may leave some");
                Err(Instead::later(CAP_WAIT, cause))
            }
            Ok(Some(Reserved::Refused { purse, what })) => {
                open.forget();
                let help = cost::raise(&purse, what);
                let cause = format!(
                    "the cap of {what} of `{purse}` does not allow another call of `{model}`; {help}"
                );
                let class = FailureClass::Budget;
                Err(Instead::Refused(Failure { class, cause }))
            }
            // Whether it is held is not known: it is given back.
            Ok(None) => Err(Instead::later(
                CAP_WAIT,
                "the ledger gave no answer".to_owned(),
            )),
            Err(e) => Err(Instead::later(
                CAP_WAIT,
                format!("the ledger cannot be reached: {e}"),
            )),
        }
    }

    /// Makes the call, and copies of it while it takes unusually long and that is wanted. A copy may
    /// hang as well, so each gets the patience that the first had.
    async fn make(
        self: &Arc<Self>,
        which: Which<'_>,
        model: &dyn ChatModel,
        request: &ChatRequest,
    ) -> Result<ChatReply, CallError> {
        let first = model.chat(request);
        let is_capped = which.payer.is_some_and(|payer| payer.is_capped);
        // A copy has no reservation.
        if which.hedge_permille == 0 || is_capped {
            return first.await;
        }
        let permille = which.hedge_permille;
        let late = || self.hedge.due(&request.model, permille, Instant::now());
        let due = late();
        tokio::pin!(first, due);
        let (mut copies, mut number) = (FuturesUnordered::new(), 0);
        loop {
            tokio::select! {
                biased;
                answer = &mut first => return answer,
                // One that fails decides nothing.
                answer = copies.next(), if !copies.is_empty() => {
                    if let Some(Ok(reply)) = answer {
                        return Ok(reply);
                    }
                }
                () = &mut due => {
                    number += 1;
                    copies.push(self.copy(number, which, model, request));
                    due.set(late());
                }
            }
        }
    }

    /// Makes a copy of a call; it is counted when it is dropped.
    async fn copy(
        self: &Arc<Self>,
        number: u32,
        which: Which<'_>,
        model: &dyn ChatModel,
        request: &ChatRequest,
    ) -> Result<ChatReply, CallError> {
        let id = format!("{}/copy{number}", which.id);
        let which = Which { id: &id, ..which };
        let price = which.payer.and_then(|payer| payer.price);
        let _counted = Open::copy(self, which, of(which, request), worst(request, price));
        model.chat(request).await
    }
}

/// What a call wants.
struct Wish {
    of: Use,
    most: Amount,
    /// It is over by then, waits included.
    lifetime: Duration,
    /// How long it waits for its turn.
    patience: Duration,
}

/// Says what a call is for.
fn of(which: Which<'_>, request: &ChatRequest) -> Use {
    Use::new(&which.profile.role, &request.stage, &request.model)
}

/// Settlements under way: kept if they were not told.
struct Unsent<'a> {
    meter: &'a Meter,
    done: Option<Vec<Settlement>>,
}

impl Unsent<'_> {
    fn forget(mut self) {
        self.done = None;
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            lock(&self.meter.gathered).keep(done);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
