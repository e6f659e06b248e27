//! When a second copy of a call is worth its price: the first has been open for longer than nine of
//! ten calls of its model take, and few copies were made so far.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Latencies of a model that are remembered.
const WINDOW: usize = 256;
/// Calls after which its latencies are believed.
const EVIDENCE: usize = 20;
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

    /// Returns how long a call of a model may be open before a copy of it is made.
    pub(crate) fn patience(&self, model: &str) -> Option<Duration> {
        let all = self.lock();
        let known = all.get(model)?;
        if known.recent.len() < EVIDENCE {
            return None;
        }
        let mut sorted: Vec<Duration> = known.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 9 / 10).copied()
    }

    /// Takes the right to one copy, if not more than `permille` of a thousand calls are copies.
    pub(crate) fn take(&self, model: &str, permille: u32) -> bool {
        let mut all = self.lock();
        let Some(known) = all.get_mut(model) else {
            return false;
        };
        let is_allowed = (known.copies + 1) * 1_000 <= known.calls * u64::from(permille);
        known.copies += u64::from(is_allowed);
        is_allowed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_what_nine_of_ten_calls_take() {
        let hedge = Hedge::default();
        assert_eq!(hedge.patience("m"), None);
        for ms in 1..=100 {
            hedge.answered("m", Duration::from_millis(ms));
        }
        assert_eq!(hedge.patience("m"), Some(Duration::from_millis(91)));
        assert_eq!(hedge.patience("other"), None);
        for _ in 0..2 * WINDOW {
            hedge.answered("m", Duration::from_millis(7));
        }
        assert_eq!(hedge.patience("m"), Some(Duration::from_millis(7)));
    }

    #[test]
    fn copies_are_a_bounded_share_of_calls() {
        let hedge = Hedge::default();
        assert!(!hedge.take("m", 100));
        let mut copies = 0;
        for i in 1..=1_000 {
            hedge.answered("m", Duration::from_millis(i));
            copies += u32::from(hedge.take("m", 100));
            assert!(u64::from(copies) * 10 <= i);
        }
        assert_eq!(copies, 100);
        assert!(!hedge.take("m", 0));
    }
}
