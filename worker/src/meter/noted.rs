//! Why calls of one delivery of a job were not made.

use std::sync::{Arc, Mutex, PoisonError};

use super::instead::Instead;

/// What has to become of a delivery in which a call could not be made, whatever else is said of it.
#[derive(Clone, Default)]
pub(crate) struct Noted(Arc<Mutex<Option<Instead>>>);

impl Noted {
    pub(crate) fn note(&self, instead: Instead) {
        // The first call that could not be made decides.
        self.lock().get_or_insert(instead);
    }

    pub(crate) fn take(&self) -> Option<Instead> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instead>> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
