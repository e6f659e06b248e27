//! When a second copy of a call is worth its price: the first has been open for longer than nine of
//! ten calls of its model take, and few copies were made so far.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, timeout};

/// Latencies of a model that are remembered.
const WINDOW: usize = 256;
/// Calls after which its latencies are believed.
const EVIDENCE: usize = 20;
/// Models that are remembered.
const MODELS_MAX: usize = 64;
/// A call that has been open for so many times as long as nine of ten take hangs.
const HANGS: u32 = 4;
/// Of ten copies, those that calls may have that are only slow: a copy that is used up on them is
/// missing where a call hangs, which waits for its limit of time.
const FOR_SLOW: u64 = 8;
/// When a call looks again that nobody woke.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Knows how long calls take, and how many were made twice.
#[derive(Debug, Default)]
pub(crate) struct Hedge(Mutex<HashMap<String, Known>>);

#[derive(Debug, Default)]
struct Known {
    recent: VecDeque<Duration>,
    calls: u64,
    copies: u64,
    /// Wakes calls for which nothing could be said, or no copy was left: only answers change that.
    answered: Arc<Notify>,
}

/// What is due for a call.
#[derive(Debug)]
enum Due {
    /// A copy of it is to be made.
    Copy,
    /// It is not late before this time is over.
    Wait(Duration),
    /// What more answers allow, or this time.
    Answer(OwnedNotified, Duration),
}

impl Hedge {
    /// Notes an answered call.
    pub(crate) fn answered(&self, model: &str, took: Duration) {
        let mut all = self.lock();
        let known = known(&mut all, model);
        known.calls += 1;
        if known.recent.len() == WINDOW {
            known.recent.pop_front();
        }
        known.recent.push_back(took);
        if known.recent.len() == EVIDENCE {
            // All of them have a patience now.
            known.answered.notify_waiters();
        }
        // One answer is at most one copy more.
        known.answered.notify_one();
    }

    /// Returns when a copy of a call is to be made that began at `since`. Of a thousand calls at most
    /// `permille` are copied; a call for which there is no copy left gets one later, when others were
    /// answered, since those that hang wait longer than those that are a little slow.
    pub(crate) async fn due(&self, model: &str, permille: u32, since: Instant) {
        loop {
            match self.look(model, permille, since.elapsed()) {
                Due::Copy => return,
                Due::Wait(time) => tokio::time::sleep(time).await,
                // Whoever was woken may be one of another run that may copy less.
                Due::Answer(answered, time) => drop(timeout(time, answered).await),
            }
        }
    }

    fn look(&self, model: &str, permille: u32, open: Duration) -> Due {
        let mut all = self.lock();
        // Those who wait must not push each other out.
        if !all.contains_key(model) && all.len() >= MODELS_MAX {
            return Due::Wait(LOOK_AGAIN);
        }
        let known = known(&mut all, model);
        // Under the lock, so that no answer comes between the look and the wait.
        let answer =
            |known: &Known, time| Due::Answer(Arc::clone(&known.answered).notified_owned(), time);
        let Some(patience) = known.patience() else {
            return answer(known, LOOK_AGAIN);
        };
        if open < patience {
            return Due::Wait(patience - open);
        }
        let hangs_in = (patience * HANGS).saturating_sub(open);
        if !known.has_copy(permille, hangs_in.is_zero()) {
            let time = if hangs_in.is_zero() {
                LOOK_AGAIN
            } else {
                hangs_in.min(LOOK_AGAIN)
            };
            return answer(known, time);
        }
        known.copies += 1;
        if known.has_copy(permille, true) {
            // Whoever was woken may have left one.
            known.answered.notify_one();
        }
        Due::Copy
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what is known of a model; of too many, all is forgotten.
fn known<'a>(all: &'a mut HashMap<String, Known>, model: &str) -> &'a mut Known {
    if !all.contains_key(model) && all.len() >= MODELS_MAX {
        for known in all.values() {
            known.answered.notify_waiters();
        }
        all.clear();
    }
    all.entry(model.to_owned()).or_default()
}

