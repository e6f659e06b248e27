//! One call at a time opens the first connection to a server.
//!
//! Whether a server speaks HTTP/2 shows only when a connection is open. Without this, a thousand
//! calls that come at once would open a thousand of them, to use one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use http::uri::Authority;
use tokio::sync::watch;

/// What is known of the connections to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is none.
    Cold,
    /// A call opens the first one.
    Opening,
    /// There was one, or it could not be opened: calls need not wait for each other.
    Open,
}

/// The gates of all servers.
#[derive(Default)]
pub(super) struct Gates(Mutex<HashMap<Authority, Arc<Gate>>>);

impl Gates {
    pub(super) fn of(&self, uri: &Uri) -> Option<Arc<Gate>> {
        let authority = uri.authority()?;
        // No section under this lock can panic half-way.
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(authority) {
            return Some(Arc::clone(gate));
        }
        let gate = Arc::new(Gate::new());
        gates.insert(authority.clone(), Arc::clone(&gate));
        Some(gate)
    }
}

/// The gate of one server.
pub(super) struct Gate {
    state: watch::Sender<State>,
    live: Mutex<usize>,
}

/// Held by the call that opens the first connection. Others wait until it is open, or this is
/// dropped.
pub(super) struct Opening(Arc<Gate>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.change(State::Opening, State::Cold);
    }
}

/// Held by an open connection.
pub(super) struct Live(Arc<Gate>);

impl Drop for Live {
    fn drop(&mut self) {
        let mut live = self.0.live();
        *live -= 1;
        if *live == 0 {
            self.0.change(State::Open, State::Cold);
        }
    }
}

impl Gate {
    fn new() -> Self {
        Self {
            state: watch::Sender::new(State::Cold),
            live: Mutex::new(0),
        }
    }

    fn live(&self) -> std::sync::MutexGuard<'_, usize> {
        // No section under this lock can panic half-way.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, from: State, to: State) -> bool {
        self.state.send_if_modified(|state| {
            let is_change = *state == from;
            if is_change {
                *state = to;
            }
            is_change
        })
    }

    /// Waits while another call opens the first connection. Returns what the call holds that has
    /// to open it itself.
    pub(super) async fn pass(self: &Arc<Self>) -> Option<Opening> {
        let mut state = self.state.subscribe();
        let mut has_waited = false;
        loop {
            if self.change(State::Cold, State::Opening) {
                return Some(Opening(Arc::clone(self)));
            }
            if *state.borrow_and_update() == State::Open {
                if has_waited {
                    // The call that opened it has yet to share it.
                    tokio::task::yield_now().await;
                }
                return None;
            }
            has_waited = true;
            // The sender lives as long as this gate.
            let _ = state.changed().await;
        }
    }

    /// Notes that a connection is being opened; it counts until the value is dropped.
    pub(super) fn connect(self: &Arc<Self>) -> Live {
        *self.live() += 1;
        Live(Arc::clone(self))
    }

    /// Notes that an attempt to open one is over: a call that waits then finds it, or learns for
    /// itself why there is none.
    pub(super) fn open(&self) {
        self.state.send_replace(State::Open);
    }
}
