//! The only place that looks at the system's clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Measures how long something took.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that may")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Returns the time since the start in seconds, rounded to milliseconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        (self.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0
    }
}

/// Returns the milliseconds since 1970, UTC.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that may")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
