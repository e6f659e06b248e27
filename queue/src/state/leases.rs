//! What workers do: leases, and how they end.

use std::sync::Arc;
use std::time::Duration;

use skillopt_core::job::Key;

use super::entry::{Lease, Place, Waiter};
use super::{Effects, End, State};
use crate::clock::Timestamp;
use crate::message::{Fence, Leased, Ticket, Want};
use crate::queue::{Failure, Refused, Renewal};

impl<W: Clone + PartialEq> State<W> {
    /// Grants up to `want.max` leases.
    pub(crate) fn lease(
        &mut self,
        now: Timestamp,
        want: &Want,
        fx: &mut Effects<W>,
    ) -> Vec<Leased> {
        let expires_at = now.plus(want.ttl);
        let mut granted = Vec::new();
        while granted.len() < want.max {
            let Some(key) = self.ready.pop(&want.lanes) else {
                break;
            };
            let Some(entry) = self.jobs.get_mut(&key) else {
                continue;
            };
            let fence = Fence(self.next_fence);
            self.next_fence += 1;
            let lease = Lease::new(fence, want.worker.clone(), now, expires_at);
            entry.deliveries = entry.deliveries.saturating_add(1);
            granted.push(entry.leased(key, &lease));
            entry.place = Place::Leased(lease);
            self.track(key, expires_at, fx);
            self.leased += 1;
        }
        granted
    }

    pub(crate) fn renew(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        ttl: Duration,
        fx: &mut Effects<W>,
    ) -> Renewal {
        let until = now.plus(ttl);
        let Some(entry) = self.jobs.get_mut(&ticket.key) else {
            return Renewal::Lost;
        };
        let is_wanted = !entry.waiters.is_empty();
        let Some(lease) = entry.held(ticket) else {
            return Renewal::Lost;
        };
        let before = std::mem::replace(&mut lease.expires_at, until);
        if !lease.is_committing {
            self.leases.remove(&(before, ticket.key));
            self.track(ticket.key, until, fx);
        }
        if is_wanted {
            Renewal::Held(until)
        } else {
            Renewal::Cancelled(until)
        }
    }

    /// Marks a lease as being completed: it cannot run out until [`State::committed`].
    pub(crate) fn begin_commit(&mut self, ticket: Ticket) -> Result<(), Refused> {
        let lease = self
            .jobs
            .get_mut(&ticket.key)
            .and_then(|entry| entry.held(ticket));
        match lease {
            Some(lease) if !lease.is_committing => {
                lease.is_committing = true;
                let expires_at = lease.expires_at;
                self.leases.remove(&(expires_at, ticket.key));
                Ok(())
            }
            _ => Err(self.refuse(ticket)),
        }
    }

    /// Ends a completion. If the result is stored, the job ends and whoever waits is returned;
    /// else the lease goes on as before.
    pub(crate) fn committed(
        &mut self,
        ticket: Ticket,
        is_stored: bool,
        fx: &mut Effects<W>,
    ) -> Vec<W> {
        if is_stored {
            return self.forget(ticket.key);
        }
        let lease = self
            .jobs
            .get_mut(&ticket.key)
            .and_then(|entry| entry.held(ticket));
        if let Some(lease) = lease {
            lease.is_committing = false;
            let expires_at = lease.expires_at;
            self.track(ticket.key, expires_at, fx);
        }
        Vec::new()
    }

    pub(crate) fn retry(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        delay: Duration,
        cause: &str,
        fx: &mut Effects<W>,
    ) -> Result<(), Refused> {
        let worker = self.release(ticket)?;
        if let Some(entry) = self.jobs.get_mut(&ticket.key) {
            entry.retries = entry.retries.saturating_add(1);
            entry.note(now, worker, cause);
        }
        self.put(now, ticket.key, now.plus(delay), true, fx);
        Ok(())
    }

