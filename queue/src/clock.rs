//! Time, as a queue sees it.
//!
//! A queue has one clock, never one per worker: leases and delays are judged by it alone. In
//! production it is [`SystemClock`], under test [`TestClock`].

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use skillopt_runtime::clock::unix_ms;
use tokio::sync::watch;
use tokio::time::Instant;

/// A point in time, in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Takes milliseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Returns milliseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// Returns this time and `wait` more, at most the last representable time.
    #[must_use]
    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(to_ms(wait)))
    }

    /// Returns how long ago `earlier` was, zero if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Rounds up, so that a wait never ends early.
fn to_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The future of [`Clock::sleep_until`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time. It never goes back.
    fn now(&self) -> Timestamp;

    /// Waits until [`Clock::now`] has reached `until`. Dropping the future ends the wait.
    fn sleep_until(&self, until: Timestamp) -> Sleep;
}

/// The machine's time, taken once; from then on it advances steadily, whatever happens to the
/// machine's calendar.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: Instant,
    origin_ms: u64,
}

impl SystemClock {
    /// Starts at the machine's present time.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            origin_ms: unix_ms(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.origin_ms.saturating_add(elapsed))
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep {
        let wait = Duration::from_millis(until.0.saturating_sub(self.origin_ms));
        // A wait beyond what the timer can express is a wait for ever.
        match self.origin.checked_add(wait) {
            Some(at) => Box::pin(tokio::time::sleep_until(at)),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// A clock that stands still until a test advances it. Clones show the same time.
#[derive(Clone, Debug)]
pub struct TestClock {
    now: watch::Sender<Timestamp>,
}

impl TestClock {
    /// Starts at 1,000,000 ms.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: watch::Sender::new(Timestamp(1_000_000)),
        }
    }

    /// Moves the time on and wakes whoever waited for it.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now = now.plus(by));
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep {
        let mut now = self.now.subscribe();
        Box::pin(async move {
            // If the clock is gone, time stands still for ever.
            if now.wait_for(|now| *now >= until).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_at_its_time() {
        let clock = TestClock::new();
        let until = clock.now().plus(Duration::from_millis(10));
        let sleep = tokio::spawn(clock.sleep_until(until));
        clock.advance(Duration::from_millis(9));
        tokio::task::yield_now().await;
        assert!(!sleep.is_finished());
        clock.advance(Duration::from_millis(1));
        sleep.await.unwrap();
    }

    #[test]
    fn waits_are_rounded_up() {
        let start = Timestamp::from_ms(5);
        assert_eq!(start.plus(Duration::from_micros(1)).as_ms(), 6);
        assert_eq!(start.plus(Duration::MAX).as_ms(), u64::MAX);
        assert_eq!(start.since(Timestamp::from_ms(9)), Duration::ZERO);
    }
}
