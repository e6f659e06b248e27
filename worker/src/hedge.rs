//! When a second copy of a call is worth its price: the first has been open for longer than nine of
//! ten calls of its model take, and few copies were made so far.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Latencies of a model that are remembered.
const WINDOW: usize = 256;
/// Calls after which its latencies are believed.
const EVIDENCE: usize = 20;
/// When a call is looked at again of which nothing could be said.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Models that are remembered.
const MODELS_MAX: usize = 64;

/// Knows how long calls take, and how many were made twice.
#[derive(Debug, Default)]
pub(crate) struct Hedge(Mutex<HashMap<String, Known>>);

#[derive(Debug, Default)]
struct Known {
    recent: VecDeque<Duration>,
    calls: u64,
    copies: u64,
}

impl Hedge {
    /// Notes an answered call.
    pub(crate) fn answered(&self, model: &str, took: Duration) {
        let mut all = self.lock();
        if !all.contains_key(model) && all.len() >= MODELS_MAX {
            all.clear();
        }
        let known = all.entry(model.to_owned()).or_default();
        known.calls += 1;
        if known.recent.len() == WINDOW {
            known.recent.pop_front();
        }
        known.recent.push_back(took);
    }

    /// Says what is due for a call of a model that has been open for `open`: nothing if a copy of it is
    /// to be made now, else how long to wait before asking again. Of a thousand calls at most
    /// `permille` are copied; a call for which there is no copy left now may get one later, since those
    /// that hang wait longer than those that are a little slow.
    pub(crate) fn wait(&self, model: &str, permille: u32, open: Duration) -> Option<Duration> {
        let mut all = self.lock();
        let Some(known) = all.get_mut(model) else {
            return Some(LOOK_AGAIN);
        };
        let Some(patience) = known.patience() else {
            return Some(LOOK_AGAIN);
        };
        if open < patience {
            return Some(patience.saturating_sub(open));
        }
        let is_allowed = (known.copies + 1) * 1_000 <= known.calls * u64::from(permille);
        known.copies += u64::from(is_allowed);
        (!is_allowed).then(|| patience.clamp(LOOK_AGAIN / 10, LOOK_AGAIN))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
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
    use super::*;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn patience_is_what_nine_of_ten_calls_take() {
        let hedge = Hedge::default();
        assert_eq!(hedge.wait("m", 100, NONE), Some(LOOK_AGAIN));
        for ms in 1..=100 {
            hedge.answered("m", Duration::from_millis(ms));
        }
        let wait = |model: &str, open| hedge.wait(model, 100, Duration::from_millis(open));
        assert_eq!(wait("m", 0), Some(Duration::from_millis(91)));
        assert_eq!(wait("m", 90), Some(Duration::from_millis(1)));
        assert_eq!(wait("m", 91), None);
        assert_eq!(wait("other", 91), Some(LOOK_AGAIN));
        for _ in 0..2 * WINDOW {
            hedge.answered("m", Duration::from_millis(7));
        }
        assert_eq!(wait("m", 0), Some(Duration::from_millis(7)));
    }

    #[test]
    fn copies_are_a_bounded_share_of_calls() {
        let hedge = Hedge::default();
        let late = Duration::from_secs(9);
        let mut copies = 0;
        for i in 1..=1_000 {
            hedge.answered("m", Duration::from_millis(i));
            copies += u32::from(hedge.wait("m", 100, late).is_none());
            assert!(u64::from(copies) * 10 <= i);
        }
        assert_eq!(copies, 100);
        assert!(hedge.wait("m", 0, late).is_some());
    }

    #[test]
    fn a_call_that_hangs_gets_its_copy_though_slow_ones_took_all_there_were() {
        let hedge = Hedge::default();
        let ms = Duration::from_millis;
        for _ in 0..30 {
            hedge.answered("m", ms(50));
        }
        for _ in 0..3 {
            assert_eq!(hedge.wait("m", 100, ms(51)), None);
        }
        assert_eq!(hedge.wait("m", 100, ms(51)), Some(ms(50)));
        for _ in 0..10 {
            hedge.answered("m", ms(50));
        }
        assert_eq!(hedge.wait("m", 100, ms(101)), None);
    }
}
