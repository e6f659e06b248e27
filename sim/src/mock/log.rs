//! What was asked, for tests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

/// Most requests that are kept.
const KEPT: usize = 2_000;

/// One request.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Number, from 1.
    pub request: u64,
    /// `POST`, …
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Headers; of credentials only a fingerprint.
    pub headers: BTreeMap<String, String>,
    /// The body; `null` if it was no JSON.
    pub body: Value,
    /// Interface, or empty.
    pub api: &'static str,
    /// Number of the rule that answered; one past the last for the default.
    pub rule: usize,
    /// Tool rounds before it.
    pub turn: usize,
    /// Status of the answer, 0 if there was none.
    pub status: u16,
    /// Name of the fault that struck, or empty.
    pub fault: String,
    /// Tokens that were told: sent, received.
    pub tokens: (u64, u64),
}

#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    requests: u64,
    by_api: BTreeMap<String, u64>,
    by_status: BTreeMap<u16, u64>,
    in_flight: u64,
    in_flight_max: u64,
}

/// All requests, the last ones in full.
#[derive(Default)]
pub(super) struct Log(Mutex<Kept>);

impl Log {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request; returns its number.
    pub(super) fn begin(&self) -> u64 {
        let mut kept = self.lock();
        kept.requests += 1;
        kept.in_flight += 1;
        kept.in_flight_max = kept.in_flight_max.max(kept.in_flight);
        kept.requests
    }

    pub(super) fn end(&self) {
        let mut kept = self.lock();
        kept.in_flight = kept.in_flight.saturating_sub(1);
    }

    pub(super) fn add(&self, entry: Entry) {
        let mut kept = self.lock();
        *kept.by_api.entry(entry.api.to_owned()).or_default() += 1;
        *kept.by_status.entry(entry.status).or_default() += 1;
        if kept.entries.len() == KEPT {
            kept.entries.pop_front();
        }
        kept.entries.push_back(entry);
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.lock().entries.iter().cloned().collect()
    }

    pub(super) fn stats(&self) -> Value {
        let kept = self.lock();
        serde_json::json!({
            "requests": kept.requests,
            "by_api": kept.by_api,
            "by_status": kept.by_status,
            "in_flight": kept.in_flight,
            "max_in_flight": kept.in_flight_max,
        })
    }

    pub(super) fn reset(&self) {
        let mut kept = self.lock();
        let in_flight = kept.in_flight;
        *kept = Kept {
            in_flight,
            ..Kept::default()
        };
    }
}
