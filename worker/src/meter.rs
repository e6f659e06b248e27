//! Calls of models under caps and rates that all workers share.
//!
//! Before a call whose payer has a cap, its price at most is reserved; after it, what it was is
//! settled. An account that has limits or is in trouble is asked first; others cost nothing. What
//! nobody caps is counted in batches.

mod accounts;
mod cost;
mod gathered;
mod instead;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest, Outcome};
use skillopt_core::job::{Failure, FailureClass, Payer, Profile, Usage};
use skillopt_queue::ledger::{Amount, Ledger, Reservation, Reserved, Settlement, Tally, Use};
use skillopt_queue::rates::{Ask, Rates};
use skillopt_queue::store;
use skillopt_runtime::clock::Stopwatch;
use tokio::sync::Notify;

use self::accounts::{Accounts, WAIT_MAX};
use self::cost::{billed, purses, spent, worst};
use self::gathered::Gathered;
use crate::hedge::Hedge;

pub(crate) use self::instead::Instead;

/// Between two looks at which accounts have limits or are in trouble.
const POLL: Duration = Duration::from_millis(250);
/// What is counted is told to the ledger this often.
const FLUSH: Duration = Duration::from_millis(500);
/// A reservation outlives the longest call by this.
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

impl Metered {
    fn later(wait: Duration, cause: String) -> Self {
        Self::Not(Instead::later(wait, cause))
    }
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
    /// Something reserved waits to be settled.
    is_due: Notify,
    hedge: Hedge,
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
        }
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
                () = self.is_due.notified() => drop(self.flush_reserved().await),
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
        &self,
        which: Which<'_>,
        model: &dyn ChatModel,
        request: &ChatRequest,
    ) -> Metered {
        if lock(&self.gathered).is_full() {
            return Metered::later(
                CAP_WAIT,
                "the ledger has not been reached for a while".to_owned(),
            );
        }
        let mut open = match self.reserve(which, request).await {
            Ok(open) => open,
            Err(instead) => return instead,
        };
        let account = which.profile.account();
        let ask = Ask {
            account: account.to_owned(),
            call: which.id.to_owned(),
            tokens: open.most.tokens(),
            lifetime: request.timeout + MARGIN,
        };
        if let Some(instead) = self.accounts.wait_for_turn(&ask).await {
            return Metered::Not(instead);
        }
        open.is_made = true;
        let watch = Stopwatch::start();
        let answer = self.make(which, model, request).await;
        open.close(&answer);
        if answer.is_ok() {
            self.hedge.answered(&request.model, watch.elapsed());
        }
        self.accounts.report(account, which.id, &answer).await;
        let error = answer.as_ref().err();
        let instead = error.and_then(|error| self.accounts.throttled(account, error));
        instead.map_or(Metered::Made(answer), Metered::Not)
    }

    async fn reserve<'a>(
        &'a self,
        which: Which<'a>,
        request: &ChatRequest,
    ) -> Result<Open<'a>, Metered> {
        let open = Open {
            meter: self,
            which,
            of: of(which, request),
            most: worst(request, which.payer.and_then(|payer| payer.price)),
            is_made: false,
            is_copy: false,
            is_closed: false,
        };
        let Some(payer) = which.payer.filter(|payer| payer.is_capped) else {
            return Ok(open);
        };
        // Made before the question, so that whatever is held is given back if we are dropped.
        let asked = Reservation {
            id: which.id.to_owned(),
            purses: purses(payer),
            most: open.most,
            is_unpriced: payer.price.is_none(),
            lifetime: request.timeout + WAIT_MAX + MARGIN,
        };
        match self.ledger.reserve(&[asked]).await.map(|mut all| all.pop()) {
            Ok(Some(Reserved::Held)) => Ok(open),
            Ok(Some(Reserved::Wait { purse })) => {
                open.forget();
                let cause = format!("`{purse}` is nearly used up; calls under way may leave some");
                Err(Metered::later(CAP_WAIT, cause))
            }
            Ok(Some(Reserved::Refused { purse, what })) => {
                open.forget();
                let help = cost::raise(&purse, what);
                let cause = format!(
                    "the cap of {what} of `{purse}` does not allow another call of `{}`; {help}",
                    request.model
                );
                let class = FailureClass::Budget;
                Err(Metered::Not(Instead::Refused(Failure { class, cause })))
            }
            // Whether it is held is not known: it is given back.
            Ok(None) => Err(Metered::later(
                CAP_WAIT,
                "the ledger gave no answer".to_owned(),
            )),
            Err(e) => Err(Metered::later(
                CAP_WAIT,
                format!("the ledger cannot be reached: {e}"),
            )),
        }
    }

    /// Makes the call, and a copy of it if it takes unusually long and that is wanted.
    async fn make(
        &self,
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
        tokio::pin!(first);
        let watch = Stopwatch::start();
        let wait = || {
            let permille = which.hedge_permille;
            self.hedge.wait(&request.model, permille, watch.elapsed())
        };
        while let Some(wait) = wait() {
            if let Ok(answer) = tokio::time::timeout(wait, &mut first).await {
                return answer;
            }
        }
        // The loser is counted when this returns or is dropped.
        let copy_id = format!("{}/copy", which.id);
        let copy = Open {
            meter: self,
            which: Which {
                id: &copy_id,
                ..which
            },
            of: of(which, request),
            most: worst(request, which.payer.and_then(|payer| payer.price)),
            is_made: true,
            is_copy: true,
            is_closed: false,
        };
        let answer = tokio::select! {
            biased;
            answer = &mut first => answer,
            answer = model.chat(request) => match answer {
                // A copy that fails decides nothing.
                Err(_) => first.await,
                ok => ok,
            },
        };
        drop(copy);
        answer
    }
}

