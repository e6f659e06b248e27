//! The requests of one task of an agent, each of them under caps and rates.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use skillopt_backends::{AtMost, Gate, Passed, Permit};
use skillopt_core::job::{Payer, Profile};
use skillopt_queue::ledger::Use;
use skillopt_runtime::clock::Stopwatch;

use super::accounts::WAIT_MAX;
use super::open::Open;
use super::{Instead, Meter, Noted, Which, Wish, cost, lock};

/// A task that has paid for answers waits this long for its turn: going back would pay for them anew.
const PAID_WAIT_MAX: Duration = Duration::from_secs(120);

/// What the requests of one task have in common.
pub(crate) struct Task {
    /// Unique: ticket and turn.
    pub(crate) name: String,
    pub(crate) payer: Option<Payer>,
    pub(crate) profile: Profile,
    pub(crate) stage: String,
    /// The whole task takes no longer, and with it ends each request.
    pub(crate) lifetime: Duration,
    /// Most tokens of one answer to a request that names no limit.
    pub(crate) answer_limit: u32,
}

/// Counts the requests of one task, until it is dropped: then what is still under way is counted at
/// the most it can have come to, and nothing more is let out.
pub(crate) struct Toll(Arc<Inner>);

struct Inner {
    meter: Arc<Meter>,
    task: Task,
    noted: Noted,
    since: Stopwatch,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_over: bool,
    has_paid: bool,
    asked: u64,
    open: BTreeMap<u64, Open>,
}

impl Toll {
    /// Makes the toll of a task. Why something was not let out is noted.
    pub(crate) fn new(meter: &Arc<Meter>, task: Task, noted: &Noted) -> Self {
        Self(Arc::new(Inner {
            meter: Arc::clone(meter),
            task,
            noted: noted.clone(),
            since: Stopwatch::start(),
            state: Mutex::default(),
        }))
    }

    /// Returns the gate of the task.
    pub(crate) fn gate(&self) -> Arc<dyn Gate> {
        Arc::new(Way(Arc::clone(&self.0)))
    }
}

impl Drop for Toll {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_over = true;
        let open = std::mem::take(&mut state.open);
        drop(state);
        drop(open);
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Asks until the request may leave, or it takes too long.
    async fn admit(&self, at_most: AtMost) -> Result<(u64, Open), Instead> {
        let task = &self.task;
        let price = task.payer.as_ref().and_then(|payer| payer.price);
        let limit = u64::from(task.answer_limit);
        let answer = at_most.completion_tokens.unwrap_or(limit);
        let most = cost::at_most(at_most.prompt_tokens, answer, price);
        let mut left = match self.state().has_paid {
            true => PAID_WAIT_MAX,
            false => WAIT_MAX,
        };
        // What a try of before this one made known comes first.
        self.meter.accounts.tell().await;
        loop {
            // A question whose answer was lost is not asked again under the same name.
            let number = {
                let mut state = self.state();
                state.asked += 1;
                state.asked
            };
            let id = format!("{}/{number}", task.name);
            let which = Which {
                id: &id,
                payer: task.payer.as_ref(),
                profile: &task.profile,
                hedge_permille: 0,
            };
            let wish = Wish {
                of: Use::new(&task.profile.role, &task.stage, &task.profile.model),
                most,
                lifetime: task.lifetime.saturating_sub(self.since.elapsed()),
                patience: left,
            };
            match self.meter.admit(which, wish).await {
                Ok(open) => return Ok((number, open)),
                Err(Instead::Later { wait, .. }) if wait <= left => {
                    left -= wait;
                    tokio::time::sleep(wait).await;
                }
                Err(instead) => return Err(instead),
            }
        }
    }
}

/// The gate of a task.
struct Way(Arc<Inner>);

#[async_trait]
impl Gate for Way {
    fn answer_limit(&self) -> Option<u64> {
        let task = &self.0.task;
        let payer = task.payer.as_ref().filter(|payer| payer.is_capped);
        payer.map(|_| u64::from(task.answer_limit))
    }

    async fn enter(&self, at_most: AtMost) -> Result<Box<dyn Permit>, String> {
        let inner = &self.0;
        match inner.admit(at_most).await {
            Ok((number, mut open)) => {
                let mut state = inner.state();
                if state.is_over {
                    open.is_made = false;
                    return Err("the task is over".to_owned());
                }
                state.open.insert(number, open);
                let toll = Arc::clone(inner);
                Ok(Box::new(Under { toll, number }))
            }
            Err(instead) => {
                let cause = instead.failure().cause.clone();
                inner.noted.note(instead);
                Err(cause)
            }
        }
    }
}

/// A request under way.
struct Under {
    toll: Arc<Inner>,
    number: u64,
}

impl Under {
    fn open(&self) -> Option<Open> {
        self.toll.state().open.remove(&self.number)
    }
}

impl Permit for Under {
    fn close(self: Box<Self>, passed: Passed) {
        // Nothing is there if the task is over: then it was counted.
        let Some(open) = self.open() else { return };
        if let Passed::Answered(_) = passed {
            self.toll.state().has_paid = true;
        }
        open.pass(&passed);
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        drop(self.open());
    }
}

#[cfg(test)]
mod tests;