    pub(crate) fn postpone(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        delay: Duration,
        cause: &str,
        fx: &mut Effects<W>,
    ) -> Result<(), Refused> {
        let worker = self.release(ticket)?;
        if let Some(entry) = self.jobs.get_mut(&ticket.key) {
            entry.deliveries = entry.deliveries.saturating_sub(1);
            entry.note(now, worker, cause);
        }
        self.put(now, ticket.key, now.plus(delay), true, fx);
        Ok(())
    }

    pub(crate) fn hand_back(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        fx: &mut Effects<W>,
    ) -> Result<(), Refused> {
        self.release(ticket)?;
        self.put(now, ticket.key, now, false, fx);
        Ok(())
    }

    pub(crate) fn give_up(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        failure: Failure,
        fx: &mut Effects<W>,
    ) -> Result<(), Refused> {
        let worker = self.release(ticket)?;
        if let Some(entry) = self.jobs.get_mut(&ticket.key) {
            entry.note(now, worker, &failure.cause);
        }
        self.bury(ticket.key, failure, fx);
        Ok(())
    }

    /// Lets time pass: delayed jobs become ready, expired leases are taken back.
    pub(crate) fn tick(&mut self, now: Timestamp, fx: &mut Effects<W>) {
        while let Some(key) = self.delayed.pop_due(now) {
            self.put(now, key, now, false, fx);
        }
        while let Some((expires_at, key)) = self.leases.first().copied() {
            if expires_at > now {
                break;
            }
            self.leases.pop_first();
            self.lose(now, key, fx);
        }
    }

    fn lose(&mut self, now: Timestamp, key: Key, fx: &mut Effects<W>) {
        let Some(entry) = self.jobs.get_mut(&key) else {
            return;
        };
        let Place::Leased(lease) = &entry.place else {
            return;
        };
        let worker = lease.worker.clone();
        entry.losses = entry.losses.saturating_add(1);
        entry.note(now, worker, "the lease ran out");
        let losses = entry.losses;
        self.losses += 1;
        self.leased -= 1;
        if losses < self.limits.losses_max {
            self.put(now, key, now, false, fx);
            return;
        }
        let cause = format!("{losses} workers lost it: each held it until its lease ran out");
        self.bury(
            key,
            Failure {
                cause,
                detail: bytes::Bytes::new(),
            },
            fx,
        );
    }

    /// Lets a lease run out at `expires_at`.
    fn track(&mut self, key: Key, expires_at: Timestamp, fx: &mut Effects<W>) {
        fx.is_deadline_earlier |= self.next_deadline().is_none_or(|first| expires_at < first);
        self.leases.insert((expires_at, key));
    }

    /// Ends a lease and returns its worker; the caller puts the job where it belongs.
    fn release(&mut self, ticket: Ticket) -> Result<Arc<str>, Refused> {
        let lease = self
            .jobs
            .get_mut(&ticket.key)
            .and_then(|entry| entry.held(ticket));
        match lease {
            Some(lease) if !lease.is_committing => {
                let (worker, expires_at) = (lease.worker.clone(), lease.expires_at);
                self.leases.remove(&(expires_at, ticket.key));
                self.leased -= 1;
                Ok(worker)
            }
            _ => Err(self.refuse(ticket)),
        }
    }

    fn refuse(&mut self, ticket: Ticket) -> Refused {
        self.refused += 1;
        Refused::StaleFence(ticket)
    }

    /// Turns a job that is in no index into a dead letter, if anybody still cares.
    fn bury(&mut self, key: Key, failure: Failure, fx: &mut Effects<W>) {
        let Some(entry) = self.jobs.remove(&key) else {
            return;
        };
        if entry.waiters.is_empty() {
            return;
        }
        self.waits -= entry.waiters.len();
        let (letter, waiters) = entry.into_dead(key, failure);
        let letter = Arc::new(letter);
        self.graves.insert(letter.clone(), self.limits.dead_max);
        let end = |waiter: Waiter<W>| (waiter.to, key, End::Failed(letter.clone()));
        fx.ended.extend(waiters.into_iter().map(end));
    }
}
