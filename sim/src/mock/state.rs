//! A script at work, and what was asked of it.

use std::sync::{Arc, Mutex, PoisonError};

use super::log::Log;
use super::pick::Counters;
use super::script::Script;

/// A script at work.
pub(super) struct State {
    running: Mutex<Arc<Running>>,
    pub(super) log: Log,
}

pub(super) struct Running {
    pub(super) script: Script,
    pub(super) counters: Counters,
}

impl State {
    pub(super) fn new(script: Script) -> Self {
        Self {
            running: Mutex::new(Arc::new(Running::of(script))),
            log: Log::default(),
        }
    }

    pub(super) fn set(&self, script: Script) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Running::of(script));
    }

    pub(super) fn running(&self) -> Arc<Running> {
        Arc::clone(&self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Running {
    fn of(script: Script) -> Self {
        Self {
            counters: Counters::of(&script),
            script,
        }
    }
}