impl Known {
    /// Whether one more call may be copied, which hangs or is only slow.
    fn has_copy(&self, permille: u32, hangs: bool) -> bool {
        let share = if hangs { 10 } else { FOR_SLOW };
        (self.copies + 1) * 10_000 <= self.calls * u64::from(permille) * share
    }

    /// Returns how long a call may be open before a copy of it is made.
    fn patience(&self) -> Option<Duration> {
        if self.recent.len() < EVIDENCE {
            return None;
        }
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        let (_, patience, _) = sorted.select_nth_unstable(self.recent.len() * 9 / 10);
        Some(*patience)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const NONE: Duration = Duration::ZERO;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns how long a call still waits: nothing if its copy is due.
    #[track_caller]
    fn wait(hedge: &Hedge, model: &str, open: u64) -> Option<Duration> {
        match hedge.look(model, 100, ms(open)) {
            Due::Copy => None,
            Due::Wait(time) => Some(time),
            Due::Answer(..) => panic!("it waits for answers"),
        }
    }

    fn waits_for_answers(hedge: &Hedge, permille: u32, open: Duration) -> bool {
        matches!(hedge.look("m", permille, open), Due::Answer(..))
    }

    #[test]
    fn patience_is_what_nine_of_ten_calls_take() {
        let hedge = Hedge::default();
        assert!(waits_for_answers(&hedge, 100, NONE));
        for time in 1..=100 {
            hedge.answered("m", ms(time));
        }
        assert_eq!(wait(&hedge, "m", 0), Some(ms(91)));
        assert_eq!(wait(&hedge, "m", 90), Some(ms(1)));
        assert_eq!(wait(&hedge, "m", 91), None);
        assert!(matches!(hedge.look("other", 100, ms(91)), Due::Answer(..)));
        for _ in 0..2 * WINDOW {
            hedge.answered("m", ms(7));
        }
        assert_eq!(wait(&hedge, "m", 0), Some(ms(7)));
    }

    #[test]
    fn copies_are_a_bounded_share_of_calls() {
        let hedge = Hedge::default();
        let late = Duration::from_secs(9);
        let mut copies = 0;
        for i in 1..=1_000 {
            hedge.answered("m", ms(i));
            copies += u32::from(matches!(hedge.look("m", 100, late), Due::Copy));
            assert!(u64::from(copies) * 10 <= i);
        }
        assert_eq!(copies, 100);
        assert!(waits_for_answers(&hedge, 0, late));
    }

    #[test]
    fn a_call_that_hangs_gets_its_copy_though_slow_ones_took_all_there_were() {
        let hedge = Hedge::default();
        for _ in 0..30 {
            hedge.answered("m", ms(50));
        }
        for _ in 0..2 {
            assert_eq!(wait(&hedge, "m", 51), None);
        }
        assert!(waits_for_answers(&hedge, 100, ms(51)));
        // There is one for a call that hangs, though nobody answers any more: a run may be at its end.
        assert!(waits_for_answers(&hedge, 100, ms(199)));
        assert_eq!(wait(&hedge, "m", 200), None);
        assert!(waits_for_answers(&hedge, 100, ms(200)));
    }

    /// An answer makes a late call look again, before any clock does.
    #[tokio::test]
    async fn late_calls_are_woken_by_answers_and_as_many_as_there_are_copies() {
        let (hedge, since) = (Hedge::default(), Instant::now());
        let mut calls: Vec<_> = (0..5)
            .map(|_| Box::pin(hedge.due("m", 100, since)))
            .collect();
        let mut due = || {
            calls.retain_mut(|call| call.now_or_never().is_none());
            5 - calls.len()
        };
        assert_eq!(due(), 0);
        for n in 1..=30 {
            hedge.answered("m", NONE);
            let (now, enough) = (due(), n >= EVIDENCE);
            assert_eq!(now, if enough { n / 10 } else { 0 }, "{n} answers");
        }
        // What one leaves another takes.
        for _ in 0..20 {
            hedge.answered("m", NONE);
        }
        assert_eq!(due(), 5);
    }
}
