//! One job inside the queue.

use std::sync::Arc;

use bytes::Bytes;
use skillopt_core::job::Key;
use tokio_util::sync::CancellationToken;

use crate::clock::Timestamp;
use crate::message::{Enqueue, Fence, Lane, Leased, Priority, RunId, Ticket};
use crate::queue::{DeadLetter, EVIDENCE_BYTES_MAX, EVIDENCE_MAX, Evidence, Failure};

#[derive(Debug)]
pub(super) struct Entry<W> {
    pub(super) job: Bytes,
    pub(super) lane: Lane,
    pub(super) priority: Priority,
    /// Place in the order of arrival; kept when the job comes back.
    pub(super) seq: u64,
    pub(super) enqueued_at: Timestamp,
    pub(super) waiters: Vec<Waiter<W>>,
    pub(super) place: Place,
    pub(super) deliveries: u32,
    pub(super) retries: u32,
    pub(super) losses: u32,
    evidence: Vec<Evidence>,
}

#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) run: RunId,
    pub(super) to: W,
}

#[derive(Debug)]
pub(super) enum Place {
    /// Held back until the store has said whether the result is there.
    Checking {
        not_before: Timestamp,
    },
    Ready,
    Delayed {
        until: Timestamp,
        /// A worker asked for the delay, so that no submission may shorten it.
        is_backoff: bool,
    },
    Leased(Lease),
}

#[derive(Debug)]
pub(super) struct Lease {
    fence: Fence,
    pub(super) worker: Arc<str>,
    pub(super) granted_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) is_committing: bool,
    pub(super) cancelled: CancellationToken,
}

impl Lease {
    pub(super) fn new(
        fence: Fence,
        worker: Arc<str>,
        granted_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        let cancelled = CancellationToken::new();
        Self {
            fence,
            worker,
            granted_at,
            expires_at,
            is_committing: false,
            cancelled,
        }
    }
}

impl<W> Entry<W> {
    pub(super) fn new(now: Timestamp, seq: u64, job: Enqueue, waiter: Waiter<W>) -> Self {
        Self {
            job: job.job,
            lane: job.lane,
            priority: job.priority,
            seq,
            enqueued_at: now,
            waiters: vec![waiter],
            place: Place::Checking {
                not_before: job.not_before.unwrap_or(now),
            },
            deliveries: 0,
            retries: 0,
            losses: 0,
            evidence: Vec::new(),
        }
    }

    /// The lease of this ticket, if it is the present one.
    pub(super) fn held(&mut self, ticket: Ticket) -> Option<&mut Lease> {
        match &mut self.place {
            Place::Leased(lease) if lease.fence == ticket.fence => Some(lease),
            _ => None,
        }
    }

    pub(super) fn leased(&self, key: Key, lease: &Lease) -> Leased {
        Leased {
            ticket: Ticket {
                key,
                fence: lease.fence,
            },
            job: self.job.clone(),
            lane: self.lane.clone(),
            deliveries: self.deliveries,
            retries: self.retries,
            expires_at: lease.expires_at,
            cancelled: lease.cancelled.clone(),
        }
    }

    /// What was noted last.
    pub(super) fn last_word(&self) -> Option<String> {
        self.evidence.last().map(|evidence| evidence.what.clone())
    }

    pub(super) fn note(&mut self, at: Timestamp, worker: Arc<str>, what: &str) {
        if self.evidence.len() >= EVIDENCE_MAX {
            self.evidence.remove(0);
        }
        let end = what.floor_char_boundary(EVIDENCE_BYTES_MAX);
        self.evidence.push(Evidence {
            at,
            worker,
            what: what[..end].to_owned(),
        });
    }

    pub(super) fn into_dead(self, key: Key, failure: Failure) -> (DeadLetter, Vec<Waiter<W>>) {
        let mut runs: Vec<RunId> = self
            .waiters
            .iter()
            .map(|waiter| waiter.run.clone())
            .collect();
        runs.sort();
        runs.dedup();
        let letter = DeadLetter {
            key,
            job: self.job,
            runs,
            deliveries: self.deliveries,
            retries: self.retries,
            losses: self.losses,
            evidence: self.evidence,
            failure,
        };
        (letter, self.waiters)
    }
}
