//! Whether a place does what it is asked, as its calls see it.
//!
//! A call is tried again inside for a long time before it fails, and whoever made it asks on. So a
//! place counts as away not when calls have failed, but when nothing was answered for a while.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A place that leaves calls without an answer for longer than this, or fails them, is away.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(4);

/// What is known of a place. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// Calls without an answer by their number: when each began, and how long it may take.
    pending: BTreeMap<u64, (Instant, Duration)>,
    next: u64,
    /// The last answer.
    answered: Option<Instant>,
    /// Since when calls fail, and the last cause, as long as none was answered since.
    failing: Option<(Instant, Option<String>)>,
}

/// A place that is away.
pub(super) struct Absence {
    pub(super) since: Instant,
    /// What the last failed call said; none has failed yet if it is absent.
    pub(super) cause: Option<String>,
    /// Whether a call is under way that will tell when the place is back.
    pub(super) is_asked: bool,
}

/// A call under way.
pub(super) struct Asked {
    watch: Watch,
    number: u64,
}

impl Watch {
    /// A call begins, which may take this long beyond what every call may.
    pub(super) fn begin(&self, transfer: Duration) -> Asked {
        let mut known = self.lock();
        let number = known.next;
        known.next += 1;
        let call = (Instant::now(), QUIET_MAX + transfer);
        known.pending.insert(number, call);
        Asked {
            watch: self.clone(),
            number,
        }
    }

    /// Returns since when the place is away, `None` if it is not.
    pub(super) fn absence(&self) -> Option<Absence> {
        let (now, known) = (Instant::now(), self.lock());
        let late = |call: &(Instant, Duration)| {
            let since = known.since(call.0);
            (now - since > call.1).then_some(since)
        };
        let late = known.pending.values().filter_map(late).min();
        let failing = known.failing.as_ref().map(|(since, _)| *since);
        let failing = failing.filter(|since| now - *since > QUIET_MAX);
        Some(Absence {
            since: late.into_iter().chain(failing).min()?,
            cause: known.failing.as_ref().and_then(|(_, cause)| cause.clone()),
            is_asked: !known.pending.is_empty(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns since when a call that began then is without an answer: others may have had one.
    fn since(&self, began: Instant) -> Instant {
        self.answered.map_or(began, |at| at.max(began))
    }

    fn fails(&mut self, since: Instant, cause: Option<String>) {
        let since = self.failing.take().map_or(since, |(first, _)| first);
        self.failing = Some((since, cause));
    }
}

impl Asked {
    /// The place has answered, were it that there is nothing.
    pub(super) fn answered(&self) {
        let mut known = self.watch.lock();
        known.answered = Some(Instant::now());
        known.failing = None;
        known.pending.remove(&self.number);
    }

    /// The call has failed.
    pub(super) fn failed(&self, cause: &str) {
        let mut known = self.watch.lock();
        if let Some((began, _)) = known.pending.remove(&self.number) {
            let since = known.since(began);
            known.fails(since, Some(cause.to_owned()));
        }
    }
}

/// Nobody waits for the answer any more: a call that was late then stands for the others.
impl Drop for Asked {
    fn drop(&mut self) {
        let mut known = self.watch.lock();
        if let Some((began, max)) = known.pending.remove(&self.number) {
            let since = known.since(began);
            if since.elapsed() > max {
                let cause = known.failing.as_ref().and_then(|(_, cause)| cause.clone());
                known.fails(since, cause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const NO: &str = "connection refused";

    fn seconds(watch: &Watch) -> Option<u64> {
        watch.absence().map(|away| away.since.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_away_once_nothing_was_answered_for_a_while() {
        let watch = Watch::default();
        let (small, large) = (
            watch.begin(Duration::ZERO),
            watch.begin(Duration::from_secs(9)),
        );
        advance(Duration::from_secs(4)).await;
        assert_eq!(seconds(&watch), None);
        advance(Duration::from_secs(1)).await;
        assert_eq!(seconds(&watch), Some(5));
        // What one call hears counts for all of them.
        small.answered();
        assert_eq!(seconds(&watch), None);
        advance(Duration::from_secs(13)).await;
        assert_eq!(seconds(&watch), None, "a large value takes its time");
        advance(Duration::from_secs(1)).await;
        assert_eq!(seconds(&watch), Some(14));
        large.failed(NO);
        let away = watch.absence().unwrap();
        assert_eq!(away.cause.as_deref(), Some(NO));
        assert!(!away.is_asked, "somebody has to find out when it is back");
    }

    #[tokio::test(start_paused = true)]
    async fn it_stays_away_between_calls_and_when_one_is_given_up() {
        let watch = Watch::default();
        watch.begin(Duration::ZERO).failed(NO);
        assert_eq!(seconds(&watch), None, "one failure is nothing yet");
        advance(Duration::from_secs(5)).await;
        watch.begin(Duration::ZERO).failed(NO);
        assert_eq!(seconds(&watch), Some(5));
        watch.begin(Duration::ZERO).answered();
        assert_eq!(seconds(&watch), None);

        let (quick, late) = (watch.begin(Duration::ZERO), watch.begin(Duration::ZERO));
        drop(quick);
        advance(Duration::from_secs(6)).await;
        drop(late);
        assert_eq!(seconds(&watch), Some(6));
        assert!(watch.absence().is_some_and(|away| away.cause.is_none()));
    }
}
