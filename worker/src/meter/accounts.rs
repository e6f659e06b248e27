//! The accounts that calls go to: when one may be called, and how it was.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_backends::CallError;
use skillopt_core::job::{Failure, FailureClass, Usage};
use skillopt_queue::rates::{Account, Ask, Go, Hold, Outcome, Rates};
use skillopt_runtime::retry::HINT_MAX;

use super::Meter;
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
    /// What befell calls of accounts since they last answered one.
    troubles: Mutex<HashMap<String, Trouble>>,
    /// How long an account may fail all calls before it pauses the runs that use it.
    failing_max: Duration,
}

/// What befell calls of an account that has not answered one since.
#[derive(Debug, Default)]
struct Trouble {
    /// Calls that it throttled.
    throttled: u32,
    /// How the last one ended.
    last: String,
}

impl Meter {
    /// Lets an account that fails all calls pause its runs after `failing_max`, if that is sooner than
    /// after the quarter of an hour that a cluster waits: in a process of its own somebody is looking
    /// on. An account that throttles is there, and is waited for as everywhere.
    #[must_use]
    pub fn with_failing_max(mut self, failing_max: Duration) -> Self {
        self.accounts.failing_max = failing_max.min(STUCK_MAX);
        self
    }
}

impl Accounts {
    pub(super) fn new(rates: Option<Arc<dyn Rates>>) -> Self {
        Self {
            rates,
            listed: Mutex::default(),
            ended: Mutex::default(),
            troubles: Mutex::default(),
            failing_max: STUCK_MAX,
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
            if let Some(failure) = self.given_up(account) {
                return Some(Instead::Refused(failure));
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
            self.troubles().remove(account);
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

    /// Notes what an account did last that was no answer, for whoever gives it up.
    pub(super) fn befell(&self, account: &str, error: &CallError) {
        if self.rates.is_some() && !matches!(failed(error), Outcome::Nothing) {
            let mut troubles = self.troubles();
            troubles.entry(account.to_owned()).or_default().last = error.to_string();
        }
    }

    /// What a 429 means for the job: it goes back, for it is the account's trouble, not its own.
    /// Nothing if nobody shares rates, or the provider wants more time than a run waits for: then it
    /// is judged as any error.
    pub(super) fn throttled(&self, account: &str, error: &CallError) -> Option<Instead> {
        self.rates.as_ref()?;
        let CallError::Throttled { retry_after, .. } = error else {
            return None;
        };
        let silence = self.silence(account);
        if silence >= STUCK_MAX {
            return Some(Instead::Refused(self.stuck(account, silence)));
        }
        if retry_after.is_some_and(|wait| wait > HINT_MAX) {
            return None;
        }
        let wait = retry_after.unwrap_or_else(|| self.wait_unnamed(account));
        Some(Instead::later(wait, error.to_string()))
    }

    /// Returns why the runs that use an account pause, if it has answered nothing for too long.
    fn given_up(&self, account: &str) -> Option<Failure> {
        let throttles = self
            .listed()
            .get(account)
            .is_some_and(|seen| seen.throttled > 0);
        let most = if throttles {
            STUCK_MAX
        } else {
            self.failing_max
        };
        let silence = self.silence(account);
        let is_over = silence >= most && !silence.is_zero();
        is_over.then(|| self.stuck(account, silence))
    }

    fn stuck(&self, account: &str, silence: Duration) -> Failure {
        let troubles = self.troubles();
        let last = troubles.get(account).map(|trouble| trouble.last.as_str());
        let last = last.filter(|words| !words.is_empty());
        let last = last.map_or_else(String::new, |words| format!(" (the last: {words})"));
        Failure {
            class: FailureClass::Provider,
            cause: format!(
                "`{account}` has answered no call for {}{last}; look at its limits and its state, \
                 then resume",
                span(silence)
            ),
        }
    }

    fn wait_unnamed(&self, account: &str) -> Duration {
        let mut troubles = self.troubles();
        let times = &mut troubles.entry(account.to_owned()).or_default().throttled;
        let (first, most) = WAITS_UNNAMED;
        let wait = first.saturating_mul(1 << (*times).min(20)).min(most);
        *times = times.saturating_add(1);
        wait
    }

    fn troubles(&self) -> MutexGuard<'_, HashMap<String, Trouble>> {
        // No section under this lock can panic half-way.
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long an account has answered nothing, from its first trouble on.
    fn silence(&self, account: &str) -> Duration {
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

/// Says how long a time is, rounded down.
fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} minutes", seconds / 60),
    }
}
