//! The leases that this process holds, so that it can be told when nobody wants their jobs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_core::job::Key;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::message::Fence;

/// Leases that ran out are looked for when there are so many more than after the last look.
const LOOK_EVERY: usize = 1_024;

/// By job; a job that is leased anew replaces its older lease.
#[derive(Default)]
pub(super) struct Held(Mutex<Leases>);

#[derive(Default)]
struct Leases {
    by_key: HashMap<Key, Lease>,
    /// How many there were after the last look for those that ran out.
    looked_at: usize,
}

struct Lease {
    fence: Fence,
    token: CancellationToken,
    /// By this machine's steady clock.
    until: Instant,
}

impl Held {
    pub(super) fn add(&self, key: Key, fence: Fence, ttl: Duration) -> CancellationToken {
        let token = CancellationToken::new();
        let now = Instant::now();
        let lease = Lease {
            fence,
            token: token.clone(),
            until: now.checked_add(ttl).unwrap_or(now),
        };
        let mut leases = self.lock();
        leases.by_key.insert(key, lease);
        if leases.by_key.len() > leases.looked_at + LOOK_EVERY {
            // Those that were dropped without a word.
            leases.by_key.retain(|_, lease| lease.until > now);
            leases.looked_at = leases.by_key.len();
        }
        token
    }

    /// Notes that a lease goes on.
    pub(super) fn keep(&self, key: Key, fence: Fence, ttl: Duration) {
        self.with(key, fence, |lease| {
            lease.until = Instant::now().checked_add(ttl).unwrap_or(lease.until);
        });
    }

    /// Tells that nobody waits for a job any more.
    pub(super) fn cancel(&self, key: Key, fence: Fence) {
        self.with(key, fence, |lease| lease.token.cancel());
    }

    pub(super) fn forget(&self, key: Key, fence: Fence) {
        let mut leases = self.lock();
        let is_it = |lease: &Lease| lease.fence == fence;
        if leases.by_key.get(&key).is_some_and(is_it) {
            leases.by_key.remove(&key);
        }
    }

    fn with(&self, key: Key, fence: Fence, act: impl FnOnce(&mut Lease)) {
        let mut leases = self.lock();
        let lease = leases.by_key.get_mut(&key);
        if let Some(lease) = lease.filter(|lease| lease.fence == fence) {
            act(lease);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Leases> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
