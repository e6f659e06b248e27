//! How long to wait before trying again.

use std::time::Duration;

/// A retry policy: exponential, capped, with full jitter: of those that failed together, no two need to
/// come back together, and some come back at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, the first one included; at least 1.
    pub attempts: u32,
    /// Wait after the first failure.
    pub base: Duration,
    /// No wait that we choose is longer than this.
    pub cap: Duration,
}

/// A provider's own hint is followed up to this; a longer one is capped.
pub const HINT_MAX: Duration = Duration::from_secs(3_600);

impl Retry {
    /// Returns the wait after failure number `failures` (1 = the first), or `None` if the attempts
    /// are used up. `hint` is the provider's Retry-After; `unit` in [0, 1) spreads the waits.
    #[must_use]
    pub fn wait(&self, failures: u32, hint: Option<Duration>, unit: f64) -> Option<Duration> {
        if failures >= self.attempts.max(1) {
            return None;
        }
        let step = self
            .base
            .saturating_mul(1u32 << failures.saturating_sub(1).min(20))
            .min(self.cap);
        let unit = unit.clamp(0.0, 1.0);
        // Nobody comes back within no time at all.
        let least = self.least();
        let own = least + step.saturating_sub(least).mul_f64(unit);
        Some(hint.map_or(own, |h| h.min(HINT_MAX) + least.mul_f64(unit)))
    }

    /// Returns the shortest wait: a tenth of the first step.
    #[must_use]
    pub fn least(&self) -> Duration {
        self.base.min(self.cap) / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry = Retry {
        attempts: 4,
        base: Duration::from_millis(100),
        cap: Duration::from_millis(300),
    };

    #[track_caller]
    fn check(failures: u32, hint: Option<u64>, expected: Option<[u64; 3]>) {
        for (at, unit) in [0.0, 0.5, 1.0].into_iter().enumerate() {
            let wait = RETRY.wait(failures, hint.map(Duration::from_millis), unit);
            let expected = expected.map(|waits| Duration::from_millis(waits[at]));
            assert_eq!(wait, expected, "{failures} {unit}");
        }
    }

    #[test]
    fn waits_lie_anywhere_below_steps_that_double_up_to_the_cap() {
        check(1, None, Some([10, 55, 100]));
        check(2, None, Some([10, 105, 200]));
        check(3, None, Some([10, 155, 300]));
    }

    #[test]
    fn there_is_no_wait_after_the_last_try() {
        check(4, None, None);
    }

    #[test]
    fn the_providers_hint_wins_up_to_a_limit() {
        check(1, Some(1_000), Some([1_000, 1_005, 1_010]));
        check(1, Some(10_000_000), Some([3_600_000, 3_600_005, 3_600_010]));
    }
}
