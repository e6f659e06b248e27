//! The jobs that a worker holds a lease of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::capability::Kind;
use skillopt_core::job::Envelope;
use skillopt_queue::queue::Renewal;
use skillopt_queue::{Leased, Ticket};
use skillopt_runtime::clock::Stopwatch;
use tokio_util::sync::CancellationToken;

/// One job under way.
pub(crate) struct HeldJob {
    pub(crate) kind: Kind,
    job: Bytes,
    /// Fires when the lease is known to be gone.
    pub(crate) lost: CancellationToken,
    /// Fires when nobody waits for the job any more.
    pub(crate) cancelled: CancellationToken,
    /// Since the queue has last said that the lease is ours.
    confirmed: Mutex<Stopwatch>,
}

impl HeldJob {
    /// Returns how long ago the queue has said that the lease is ours. The time in which the
    /// process was stopped counts.
    pub(crate) fn unconfirmed(&self) -> Duration {
        lock(&self.confirmed).elapsed()
    }

    /// Takes the answer to a renewal that was asked for at `asked`; returns whether it is held.
    pub(crate) fn renewed(&self, answer: Renewal, asked: Stopwatch) -> bool {
        match answer {
            Renewal::Lost => {
                self.lost.cancel();
                return false;
            }
            Renewal::Cancelled(_) => self.cancelled.cancel(),
            Renewal::Held(_) => {}
        }
        *lock(&self.confirmed) = asked;
        true
    }

    /// Returns the job's name for people.
    fn label(&self) -> Option<String> {
        let envelope: Envelope = serde_json::from_slice(&self.job).ok()?;
        Some(envelope.job.label())
    }
}

/// All jobs under way.
#[derive(Default)]
pub(crate) struct Held(Mutex<HashMap<Ticket, Arc<HeldJob>>>);

impl Held {
    /// Adds a job whose lease was asked for at `asked`.
    pub(crate) fn add(&self, kind: Kind, leased: &Leased, asked: Stopwatch) -> Arc<HeldJob> {
        let job = Arc::new(HeldJob {
            kind,
            job: leased.job.clone(),
            lost: CancellationToken::new(),
            cancelled: leased.cancelled.clone(),
            confirmed: Mutex::new(asked),
        });
        lock(&self.0).insert(leased.ticket, Arc::clone(&job));
        job
    }

    pub(crate) fn remove(&self, ticket: Ticket) {
        lock(&self.0).remove(&ticket);
    }

    pub(crate) fn all(&self) -> Vec<(Ticket, Arc<HeldJob>)> {
        let held = lock(&self.0);
        held.iter().map(|(t, job)| (*t, Arc::clone(job))).collect()
    }

    /// Returns how many jobs of a kind there are.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        lock(&self.0)
            .values()
            .filter(|job| job.kind == kind)
            .count()
    }

    /// Returns the names of the jobs that were leased first.
    pub(crate) fn labels(&self, max: usize) -> Vec<String> {
        let mut all = self.all();
        all.sort_by_key(|(ticket, _)| ticket.fence);
        let labels = all.iter().filter_map(|(_, job)| job.label());
        labels.take(max).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
