//! The numbers by which accounts are slowed down and recover; `rates.lua` is handed the same.

use std::time::Duration;

/// What one more outcome weighs in the moving share of throttled calls.
pub(crate) const WEIGHT: f64 = 0.05;
/// Below this share of throttled calls the others go on: the provider bears the load.
pub(crate) const THROTTLED_SHARE: f64 = 0.2;
/// Outcomes after which the share is believed.
pub(crate) const EVIDENCE: u64 = 20;
/// What remains of the calls at once after throttling.
pub(crate) const CUT: f64 = 0.6;
/// First and longest pause after throttling without a wait that the provider named.
pub(crate) const PAUSES: (Duration, Duration) =
    (Duration::from_millis(500), Duration::from_secs(30));
/// A provider's own wait is followed up to this.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// Failures in a row, over at least the span, that open the circuit.
pub(crate) const BREAKER_FAILURES: u32 = 10;
/// See [`BREAKER_FAILURES`].
pub(crate) const BREAKER_SPAN: Duration = Duration::from_secs(2);
/// First and longest pause of an open circuit.
pub(crate) const BREAKER_PAUSES: (Duration, Duration) =
    (Duration::from_secs(5), Duration::from_secs(120));
/// When to ask again where only the end of another call makes room.
pub(crate) const STEPS: Duration = Duration::from_millis(100);
/// Nobody is told to come later than this by a limit per minute; then they ask again.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);
