//! The loops that take jobs: room first, then a lease, one loop for each kind of slot.

use std::sync::Arc;
use std::time::Duration;

use skillopt_core::capability::Kind;
use skillopt_queue::{Lane, Ticket, Want, queue};
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::Stopwatch;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::deliver::deliver;
use crate::health::Turn;
use crate::patience::Patience;
use crate::pulse::Pulse;
use crate::shift::{Shift, Way};
use crate::{Place, Worker, offers};

/// Shortest time between two questions for work: each costs a cluster as much as dozens of jobs.
const APART: Duration = Duration::from_millis(1);
/// How long a worker that leaves tries to hand jobs back; after that their leases run out.
const HAND_BACK_MAX: Duration = Duration::from_secs(2);

impl Worker {
    /// Runs jobs until `shutdown` drains, or somebody wishes it away; then waits for those under
    /// way for as long as the settings say. `shutdown.now` hands them back at once. Everything that
    /// was started has ended when this returns.
    ///
    /// # Errors
    /// The thread that renews leases cannot be started, or met a fault; or, for a worker that is
    /// alone, the queue cannot be used any more. Jobs under way were finished or handed back.
    pub async fn run(self: Arc<Self>, shutdown: Shutdown) -> Result<(), queue::Error> {
        let shift = Shift::new(self, &shutdown);
        let pulse = Pulse::start(&shift)?;
        let mut care = JoinSet::new();
        care.spawn(Arc::clone(&shift).limit_drain());
        care.spawn(Arc::clone(&shift).give_signs());
        if shift.place() == Place::Cluster {
            care.spawn(Arc::clone(&shift).look_often());
        }
        if let Some(meter) = shift.worker.meter.clone() {
            care.spawn(async move { meter.run().await });
        }
        let outcome = take_all(&shift).await;
        care.shutdown().await;
        if let Some(meter) = &shift.worker.meter {
            // What is not told is spent all the same; reservations are given back by themselves.
            drop(tokio::time::timeout(HAND_BACK_MAX, meter.flush()).await);
        }
        outcome.and(pulse.end().await)
    }
}

/// Runs the loops of all kinds; the first that fails drains the others.
async fn take_all(shift: &Arc<Shift>) -> Result<(), queue::Error> {
    let settings = &shift.worker.settings;
    let mut loops = JoinSet::new();
    for (&kind, &slots) in &settings.slots {
        shift.worker.metrics.has_slots(kind, slots);
        let lanes = settings.lanes.iter();
        let lanes: Vec<Lane> = lanes.filter(|l| offers::kind(l) == kind).cloned().collect();
        if slots > 0 && !lanes.is_empty() {
            loops.spawn(take(Arc::clone(shift), kind, slots, lanes));
        }
    }
    if loops.is_empty() {
        shift.stop.drain.cancelled().await;
    }
    let mut outcome = Ok(());
    while let Some(ended) = loops.join_next().await {
        let ended = ended.unwrap_or_else(|e| Err(fault(&e)));
        if ended.is_err() {
            shift.stop.drain.cancel();
            outcome = outcome.and(ended);
        }
    }
    outcome
}

fn fault(error: &dyn std::fmt::Display) -> queue::Error {
    queue::Error::Store(skillopt_queue::store::Error::Io {
        place: "this worker".to_owned(),
        detail: error.to_string(),
    })
}

async fn take(
    shift: Arc<Shift>,
    kind: Kind,
    slots: usize,
    lanes: Vec<Lane>,
) -> Result<(), queue::Error> {
    let settings = &shift.worker.settings;
    let room = Arc::new(Semaphore::new(slots));
    let mut running: JoinSet<Option<Ticket>> = JoinSet::new();
    let mut untouched = Vec::new();
    let mut outcome = Ok(());
    let mut last = None;
    loop {
        let next = async {
            (
                Arc::clone(&room).acquire_owned().await,
                shift.health.turn().await,
            )
        };
        let Some((Ok(permit), turn)) = shift.stop.drain.run_until_cancelled(next).await else {
            break;
        };
        // Others that end at about the same moment free their slots first: one call then fills them all.
        match last {
            Some(last) if shift.place() == Place::Cluster => sleep_until(last + APART).await,
            _ => tokio::task::yield_now().await,
        }
        last = Some(Instant::now());
        let Turn { until, mut trial } = turn;
        let want = Want {
            worker: Arc::clone(&settings.name),
            lanes: lanes.clone(),
            max: 1 + trial
                .as_ref()
                .map_or_else(|| room.available_permits(), |_| 0),
            ttl: settings.lease_ttl,
        };
        let asked = Stopwatch::start();
        // Never race `lease` in a select: a granted lease that was dropped would block its job.
        let leases = match shift.worker.queue.lease(want, &until).await {
            Ok(leases) => leases,
            Err(e) if shift.place() == Place::Alone => {
                outcome = Err(e);
                break;
            }
            Err(e) => {
                shift.unreached(Way::Work, &e);
                let back = back(&shift);
                shift.stop.drain.run_until_cancelled(back).await;
                continue;
            }
        };
        shift.reached(Way::Work);
        shift.worker.metrics.leased(asked.elapsed());
        // The lease began somewhere in the wait, at the latest now.
        let granted = Stopwatch::start();
        let mut permit = Some(permit);
        for leased in leases {
            let permit = permit
                .take()
                .or_else(|| Arc::clone(&room).try_acquire_owned().ok());
            let held = shift.held.add(kind, &leased, granted);
            let (shift, trial) = (Arc::clone(&shift), trial.take());
            running.spawn(async move {
                let untouched = deliver(&shift, &leased, &held, trial).await;
                shift.held.remove(leased.ticket);
                drop(permit);
                untouched
            });
        }
        while let Some(ended) = running.try_join_next() {
            untouched.extend(ended.ok().flatten());
        }
    }
    while let Some(ended) = running.join_next().await {
        untouched.extend(ended.ok().flatten());
    }
    hand_back(&shift, &untouched).await;
    outcome
}

/// Waits until the queue answers again. A lease would not do for that: it waits for work.
async fn back(shift: &Shift) {
    let mut patience = Patience::default();
    loop {
        patience.wait().await;
        match shift.worker.queue.stats().await {
            Ok(_) => return shift.reached(Way::Work),
            Err(e) => shift.unreached(Way::Work, &e),
        }
    }
}

/// Hands jobs back that are left when the worker leaves, all at once.
async fn hand_back(shift: &Shift, tickets: &[Ticket]) {
    if tickets.is_empty() {
        return;
    }
    let handed = tokio::time::timeout(HAND_BACK_MAX, shift.worker.queue.hand_back(tickets)).await;
    let count = tickets.len();
    shift.worker.tell(&match handed {
        Ok(Ok(_)) => format!("{count} jobs are handed back"),
        Ok(Err(e)) => format!("{count} jobs could not be handed back, their leases run out: {e}"),
        Err(_) => format!("{count} jobs could not be handed back, their leases run out"),
    });
}
