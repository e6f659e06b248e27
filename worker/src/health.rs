//! Whether a worker is fit to take jobs.
//!
//! A worker whose own machine is at fault (a full disk, a missing program, a fault of ours) would
//! fail every job it gets. So it becomes *sick*: it takes no more jobs, and what fails for such a
//! reason goes back untouched. While it is sick, each look at itself that finds nothing allows one
//! job as a trial; if that goes well, so does the worker.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Jobs that are looked back at.
const WINDOW: usize = 30;
/// Fewer faults than this prove nothing.
const FAULTS_MIN: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Well,
    /// Well, but what jobs need cannot be reached from here.
    Waiting,
    Sick,
    /// Sick, but the last look found nothing: one job may be tried.
    Trial,
    /// Sick, and one job is being tried.
    Trying,
}

/// The health of one worker.
pub(crate) struct Health {
    inner: Mutex<Inner>,
    changed: Notify,
    drain: CancellationToken,
}

struct Inner {
    phase: Phase,
    /// Whether each of the last jobs met a fault of this worker.
    recent: VecDeque<bool>,
    cause: String,
    /// Ends the waits for jobs.
    leasing: CancellationToken,
}

/// The right to ask for jobs.
pub(crate) struct Turn {
    /// Fires when the right is over.
    pub(crate) until: CancellationToken,
    /// Stands for the one job that may be tried while the worker is sick; lives as long as it.
    pub(crate) trial: Option<Trial>,
}

/// The one job that may be tried.
pub(crate) struct Trial(Arc<Health>);

impl Drop for Trial {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        if inner.phase == Phase::Trying {
            // It said nothing: the next look allows another one.
            inner.phase = Phase::Sick;
        }
    }
}

/// What changed with a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    Sickened(String),
    Recovered,
}

