//! The queue's state machine alone, for simulations that move the time and decide what happens.

use std::time::Duration;

use skillopt_core::job::Key;

use crate::clock::Timestamp;
use crate::message::{Enqueue, Leased, RunId, Ticket, Want};
use crate::queue::{Error, Failure, JobState, Limits, Refused, Renewal, Stats, Which, Withdrawn};
use crate::state::{Effects, End, State};

/// How a job ended for a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its result is stored.
    Result,
    /// It is a dead letter.
    Failed,
    /// It was withdrawn.
    Cancelled,
}

/// A queue without a store: whoever drives it says what is stored. Submissions are numbered by the
/// driver.
pub struct QueueMachine {
    state: State<u64>,
    told: Vec<(u64, Key, Told)>,
}

impl QueueMachine {
    /// Makes an empty queue.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::new(limits),
            told: Vec::new(),
        }
    }

    /// Returns the ends that were told since the last time, by submission.
    pub fn take_told(&mut self) -> Vec<(u64, Key, Told)> {
        std::mem::take(&mut self.told)
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Timestamp) {
        self.step(now, |_, _| ());
    }

    /// Adds or joins jobs; `is_stored` says whose result is there already.
    ///
    /// # Errors
    /// As [`crate::Queue::submit`].
    pub fn submit(
        &mut self,
        now: Timestamp,
        jobs: Vec<Enqueue>,
        submission: u64,
        is_stored: impl Fn(&Key) -> bool,
    ) -> Result<(), Error> {
        let keys = self.step(now, |state, fx| state.submit(now, jobs, &submission, fx))?;
        for key in keys {
            let told = self.step(now, |state, fx| {
                state.checked(now, key, is_stored(&key), fx)
            });
            let result = |submission| (submission, key, Told::Result);
            self.told.extend(told.into_iter().map(result));
        }
        Ok(())
    }

    /// Grants leases.
    pub fn lease(&mut self, now: Timestamp, want: &Want) -> Vec<Leased> {
        self.step(now, |state, fx| state.lease(now, want, fx))
    }

    /// Extends a lease.
    pub fn renew(&mut self, now: Timestamp, ticket: Ticket, ttl: Duration) -> Renewal {
        self.step(now, |state, fx| state.renew(now, ticket, ttl, fx))
    }

    /// Begins a completion.
    ///
    /// # Errors
    /// The lease does not count any more.
    pub fn begin_commit(&mut self, now: Timestamp, ticket: Ticket) -> Result<(), Refused> {
        self.step(now, |state, _| state.begin_commit(ticket))
    }

    /// Ends a completion that was begun; `is_stored` says whether the key has a result now.
    pub fn committed(&mut self, now: Timestamp, ticket: Ticket, is_stored: bool) {
        let told = self.step(now, |state, fx| state.committed(ticket, is_stored, fx));
        let result = |submission| (submission, ticket.key, Told::Result);
        self.told.extend(told.into_iter().map(result));
        // A failed one may find that its lease should have run out meanwhile.
        self.tick(now);
    }

    /// Returns a job for another try.
    ///
    /// # Errors
    /// The lease does not count any more.
    pub fn retry(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        delay: Duration,
    ) -> Result<(), Refused> {
        self.step(now, |state, fx| {
            state.retry(now, ticket, delay, "simulated", fx)
        })
    }

    /// Returns a job untouched.
    ///
    /// # Errors
    /// The lease does not count any more.
    pub fn hand_back(&mut self, now: Timestamp, ticket: Ticket) -> Result<(), Refused> {
        self.step(now, |state, fx| state.hand_back(now, ticket, fx))
    }

    /// Makes a job a dead letter.
    ///
    /// # Errors
    /// The lease does not count any more.
    pub fn give_up(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        failure: Failure,
    ) -> Result<(), Refused> {
        self.step(now, |state, fx| state.give_up(now, ticket, failure, fx))
    }

    /// Withdraws jobs of a run.
    pub fn cancel(&mut self, now: Timestamp, run: &RunId, keys: &[Key]) -> Withdrawn {
        self.step(now, |state, fx| state.cancel(run, Which::Keys(keys), fx))
    }

    /// Says where a job is.
    #[must_use]
    pub fn state_of(&self, key: &Key) -> JobState {
        self.state.state_of(key)
    }

    /// Returns the present counts.
    #[must_use]
    pub fn stats(&self, now: Timestamp) -> Stats {
        self.state.stats(now)
    }

    fn step<T>(
        &mut self,
        now: Timestamp,
        step: impl FnOnce(&mut State<u64>, &mut Effects<u64>) -> T,
    ) -> T {
        let mut fx = Effects::default();
        self.state.tick(now, &mut fx);
        let answer = step(&mut self.state, &mut fx);
        for (submission, key, end) in fx.ended {
            let told = match end {
                End::Failed(_) => Told::Failed,
                End::Cancelled => Told::Cancelled,
            };
            self.told.push((submission, key, told));
        }
        for signal in fx.signals {
            signal.cancel();
        }
        answer
    }
}
