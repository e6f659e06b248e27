//! One run of a worker, from its start to its end: what its parts share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_core::capability::Kind;
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::Stopwatch;

use crate::health::{Change, Health};
use crate::held::Held;
use crate::lacks::Lacks;
use crate::{Place, Worker, check};

/// Time between two signs of life of the threads that do the work.
const SIGN_EVERY: Duration = Duration::from_secs(1);

/// How long a look at this machine counts for others.
const LOOK_COUNTS_FOR: Duration = Duration::from_secs(1);

pub(crate) struct Shift {
    pub(crate) worker: Arc<Worker>,
    pub(crate) held: Held,
    pub(crate) health: Arc<Health>,
    pub(crate) lacks: Lacks,
    /// Our own stages: they follow those of the process, which do not follow ours.
    pub(crate) stop: Shutdown,
    /// Why the queue cannot be reached, as long as it cannot, by way.
    away: Mutex<BTreeMap<Way, String>>,
    /// Why large values cannot be stored or read, as long as they cannot.
    values_away: Mutex<Option<ValuesAway>>,
    last_look: tokio::sync::Mutex<Option<(Stopwatch, Option<String>)>>,
    /// Since the last sign of life of the threads that do the work.
    sign: Mutex<Stopwatch>,
}

/// A way to the queue; each has its own connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// Jobs and results.
    Work,
    /// Renewals and signs of life.
    Pulse,
}

/// The place of large values, while it is away.
struct ValuesAway {
    /// Begins each of its errors.
    place: String,
    words: String,
}

/// What people see of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// `well`, `draining` or `sick`.
    pub(crate) word: &'static str,
    pub(crate) cause: String,
}

impl Shift {
    pub(crate) fn new(worker: Arc<Worker>, process: &Shutdown) -> Arc<Self> {
        let stop = Shutdown {
            drain: process.drain.child_token(),
            now: process.now.child_token(),
        };
        Arc::new(Self {
            health: Health::new(stop.drain.clone()),
            worker,
            lacks: Lacks::default(),
            held: Held::default(),
            stop,
            away: Mutex::default(),
            values_away: Mutex::default(),
            last_look: tokio::sync::Mutex::default(),
            sign: Mutex::new(Stopwatch::start()),
        })
    }

    pub(crate) fn place(&self) -> Place {
        self.worker.settings.place
    }

    pub(crate) fn state(&self) -> State {
        let (word, cause) = if self.stop.drain.is_cancelled() {
            ("draining", "asked to leave".to_owned())
        } else if let Some(cause) = self.health.sickness() {
            ("sick", cause)
        } else {
            // It is well: the place may be away from all, and answers under way wait for it.
            ("well", self.values_away().unwrap_or_default())
        };
        State { word, cause }
    }

    /// Returns why no jobs are taken, `None` if they are.
    pub(crate) fn unready(&self) -> Option<String> {
        let state = self.state();
        if state.word != "well" {
            return Some(format!("{}: {}", state.word, state.cause));
        }
        let away = lock(&self.away).values().next().cloned();
        let away = away.map(|cause| format!("the queue cannot be reached: {cause}"));
        away.or_else(|| self.values_away())
    }

    /// Returns why large values cannot be stored or read, `None` if they can.
    pub(crate) fn values_away(&self) -> Option<String> {
        let away = lock(&self.values_away);
        away.as_ref().map(|away| away.words.clone())
    }

    /// The queue has answered.
    pub(crate) fn reached(&self, way: Way) {
        let mut away = lock(&self.away);
        if away.remove(&way).is_some() && away.is_empty() {
            drop(away);
            self.worker.tell("the queue is back");
        }
    }

