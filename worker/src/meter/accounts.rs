//! The accounts that calls go to: when one may be called, and how it was.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_backends::CallError;
use skillopt_core::job::{Failure, FailureClass, Usage};
use skillopt_queue::rates::{Account, Ask, Go, Hold, Outcome, Rates};

use super::instead::Instead;

/// A wait up to this is spent in the slot; for a longer one the job goes back to the queue.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(2);
/// An account that has answered nothing for this long pauses the runs that use it.
const STUCK_MAX: Duration = Duration::from_secs(15 * 60);
/// First and longest wait after a 429 that names none. It doubles with each that comes before the
/// account has answered another call: where most calls are answered, one may be asked again soon, and
/// whoever asks too much is slowed down with all others by the account's rates.
const WAITS_UNNAMED: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Shares the rates of accounts with all other workers.
pub(super) struct Accounts {
    /// Without, an account is as fast as it is.
    pub(super) rates: Option<Arc<dyn Rates>>,
    /// Accounts with limits or in trouble, as of the last look.
    listed: Mutex<HashMap<String, Account>>,
    /// How calls went that nobody was told of yet: account, call, outcome.
    ended: Mutex<Vec<(String, String, Outcome)>>,
    /// Calls that an account has throttled since it last answered one; those with none are left out.
    refused: Mutex<HashMap<String, u32>>,
}

impl Accounts {
    pub(super) fn new(rates: Option<Arc<dyn Rates>>) -> Self {
        Self {
            rates,
            listed: Mutex::default(),
            ended: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Looks at which accounts have limits or are in trouble.
    pub(super) async fn look(&self) {
        let Some(rates) = &self.rates else { return };
        // Rates that cannot be reached are as they were.
        if let Ok(accounts) = rates.accounts().await {
            let by_name = accounts.into_iter().map(|a| (a.name.clone(), a));
            *self.listed() = by_name.collect();
        }
    }

    /// Waits until the account allows the call; returns what to do instead if that takes longer than
    /// `left`.
    pub(super) async fn wait_for_turn(&self, ask: &Ask, mut left: Duration) -> Option<Instead> {
        let rates = self.rates.as_ref()?;
        let account = ask.account.as_str();
        while self.listed().contains_key(account) {
            let asked = rates.ask(std::slice::from_ref(ask)).await;
            let (wait, why) = match asked.map(|mut all| all.pop()) {
                // Rates that cannot be reached hold nobody up; the provider has the last word.
                Ok(Some(Go::Now) | None) | Err(_) => return None,
                Ok(Some(Go::NotBefore { wait, why, .. })) => (wait, why),
            };
            if self.stuck_for(account) >= STUCK_MAX {
                return Some(Instead::Refused(stuck(account)));
            }
            if wait > left {
                let why = match why {
                    Hold::Requests => "its requests a minute are used up",
                    Hold::Tokens => "its tokens a minute are used up",
                    Hold::Concurrency => "as many calls as it bears are under way",
                    Hold::Paused => "it asked to wait, or does not answer",
                };
                let cause = format!("`{account}` is not called now: {why}");
                return Some(Instead::later(wait, cause));
            }
            left = left.saturating_sub(wait.max(Duration::from_millis(1)));
            tokio::time::sleep(wait).await;
        }
        None
    }

    /// Notes how a call went; [`Self::tell`] tells it.
    pub(super) fn ended(&self, account: &str, id: &str, outcome: Outcome) {
        if self.rates.is_none() {
            return;
        }
        let is_trouble = matches!(outcome, Outcome::Throttled(_) | Outcome::Failed);
        if matches!(outcome, Outcome::Answered(_)) {
            self.refused().remove(account);
        }
        if !is_trouble && !self.listed().contains_key(account) {
            return;
        }
        if is_trouble {
            // Its next call asks, without waiting for the next look.
            self.listed().entry(account.to_owned()).or_default();
        }
        let done = (account.to_owned(), id.to_owned(), outcome);
        self.untold().push(done);
    }

    /// Tells all workers how calls went.
    pub(super) async fn tell(&self) {
        let Some(rates) = &self.rates else { return };
        let done = std::mem::take(&mut *self.untold());
        if !done.is_empty() {
            // A lost report frees its place when the call's time is over.
            drop(rates.report(&done).await);
        }
    }

    fn untold(&self) -> MutexGuard<'_, Vec<(String, String, Outcome)>> {
        // No section under this lock can panic half-way.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a 429 means for the job: it goes back, for it is the account's trouble, not its own.
    /// Nothing if nobody shares rates: then it is tried again as after any error.
    pub(super) fn throttled(&self, account: &str, error: &CallError) -> Option<Instead> {
        let CallError::Throttled { retry_after, .. } = error else {
            return None;
        };
        self.rates.as_ref()?;
        if self.stuck_for(account) >= STUCK_MAX {
            return Some(Instead::Refused(stuck(account)));
        }
        let wait = retry_after
            .unwrap_or_else(|| self.wait_unnamed(account))
            .min(skillopt_runtime::retry::HINT_MAX);
        Some(Instead::later(wait, error.to_string()))
    }

    fn wait_unnamed(&self, account: &str) -> Duration {
        let mut refused = self.refused();
        let times = refused.entry(account.to_owned()).or_default();
        let (first, most) = WAITS_UNNAMED;
        let wait = first.saturating_mul(1 << (*times).min(20)).min(most);
        *times = times.saturating_add(1);
        wait
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        // No section under this lock can panic half-way.
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck_for(&self, account: &str) -> Duration {
        let ms = self.listed().get(account).map_or(0, |a| a.stuck_for_ms);
        Duration::from_millis(ms)
    }

    fn listed(&self) -> MutexGuard<'_, HashMap<String, Account>> {
        // No section under this lock can panic half-way.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an answer says about the account.
pub(super) const fn answered(usage: Usage) -> Outcome {
    Outcome::Answered(usage.prompt_tokens.saturating_add(usage.completion_tokens))
}

/// What an error says about the account.
pub(super) const fn failed(error: &CallError) -> Outcome {
    match error {
        CallError::Throttled { retry_after, .. } => Outcome::Throttled(*retry_after),
        CallError::Server { .. }
        | CallError::Connection { .. }
        | CallError::Timeout { .. }
        | CallError::Stalled { .. } => Outcome::Failed,
        _ => Outcome::Nothing,
    }
}

fn stuck(account: &str) -> Failure {
    Failure {
        class: FailureClass::Provider,
        cause: format!(
            "`{account}` has answered no call for {} minutes; look at its limits and its state, \
             then resume",
            STUCK_MAX.as_secs() / 60
        ),
    }
}
