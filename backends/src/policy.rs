//! What follows a failed exchange: the one place that decides it.

use std::time::Duration;

use skillopt_runtime::Retry;
use skillopt_runtime::retry::HINT_MAX;

use crate::error::Disposition;

/// Returns how long to wait before the next try; `None` if there is none. `failures` counts the
/// tries so far, and `unit` in [0, 1) spreads the waits.
///
/// A provider is never asked again sooner than it said. One that names more than [`HINT_MAX`] is
/// not waited for: a person should know of it.
#[must_use]
pub fn next_wait(
    disposition: Disposition,
    retry: &Retry,
    failures: u32,
    unit: f64,
) -> Option<Duration> {
    match disposition {
        Disposition::Retry(Some(hint)) if hint > HINT_MAX => None,
        Disposition::Retry(hint) => retry.wait(failures, hint, unit),
        Disposition::GiveUp | Disposition::StopRun => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again_and_never_too_soon() {
        let retry = Retry {
            attempts: 2,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(30),
        };
        let hint = |seconds| Disposition::Retry(Some(Duration::from_secs(seconds)));
        for (disposition, failures, want) in [
            (Disposition::Retry(None), 1, Some(100)),
            (Disposition::Retry(None), 2, None),
            (hint(300), 1, Some(300_000)),
            (hint(3_601), 1, None),
            (Disposition::GiveUp, 1, None),
            (Disposition::StopRun, 1, None),
        ] {
            let seen = next_wait(disposition, &retry, failures, 0.0);
            let want = want.map(Duration::from_millis);
            assert_eq!(seen, want, "{disposition:?} {failures}");
        }
    }
}
