//! A board in the memory of this process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Board, Error, Expect, Held, Record, check, check_lease};
use crate::clock::{Clock, Timestamp};
use crate::message::Fence;

/// Keeps records in memory; they end with the process. Clones share them.
#[derive(Clone)]
pub struct MemoryBoard {
    clock: Arc<dyn Clock>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<String, Entry>,
    /// When entries end, so that finding those that are over looks at nothing else.
    ends: BTreeSet<(Timestamp, String)>,
    leases: HashMap<String, Lease>,
    /// One number for all leases: it grows with each change of hands of any of them.
    fence: u64,
}

struct Entry {
    value: Bytes,
    version: u64,
    ends_at: Option<Timestamp>,
}

struct Lease {
    holder: String,
    held: Held,
}

impl MemoryBoard {
    /// Makes an empty board that judges time by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let inner = Arc::default();
        Self { clock, inner }
    }

    /// Returns the time and the records whose life is not over.
    fn now_and_living(&self) -> (Timestamp, MutexGuard<'_, Inner>) {
        // No critical section can panic half-way, so a poisoned lock is still consistent.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        inner.end_lives(now);
        (now, inner)
    }
}

impl Inner {
    fn end_lives(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, path)) = self.ends.pop_first() {
                self.entries.remove(&path);
            }
        }
        self.leases.retain(|_, lease| lease.held.expires_at > now);
    }

    fn version(&self, path: &str) -> u64 {
        self.entries.get(path).map_or(0, |entry| entry.version)
    }

    fn expect(&self, path: &str, expect: Expect) -> Result<(), Error> {
        let found = self.version(path);
        if expect.is_met_by(found) {
            return Ok(());
        }
        let path = path.to_owned();
        Err(Error::Conflict { path, found })
    }

    fn put(
        &mut self,
        path: &str,
        value: Bytes,
        expect: Expect,
        ends_at: Option<Timestamp>,
    ) -> Result<u64, Error> {
        self.expect(path, expect)?;
        let version = self.version(path) + 1;
        self.remove(path);
        if let Some(at) = ends_at {
            self.ends.insert((at, path.to_owned()));
        }
        let entry = Entry {
            value,
            version,
            ends_at,
        };
        self.entries.insert(path.to_owned(), entry);
        Ok(version)
    }

    fn remove(&mut self, path: &str) {
        let removed = self.entries.remove(path);
        if let Some(at) = removed.and_then(|entry| entry.ends_at) {
            self.ends.remove(&(at, path.to_owned()));
        }
    }
}

fn record(path: &str, entry: &Entry) -> Record {
    Record {
        path: path.to_owned(),
        value: entry.value.clone(),
        version: entry.version,
    }
}

#[async_trait]
impl Board for MemoryBoard {
    async fn get(&self, path: &str) -> Result<Option<Record>, Error> {
        let (_, inner) = self.now_and_living();
        Ok(inner.entries.get(path).map(|entry| record(path, entry)))
    }

    async fn put(
        &self,
        path: &str,
        value: Bytes,
        expect: Expect,
        lifetime: Option<Duration>,
    ) -> Result<u64, Error> {
        check(path, &value)?;
        let (now, mut inner) = self.now_and_living();
        inner.put(path, value, expect, lifetime.map(|life| now.plus(life)))
    }

    async fn put_fenced(
        &self,
        path: &str,
        value: Bytes,
        expect: Expect,
        name: &str,
        fence: Fence,
    ) -> Result<u64, Error> {
        check(path, &value)?;
        let (_, mut inner) = self.now_and_living();
        let is_held = inner
            .leases
            .get(name)
            .is_some_and(|lease| lease.held.fence == fence);
        if !is_held {
            let name = name.to_owned();
            return Err(Error::NotHolder { name });
        }
        inner.put(path, value, expect, None)
    }

    async fn delete(&self, path: &str, expect: Expect) -> Result<(), Error> {
        let (_, mut inner) = self.now_and_living();
        inner.expect(path, expect)?;
        inner.remove(path);
        Ok(())
    }

    async fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<Record>, Error> {
        let (_, inner) = self.now_and_living();
        let start = if after >= prefix {
            Bound::Excluded(after)
        } else {
            Bound::Included(prefix)
        };
        Ok(inner
            .entries
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(path, _)| path.starts_with(prefix))
            .take(max)
            .map(|(path, entry)| record(path, entry))
            .collect())
    }

    async fn acquire(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<Option<Held>, Error> {
        check_lease(name, holder)?;
        let (now, mut inner) = self.now_and_living();
        let expires_at = now.plus(ttl);
        let fence = match inner.leases.get(name) {
            Some(lease) if lease.holder != holder => return Ok(None),
            Some(lease) => lease.held.fence,
            None => {
                inner.fence += 1;
                Fence(inner.fence)
            }
        };
        let held = Held { fence, expires_at };
        let holder = holder.to_owned();
        inner.leases.insert(name.to_owned(), Lease { holder, held });
        Ok(Some(held))
    }

    async fn holder(&self, name: &str) -> Result<Option<String>, Error> {
        let (_, inner) = self.now_and_living();
        Ok(inner.leases.get(name).map(|lease| lease.holder.clone()))
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), Error> {
        let (_, mut inner) = self.now_and_living();
        if inner
            .leases
            .get(name)
            .is_some_and(|lease| lease.holder == holder)
        {
            inner.leases.remove(name);
        }
        Ok(())
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestClock;
    use crate::conformance::BoardRig;

    async fn make() -> BoardRig {
        let clock = TestClock::new();
        BoardRig {
            board: Arc::new(MemoryBoard::new(Arc::new(clock.clone()))),
            clock,
            keep: Box::new(()),
        }
    }

    crate::conformance_board!(make);
}
