//! Waiting for a queue or a store that is away.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use skillopt_queue::store;
use skillopt_runtime::Retry;

/// How often somebody asks again; whoever waits is stopped from outside.
const POLICY: Retry = Retry {
    attempts: u32::MAX,
    base: Duration::from_millis(100),
    cap: Duration::from_secs(3),
};

/// Spreads the waits of many, so that they do not all come back at once.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Waits longer with each failure.
#[derive(Default)]
pub(crate) struct Patience {
    failures: u32,
}

impl Patience {
    pub(crate) async fn wait(&mut self) {
        self.failures = self.failures.saturating_add(1);
        // Steps by the golden ratio fall evenly into [0, 1).
        let step = NEXT.fetch_add(0x9e37_79b9, Ordering::Relaxed);
        let unit = f64::from(step) / (f64::from(u32::MAX) + 1.0);
        if let Some(wait) = POLICY.wait(self.failures, None, unit) {
            tokio::time::sleep(wait).await;
        }
    }
}

/// Returns whether a failure of the place that keeps jobs or results may pass by itself.
pub(crate) fn may_pass(error: &store::Error) -> bool {
    matches!(
        error,
        store::Error::Busy { .. } | store::Error::Io { .. } | store::Error::Full { .. }
    )
}
