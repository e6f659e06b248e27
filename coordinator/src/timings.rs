//! How long the parts of a run took. Written to `timings.json`, the one file of a run folder that
//! differs between equal runs.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};
use skillopt_runtime::clock::Stopwatch;

/// Collects durations, in seconds.
#[derive(Debug)]
pub struct Timings {
    start: Stopwatch,
    laps: Mutex<(f64, Map<String, Value>)>,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            start: Stopwatch::start(),
            laps: Mutex::default(),
        }
    }
}

impl Timings {
    /// Names the time since the last lap.
    pub fn lap(&self, name: &str) {
        let now = self.start.seconds();
        let mut laps = self.laps.lock().unwrap_or_else(PoisonError::into_inner);
        let took = ((now - laps.0) * 1_000.0).round() / 1_000.0;
        laps.0 = now;
        laps.1.insert(name.to_owned(), took.into());
    }

    /// Returns all laps of this process, the time since its start, and what it has used.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let laps = self.laps.lock().unwrap_or_else(PoisonError::into_inner);
        let used = skillopt_runtime::limits::used();
        json!({
            "unit": "seconds",
            "laps": laps.1,
            "total_wall_time_s": self.start.seconds(),
            "cpu_s": used.cpu_s,
            "peak_rss_mib": used.peak_rss_mib,
        })
    }
}
