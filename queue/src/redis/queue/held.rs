//! The leases that this process holds, so that it can be told when nobody wants their jobs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use skillopt_core::job::Key;
use tokio_util::sync::CancellationToken;

use crate::message::Fence;

/// By job; a job that is leased anew replaces its older lease.
#[derive(Default)]
pub(super) struct Held(Mutex<HashMap<Key, (Fence, CancellationToken)>>);

impl Held {
    pub(super) fn add(&self, key: Key, fence: Fence) -> CancellationToken {
        let token = CancellationToken::new();
        self.lock().insert(key, (fence, token.clone()));
        token
    }

    /// Tells that nobody waits for a job any more.
    pub(super) fn cancel(&self, key: Key, fence: Fence) {
        let held = self.lock();
        if let Some((_, token)) = held.get(&key).filter(|(held, _)| *held == fence) {
            token.cancel();
        }
    }

    pub(super) fn forget(&self, key: Key, fence: Fence) {
        let mut held = self.lock();
        if held.get(&key).is_some_and(|(held, _)| *held == fence) {
            held.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (Fence, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