impl Health {
    /// Makes a well worker that asks for jobs until `drain` fires.
    pub(crate) fn new(drain: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                phase: Phase::Well,
                recent: VecDeque::with_capacity(WINDOW),
                cause: String::new(),
                leasing: drain.child_token(),
            }),
            changed: Notify::new(),
            drain,
        })
    }

    /// Waits until jobs may be asked for.
    pub(crate) async fn turn(self: &Arc<Self>) -> Turn {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that no change is missed in between.
            changed.as_mut().enable();
            if let Some(turn) = self.try_turn() {
                return turn;
            }
            changed.await;
        }
    }

    fn try_turn(self: &Arc<Self>) -> Option<Turn> {
        let mut inner = self.lock();
        let trial = match inner.phase {
            Phase::Well => None,
            Phase::Trial => {
                inner.phase = Phase::Trying;
                inner.leasing = self.drain.child_token();
                Some(Trial(Arc::clone(self)))
            }
            Phase::Waiting | Phase::Sick | Phase::Trying => return None,
        };
        let until = inner.leasing.clone();
        Some(Turn { until, trial })
    }

    /// Takes note of a job that ended, with the fault of this worker that it met.
    pub(crate) fn note(&self, fault: Option<&str>, is_trial: bool) -> Change {
        let mut inner = self.lock();
        match (inner.phase, fault) {
            (Phase::Well, _) => {
                if inner.recent.len() == WINDOW {
                    inner.recent.pop_front();
                }
                inner.recent.push_back(fault.is_some());
                let faults = inner.recent.iter().filter(|is_fault| **is_fault).count();
                match fault {
                    Some(cause) if faults >= FAULTS_MIN && faults * 5 > inner.recent.len() => {
                        let cause = format!(
                            "{faults} of the last {} jobs failed here: {cause}",
                            inner.recent.len()
                        );
                        inner.sicken(cause)
                    }
                    _ => Change::Nothing,
                }
            }
            (Phase::Trying, None) if is_trial => {
                inner.phase = Phase::Well;
                inner.recent.clear();
                inner.cause.clear();
                inner.leasing = self.drain.child_token();
                drop(inner);
                self.changed.notify_waiters();
                Change::Recovered
            }
            (Phase::Trying, Some(cause)) if is_trial => {
                cause.clone_into(&mut inner.cause);
                inner.phase = Phase::Sick;
                Change::Nothing
            }
            _ => Change::Nothing,
        }
    }

    /// Takes note of a look at this worker, with what is wrong.
    pub(crate) fn looked(&self, fault: Option<&str>) -> Change {
        let mut inner = self.lock();
        match (inner.phase, fault) {
            (Phase::Well | Phase::Waiting, Some(cause)) => inner.sicken(cause.to_owned()),
            (_, Some(cause)) => {
                cause.clone_into(&mut inner.cause);
                if inner.phase == Phase::Trial {
                    inner.phase = Phase::Sick;
                }
                Change::Nothing
            }
            (Phase::Sick, None) => {
                inner.phase = Phase::Trial;
                drop(inner);
                self.changed.notify_waiters();
                Change::Nothing
            }
            (_, None) => Change::Nothing,
        }
    }

    /// Leaves jobs to others while `is_away`: what they need cannot be reached from here.
    pub(crate) fn wait_for_values(&self, is_away: bool) {
        let mut inner = self.lock();
        match (inner.phase, is_away) {
            (Phase::Well, true) => {
                inner.phase = Phase::Waiting;
                inner.leasing.cancel();
            }
            (Phase::Waiting, false) => {
                inner.phase = Phase::Well;
                inner.leasing = self.drain.child_token();
                drop(inner);
                self.changed.notify_waiters();
            }
            _ => {}
        }
    }

    /// Returns why the worker is sick, `None` if it is not.
    pub(crate) fn sickness(&self) -> Option<String> {
        let inner = self.lock();
        let is_well = matches!(inner.phase, Phase::Well | Phase::Waiting);
        (!is_well).then(|| inner.cause.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No section under this lock can panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn sicken(&mut self, cause: String) -> Change {
        self.phase = Phase::Sick;
        self.cause.clone_from(&cause);
        self.leasing.cancel();
        Change::Sickened(cause)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn health() -> Arc<Health> {
        Health::new(CancellationToken::new())
    }

    /// Feeds `pattern`, `x` for a fault and `.` for none; returns after which job it got sick.
    fn sick_after(pattern: &str) -> Option<usize> {
        let health = health();
        pattern.chars().position(|c| {
            let fault = (c == 'x').then_some("disk full");
            health.note(fault, false) != Change::Nothing
        })
    }

    #[test]
    fn a_worker_that_waits_for_values_leaves_jobs_to_others_and_is_well() {
        let health = health();
        let turn = health.try_turn().unwrap();
        health.wait_for_values(true);
        assert!(turn.until.is_cancelled());
        assert!(health.try_turn().is_none());
        // What goes back meanwhile is no fault, and no look ends the wait.
        for _ in 0..WINDOW {
            assert_eq!(health.note(Some("away"), false), Change::Nothing);
        }
        assert_eq!(health.looked(None), Change::Nothing);
        assert!(health.try_turn().is_none() && health.sickness().is_none());
        health.wait_for_values(false);
        let turn = health.try_turn().unwrap();
        assert!(!turn.until.is_cancelled() && turn.trial.is_none());
        // A fault of its own is one all the same.
        health.wait_for_values(true);
        assert!(matches!(health.looked(Some("disk")), Change::Sickened(_)));
        health.wait_for_values(false);
        assert!(health.try_turn().is_none() && health.sickness().is_some());
    }

    #[test]
    fn more_than_a_fifth_and_at_least_five_faults_make_it_sick() {
        for (pattern, want) in [
            ("xxxxx", Some(4)),
            ("xxxx....", None),
            (".........................xxxxxx", None),
            (".........................xxxxxxx", Some(31)),
            ("....x....x....x....x....x....x....x", None),
            // What lies further back than 30 jobs does not count.
            ("xxxx..............................x", None),
        ] {
            assert_eq!(sick_after(pattern), want, "{pattern}");
        }
    }

    #[test]
    fn a_sick_worker_tries_one_job_at_a_time_until_one_goes_well() {
        let health = health();
        let before = health.turn().now_or_never().unwrap();
        for _ in 0..5 {
            health.note(Some("no `judge`"), false);
        }
        assert!(before.until.is_cancelled(), "waits for jobs are over");
        assert!(health.turn().now_or_never().is_none());
        let cause = health.sickness().unwrap();
        assert_eq!(cause, "5 of the last 5 jobs failed here: no `judge`");

        health.looked(Some("disk full"));
        assert!(health.turn().now_or_never().is_none());
        assert_eq!(health.sickness().as_deref(), Some("disk full"));
        health.looked(None);
        let trial = health.turn().now_or_never().unwrap();
        assert!(trial.trial.is_some());
        assert!(health.turn().now_or_never().is_none(), "one at a time");
        assert_eq!(health.note(None, false), Change::Nothing, "an older job");
        health.note(Some("still no `judge`"), true);
        drop(trial);
        health.looked(None);
        let trial = health.turn().now_or_never().unwrap();
        assert_eq!(health.note(None, true), Change::Recovered);
        drop(trial);
        assert_eq!(health.sickness(), None);
        assert!(health.turn().now_or_never().unwrap().trial.is_none());
    }

    #[test]
    fn a_trial_that_says_nothing_is_followed_by_another() {
        let health = health();
        health.looked(Some("disk full"));
        health.looked(None);
        drop(health.turn().now_or_never().unwrap());
        assert!(health.turn().now_or_never().is_none());
        health.looked(None);
        assert!(health.turn().now_or_never().is_some());
    }
}
