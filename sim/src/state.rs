//! What a simulated model remembers: attempts for each key, and counters. Neither takes part in
//! the content of a reply.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::settings::Settings;
use crate::stage::Stage;

/// Most keys that are remembered, about 50 MB. Calls with further keys are answered as first
/// attempts and counted in [`Stats::keys_forgotten`].
const KEYS_MAX: usize = 1_000_000;

/// Counters since the start or the last reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Calls that came in.
    pub calls: u64,
    /// Proper answers by stage.
    pub ok: BTreeMap<Stage, u64>,
    /// Answers by HTTP status, those to bad requests included.
    pub statuses: BTreeMap<u16, u64>,
    /// Calls whose key had been properly answered before.
    pub repeats: u64,
    /// Calls whose caller went away before the answer, or in the middle of the request.
    pub aborted: u64,
    /// Calls whose connection was cut on purpose.
    pub cut: u64,
    /// Calls that are being worked on.
    pub in_flight: u64,
    /// Most calls that were worked on at once.
    pub in_flight_max: u64,
    /// Bytes of the calls' texts.
    pub bytes_in: u64,
    /// Bytes of the answers' texts.
    pub bytes_out: u64,
    /// Different keys that are remembered.
    pub keys: u64,
    /// Calls whose key is not remembered, because there are too many.
    pub keys_forgotten: u64,
    /// CPU seconds of this process, user and system.
    pub cpu_seconds: f64,
}

/// Memory and counters behind one lock, which is held for a few map operations at a time.
#[derive(Debug, Default)]
pub(crate) struct State(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stats: Stats,
    keys: HashMap<u64, Seen>,
    second: Option<(Instant, u64)>,
}

#[derive(Debug, Default)]
struct Seen {
    attempts: u32,
    is_answered: bool,
}

/// A call that came in.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    /// Earlier calls with the same key.
    pub(crate) attempt: u32,
    /// Whether a limit refuses it.
    pub(crate) is_over_limit: bool,
    /// Keeps it counted as in flight.
    pub(crate) flight: Flight<'a>,
}

impl State {
    /// Takes in a call whose key has the hash `key`.
    pub(crate) fn admit(&self, settings: &Settings, key: u64, bytes: usize) -> Admission<'_> {
        let mut inner = self.lock();
        let attempt = inner.count_attempt(key);
        let is_over_rate = settings.rps.is_some_and(|rps| inner.is_over_rate(rps));
        let stats = &mut inner.stats;
        let is_full = settings
            .max_inflight
            .is_some_and(|max| stats.in_flight >= max);
        stats.calls += 1;
        stats.bytes_in += bytes as u64;
        stats.in_flight += 1;
        stats.in_flight_max = stats.in_flight_max.max(stats.in_flight);
        Admission {
            attempt,
            is_over_limit: is_full || is_over_rate,
            flight: Flight {
                state: self,
                key,
                is_over: false,
            },
        }
    }

    /// Counts an answer to something that was no call.
    pub(crate) fn note_status(&self, status: u16) {
        *self.lock().stats.statuses.entry(status).or_default() += 1;
    }

    /// Counts a client that went away before its request was a call.
    pub(crate) fn note_aborted(&self) {
        self.lock().stats.aborted += 1;
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> Stats {
        let inner = self.lock();
        let mut stats = inner.stats.clone();
        stats.keys = inner.keys.len() as u64;
        drop(inner);
        stats.cpu_seconds = cpu_seconds();
        stats
    }

    /// Forgets all keys and counters; calls in flight stay counted as such.
    pub(crate) fn reset(&self) {
        let mut inner = self.lock();
        let in_flight = inner.stats.in_flight;
        *inner = Inner::default();
        inner.stats.in_flight = in_flight;
        inner.stats.in_flight_max = in_flight;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Counters are whole after each statement, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn count_attempt(&mut self, key: u64) -> u32 {
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(&key) {
            self.stats.keys_forgotten += 1;
            return 0;
        }
        let seen = self.keys.entry(key).or_default();
        let attempt = seen.attempts;
        seen.attempts = attempt.saturating_add(1);
        self.stats.repeats += u64::from(seen.is_answered);
        attempt
    }

    /// Counts a call in the current second.
    fn is_over_rate(&mut self, rps: u64) -> bool {
        let now = Instant::now();
        let (start, count) = match self.second {
            Some((start, count)) if now.duration_since(start) < Duration::from_secs(1) => {
                (start, count)
            }
            _ => (now, 0),
        };
        self.second = Some((start, count.saturating_add(1)));
        count >= rps
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With the proper answer of so many bytes.
    Answered(Stage, usize),
    /// With a status but without a proper answer.
    Status(u16),
    /// With its connection cut.
    Cut,
}

/// A call in flight. Dropped before its end it counts as aborted: its caller went away.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    state: &'a State,
    key: u64,
    is_over: bool,
}

impl Flight<'_> {
    /// Ends the call.
    pub(crate) fn end(mut self, ending: Ending) {
        self.is_over = true;
        let mut inner = self.state.lock();
        match ending {
            Ending::Answered(stage, bytes) => {
                inner.stats.bytes_out += bytes as u64;
                *inner.stats.ok.entry(stage).or_default() += 1;
                *inner.stats.statuses.entry(200).or_default() += 1;
                if let Some(seen) = inner.keys.get_mut(&self.key) {
                    seen.is_answered = true;
                }
            }
            Ending::Status(status) => *inner.stats.statuses.entry(status).or_default() += 1,
            Ending::Cut => inner.stats.cut += 1,
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut inner = self.state.lock();
        inner.stats.in_flight = inner.stats.in_flight.saturating_sub(1);
        inner.stats.aborted += u64::from(!self.is_over);
    }
}

fn cpu_seconds() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;

    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        micros as f64 / 1e6
    })
}
