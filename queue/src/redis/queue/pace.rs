//! The distance between calls of one kind.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Shortest time from one call to the next. A call costs as much as dozens of jobs, so that under load
/// each should carry some; one after a quiet time goes at once.
const APART: Duration = Duration::from_millis(1);
/// From so many on, nothing is waited for.
pub(super) const ENOUGH: usize = 64;

/// Keeps calls of one kind apart.
#[derive(Default)]
pub(super) struct Pace(Option<Instant>);

impl Pace {
    /// Waits until the next call may go, unless it has `there` to carry already.
    pub(super) async fn turn(&mut self, there: usize) {
        if let Some(last) = self.0
            && there < ENOUGH
        {
            sleep_until(last + APART).await;
        }
        self.0 = Some(Instant::now());
    }
}
