//! How long to wait before trying again.

use std::time::Duration;

/// A retry policy: exponential, capped, with full jitter above half the step.
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
        let own = step.mul_f64(0.5 + 0.5 * unit.clamp(0.0, 1.0));
        Some(hint.map_or(own, |h| {
            h.min(HINT_MAX) + self.base.min(self.cap).mul_f64(0.1 * unit.clamp(0.0, 1.0))
        }))
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
    fn check(failures: u32, hint: Option<u64>, expected: Option<u64>) {
        let wait = RETRY.wait(failures, hint.map(Duration::from_millis), 0.0);
        assert_eq!(wait, expected.map(Duration::from_millis));
    }

    #[test]
    fn waits_double_up_to_the_cap_and_end_without_a_last_sleep() {
        check(1, None, Some(50));
        check(2, None, Some(100));
        check(3, None, Some(150));
        check(4, None, None);
    }

    #[test]
    fn the_providers_hint_wins_up_to_a_limit() {
        check(1, Some(1_000), Some(1_000));
        check(1, Some(10_000_000), Some(3_600_000));
    }
}