/// A call on its way: whatever becomes of it, it is counted once.
struct Open<'a> {
    meter: &'a Meter,
    which: Which<'a>,
    of: Use,
    most: Amount,
    /// Whether it may have reached the provider.
    is_made: bool,
    /// It is broken off as soon as the other one answers, and no cap pays for it: its input is the
    /// best estimate.
    is_copy: bool,
    is_closed: bool,
}

impl Open<'_> {
    fn close(mut self, answer: &Result<ChatReply, CallError>) {
        let price = self.which.payer.and_then(|payer| payer.price);
        let (usage, used) = match answer {
            Ok(reply) => (reply.usage, spent(reply.usage, price)),
            Err(e) => match e.usage().filter(|told| told.prompt_tokens > 0) {
                Some(told) => (told, spent(told, price)),
                None => (Usage::default(), billed(e, self.most, price)),
            },
        };
        self.count(used, usage, Outcome::of(answer).as_str());
    }

    fn forget(mut self) {
        self.is_closed = true;
    }

    fn count(&mut self, used: Amount, usage: Usage, outcome: &str) {
        self.is_closed = true;
        let Some(payer) = self.which.payer else {
            return;
        };
        let is_reserved = payer.is_capped;
        let mut tally = Tally::default();
        if used.requests > 0 {
            let counts = cost::counts(used, usage, payer.price.is_none(), outcome);
            tally.add(std::mem::take(&mut self.of), &counts);
        }
        lock(&self.meter.gathered).add(self.which.id, payer, used, &tally);
        if is_reserved {
            self.meter.is_due.notify_one();
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        let price = self.which.payer.and_then(|payer| payer.price);
        let used = match (self.is_made, self.is_copy) {
            (true, true) => cost::input(self.most, price),
            (true, false) => self.most,
            (false, _) => Default::default(),
        };
        if self.is_made || self.which.payer.is_some_and(|payer| payer.is_capped) {
            self.count(used, Usage::default(), "dropped");
        }
    }
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
