//! Names for calls, so that a call whose answer was lost can be repeated without being done twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots that no call is using. A slot's calls come one after the other, with growing numbers.
#[derive(Default)]
pub(super) struct Slots {
    free: Mutex<Vec<u32>>,
    made: AtomicU64,
    number: AtomicU64,
}

/// A slot in use.
pub(super) struct Slot<'a> {
    slots: &'a Slots,
    pub(super) name: u32,
}

impl Slots {
    /// Takes a slot; there are as many as calls at once.
    pub(super) fn take(&self) -> Slot<'_> {
        let free = self.lock().pop();
        let name = free.unwrap_or_else(|| {
            let made = self.made.fetch_add(1, Ordering::Relaxed);
            // The first two belong to the gathered calls.
            u32::try_from(made + 2).unwrap_or(u32::MAX)
        });
        Slot { slots: self, name }
    }

    /// Returns a number that is higher than all before.
    pub(super) fn number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.lock().push(self.name);
    }
}