    /// The queue has not answered.
    pub(crate) fn unreached(&self, way: Way, error: &dyn std::fmt::Display) {
        self.worker.metrics.queue_error();
        let cause = error.to_string();
        // What cannot be kept elsewhere is no fault of the queue; it was told.
        let of_values = |away: &ValuesAway| cause.starts_with(&away.place);
        if lock(&self.values_away).as_ref().is_some_and(of_values) {
            return;
        }
        let mut away = lock(&self.away);
        let is_new = away.is_empty();
        away.insert(way, cause.clone());
        drop(away);
        if is_new {
            let text = format!("the queue cannot be reached, trying again: {cause}");
            self.worker.tell(&text);
        }
    }

    /// Takes note of a job that ended, with the fault of this worker that it met.
    pub(crate) fn note(&self, fault: Option<&str>, is_trial: bool) {
        if self.place() == Place::Cluster {
            self.changed(self.health.note(fault, is_trial));
        }
    }

    fn changed(&self, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Sickened(cause) => {
                let text = format!("sick, no more jobs are taken: {cause}");
                self.worker.tell(&text);
            }
            Change::Recovered => self.worker.tell("well again, jobs are taken"),
        }
    }

    /// Returns what is wrong with this machine. Many who ask at once get one answer.
    pub(crate) async fn look(&self) -> Option<String> {
        let mut last = self.last_look.lock().await;
        if let Some((when, found)) = &*last
            && when.elapsed() < LOOK_COUNTS_FOR
        {
            return found.clone();
        }
        let found = self.look_now().await;
        *last = Some((Stopwatch::start(), found.clone()));
        found
    }

    async fn look_now(&self) -> Option<String> {
        let settings = &self.worker.settings;
        let (scratch, name) = (settings.scratch.clone(), Arc::clone(&settings.name));
        let look = move || check::fault(scratch.as_deref(), &name);
        let looked = tokio::task::spawn_blocking(look).await;
        looked.unwrap_or_else(|e| Some(format!("looking for faults failed: {e}")))
    }

    /// Looks at the machine now and then, and at the place of large values. Goes on until dropped.
    pub(crate) async fn look_often(self: Arc<Self>) {
        tokio::join!(self.look_at_machine(), self.look_at_values());
    }

    /// Tells when large values cannot be stored or read any more, and when they can again.
    async fn look_at_values(&self) {
        loop {
            let away = self.worker.blobs.away().await;
            let found = away.as_ref().map(|away| ValuesAway {
                place: format!("`{}`", away.place),
                words: away.to_string(),
            });
            let is_away = found.is_some();
            let away_max = self.worker.settings.away_max();
            let is_lost = away.as_ref().is_some_and(|away| away.since > away_max);
            self.health.wait_for_values(is_lost);
            let was_away = std::mem::replace(&mut *lock(&self.values_away), found).is_some();
            match away {
                Some(away) if !was_away => self.worker.tell(&away.to_string()),
                None if was_away => self
                    .worker
                    .tell("large values can be stored and read again"),
                _ => {}
            }
            self.worker.metrics.values_are_away(is_away);
            tokio::time::sleep(SIGN_EVERY).await;
        }
    }

    async fn look_at_machine(&self) {
        loop {
            let fault = self.look_now().await;
            self.changed(self.health.looked(fault.as_deref()));
            tokio::time::sleep(self.worker.settings.check_every).await;
        }
    }

    /// Ends the time for jobs under way once the worker has drained for long enough.
    pub(crate) async fn limit_drain(self: Arc<Self>) {
        self.stop.drain.cancelled().await;
        tokio::time::sleep(self.worker.settings.drain).await;
        self.stop.now.cancel();
    }

    /// Gives signs of life from the threads that do the work. Goes on until dropped.
    pub(crate) async fn give_signs(self: Arc<Self>) {
        loop {
            *lock(&self.sign) = Stopwatch::start();
            tokio::time::sleep(SIGN_EVERY).await;
        }
    }

    /// Returns how long the threads that do the work have given no sign of life.
    pub(crate) fn silence(&self) -> Duration {
        lock(&self.sign).elapsed()
    }

    pub(crate) fn busy(&self) -> impl Iterator<Item = (Kind, usize)> {
        let kinds = self.worker.settings.slots.keys();
        kinds.map(|kind| (*kind, self.held.count(*kind)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
