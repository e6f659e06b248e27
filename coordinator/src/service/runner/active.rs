//! A run at work, and how it is stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skillopt_queue::Fence;
use skillopt_runtime::Shutdown;
use tokio::time::Instant;

/// Why a run at work is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A person wishes so; the record says what.
    Wish,
    /// The coordinator leaves: others go on.
    Drain,
    /// It got its first cap: whoever goes on asks the ledger before each call.
    Capped,
    /// Another coordinator has the run, or may have it.
    Lost,
    /// At once, as if the machine had died.
    Now,
}

/// One run at work; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Active {
    /// The right to it.
    pub(super) fence: Fence,
    /// Stops its loop: `drain` lets it end cleanly, `now` drops it.
    pub(super) shutdown: Shutdown,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    why: Option<Why>,
    /// When the right to it was last confirmed; taken before the question was sent.
    renewed: Instant,
    /// Events that were written before this coordinator began.
    known_events: Option<u64>,
    /// It got further than ever before, and the record says so.
    has_moved: bool,
    /// Its loop began when no purse had a cap, so that its calls ask nobody.
    is_uncapped: bool,
}

impl Active {
    pub(super) fn new(fence: Fence, renewed: Instant) -> Self {
        let state = State {
            why: None,
            renewed,
            known_events: None,
            has_moved: false,
            is_uncapped: false,
        };
        Self {
            fence,
            shutdown: Shutdown::new(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Stops it; the first reason counts, except that what stops at once always does.
    pub(super) fn stop(&self, why: Why) {
        let mut state = self.lock();
        let is_sudden = matches!(why, Why::Lost | Why::Now);
        if state.why.is_none() || is_sudden {
            state.why = Some(why);
        }
        self.shutdown.drain.cancel();
        if is_sudden {
            self.shutdown.now.cancel();
        }
    }

    pub(super) fn why(&self) -> Option<Why> {
        self.lock().why
    }

    pub(super) fn renewed(&self) -> Instant {
        self.lock().renewed
    }

    pub(super) fn set_renewed(&self, at: Instant) {
        self.lock().renewed = at;
    }

    pub(super) fn set_known_events(&self, events: u64) {
        self.lock().known_events = Some(events);
    }

    /// Returns whether `committed` events are more than there were, for the first time.
    pub(super) fn moves(&self, committed: u64) -> bool {
        let state = self.lock();
        !state.has_moved && state.known_events.is_some_and(|known| committed > known)
    }

    pub(super) fn is_uncapped(&self) -> bool {
        self.lock().is_uncapped
    }

    pub(super) fn set_uncapped(&self) {
        self.lock().is_uncapped = true;
    }

    pub(super) fn set_moved(&self) {
        self.lock().has_moved = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No section under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All runs at work.
#[derive(Debug, Default)]
pub(super) struct Actives(Mutex<HashMap<String, Active>>);

impl Actives {
    pub(super) fn add(&self, id: &str, active: Active) {
        self.lock().insert(id.to_owned(), active);
    }

    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn all(&self) -> Vec<(String, Active)> {
        let all = self.lock();
        all.iter().map(|(id, a)| (id.clone(), a.clone())).collect()
    }

    pub(super) fn stop_all(&self, why: Why) {
        for (_, active) in self.all() {
            active.stop(why);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Active>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
