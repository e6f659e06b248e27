//! One run, from taking it to giving it back.

use std::sync::Arc;
use std::time::Duration;

use skillopt_core::job::FailureClass;
use skillopt_queue::{RunId, store};

use super::super::course::{Place, course};
use super::super::folders;
use super::super::live::LiveRun;
use super::super::purse;
use super::super::record::{RunRecord, State, Try};
use super::super::table::{HeldError, Stored};
use super::Runner;
use super::active::{Active, Why};
use crate::bundle::{UnpackError, Unpacked};
use crate::halt::{Halt, word};
use crate::log;
use crate::payers::Payers;
use crate::session::Source;
use crate::sweep::runs::Wish;

/// Coordinators that may die over a run before it brings them no further.
const TRIES_MAX: usize = 3;
/// Wait before the board or the store is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// The right to the run is lost; nothing more may be written.
struct Lost;

impl Runner {
    /// Works on a run until it stops, and says how it stands then.
    pub(super) async fn work(&self, id: &str, active: &Active, live: Arc<LiveRun>) {
        let done = self.work_held(id, active, live);
        let lost = active.shutdown.now.run_until_cancelled(done).await;
        if matches!(lost, Some(Ok(()))) {
            let path = RunRecord::path(id);
            // If this fails the lease runs out by itself.
            drop(self.table.board().release(&path, &self.settings.name).await);
            self.table.bell().ring();
        }
    }

    async fn work_held(&self, id: &str, active: &Active, live: Arc<LiveRun>) -> Result<(), Lost> {
        let Some(run) = self.begin(id, active).await? else {
            return Ok(());
        };
        let outcome = self.go(&run, active, live).await;
        self.take_back(id, active, &outcome).await;
        self.settle(id, active, &outcome).await?;
        if outcome.is_ok() {
            self.folders.keep(id, folders::is_written(&run));
        }
        Ok(())
    }

    /// Takes jobs back that nobody waits for any more.
    async fn take_back(&self, id: &str, active: &Active, outcome: &Result<State, Halt>) {
        // Whoever takes the run over wants its jobs.
        if outcome.is_ok() || active.why() == Some(Why::Drain) {
            return;
        }
        let run = RunId::new(id);
        let wish = self.table.get(id).await.ok().flatten().map(|s| s.run.wish);
        if wish == Some(Wish::Cancel) {
            self.lines.withdraw(&run).await;
        } else {
            self.lines.pause(&run).await;
        }
    }

    /// Notes that this coordinator has the run. Returns nothing if it is not to be worked on.
    async fn begin(&self, id: &str, active: &Active) -> Result<Option<RunRecord>, Lost> {
        let now = self.now().await;
        let change = |run: &mut RunRecord| {
            if !run.state.is_open() {
                return;
            }
            // A try of our own did not end with our death: the right to the run was lost.
            run.tries.retain(|t| t.coordinator != self.settings.name);
            match run.wish {
                Wish::Run if run.tries.len() >= TRIES_MAX => crashes(run, now),
                Wish::Run => {
                    run.state = State::Running;
                    if run.started_ms == 0 {
                        run.started_ms = now;
                    }
                    run.coordinator.clone_from(&self.settings.name);
                    run.tries.push(Try {
                        coordinator: self.settings.name.clone(),
                        at_ms: now,
                    });
                }
                Wish::Pause => run.stop(State::Paused, "person", "", now),
                Wish::Cancel => run.end(State::Cancelled, now),
            }
        };
        let Some(Stored { run, .. }) = self.held(id, active, change).await? else {
            return Ok(None);
        };
        if run.state == State::Running {
            return Ok(Some(run));
        }
        // Its last holder may have died, and its jobs wait on.
        self.lines.clear(&RunId::new(id)).await;
        self.unmark(&run).await;
        Ok(None)
    }

    async fn go(
        &self,
        run: &RunRecord,
        active: &Active,
        live: Arc<LiveRun>,
    ) -> Result<State, Halt> {
        let _reading = self.folders.read(&run.id);
        let _turn = self.folders.turn(&run.id).await;
        let unpacked = self.unpack(run, active).await?;
        live.set_accounts(unpacked.prepared.accounts());
        let store = self.folders.store();
        let name = RunId::new(&run.id);
        let events = log::read(store.as_ref(), &name).await?;
        active.set_known_events(events.len() as u64);
        let folder = self.folders.at_work(run);
        self.folders.begin(&folder, run, unpacked.is_fresh())?;
        let payers = self.payers(run, &unpacked).await?;
        if !payers.is_capped() {
            active.set_uncapped();
        }
        let place = Place {
            source: Source::Queue(self.lines.of(run)),
            store: Arc::clone(store),
            log: Arc::clone(store),
            log_name: name.clone(),
            run: name,
            folder,
            has_items: folders::is_written(run),
            shutdown: active.shutdown.clone(),
            watcher: live.watcher(),
            payers,
        };
        match course(&unpacked, place).await {
            Err(Halt::Failed(cause)) if live.committed() < events.len() as u64 => {
                Err(unrepeatable(run, live.committed(), events.len(), &cause))
            }
            outcome => outcome,
        }
    }

    /// Works out who pays: a call is reserved first if any purse has a cap.
    async fn payers(&self, run: &RunRecord, unpacked: &Unpacked) -> Result<Payers, Halt> {
        let is_capped = self.is_capped(run).await;
        let is_capped = is_capped.map_err(Halt::infrastructure)?;
        let payers = unpacked.prepared.common.payers.clone();
        Ok(payers
            .shared_with(&run.sweep, &run.tenant, is_capped)
            .of_run(&run.id))
    }

    /// Returns whether any purse that pays for a run has a cap.
    pub(super) async fn is_capped(&self, run: &RunRecord) -> Result<bool, store::Error> {
        let balances = self.ledger.balances(&purse::of(run)).await?;
        Ok(balances.iter().any(|balance| !balance.caps.is_none()))
    }

    async fn unpack(&self, run: &RunRecord, active: &Active) -> Result<Unpacked, Halt> {
        loop {
            match self.folders.unpack(run).await {
                Ok(unpacked) => return Ok(unpacked),
                // Nothing mends that by itself.
                Err(UnpackError::Store(error @ store::Error::Corrupt { .. })) => {
                    return Err(Halt::infrastructure(error));
                }
                Err(UnpackError::Store(error)) => {
                    let wait = tokio::time::sleep(AGAIN);
                    let drain = &active.shutdown.drain;
                    if drain.run_until_cancelled(wait).await.is_none() {
                        return Err(Halt::infrastructure(error));
                    }
                }
                // It was there when the run was submitted.
                Err(UnpackError::Missing(blob)) => {
                    return Err(Halt::infrastructure(format!(
                        "blob `{blob}` of its bundle is gone: it was not used for longer than \
                         `--keep-days`; submit the same inputs again, which uploads it, then \
                         `skillopt resume {}`",
                        run.id
                    )));
                }
                Err(error) => return Err(Halt::Failed(error.to_string())),
            }
        }
    }

    /// Says how the run stands.
    async fn settle(
        &self,
        id: &str,
        active: &Active,
        outcome: &Result<State, Halt>,
    ) -> Result<(), Lost> {
        let now = self.now().await;
        let why = active.why();
        let change = |run: &mut RunRecord| match (outcome, run.wish) {
            (Ok(state), _) => run.end(*state, now),
            (Err(_), Wish::Cancel) => run.end(State::Cancelled, now),
            (Err(Halt::Interrupted), Wish::Pause) => run.halt(&Halt::Interrupted, now),
            // It was given back, or the wish was taken back: somebody goes on.
            (Err(Halt::Interrupted), Wish::Run) => {
                run.state = State::Queued;
                run.coordinator.clear();
                run.tries.pop();
            }
            (Err(_), _) if matches!(why, Some(Why::Drain | Why::Capped)) => {
                run.state = State::Queued;
                run.coordinator.clear();
                run.tries.pop();
            }
            (Err(halt), _) => run.halt(halt, now),
        };
        if let Some(stored) = self.held(id, active, change).await? {
            self.unmark(&stored.run).await;
        }
        Ok(())
    }

    /// Changes the record as its holder, however long the board is away. Nothing if there is no
    /// such run.
    async fn held(
        &self,
        id: &str,
        active: &Active,
        change: impl Fn(&mut RunRecord),
    ) -> Result<Option<Stored>, Lost> {
        use super::super::error::Error;
        loop {
            match self.table.change_held(id, active.fence, &change).await {
                Ok(stored) => return Ok(Some(stored)),
                Err(HeldError::Lost) => return Err(Lost),
                Err(HeldError::Other(Error::NotFound(_) | Error::Internal(_))) => return Ok(None),
                Err(HeldError::Other(_)) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    async fn unmark(&self, run: &RunRecord) {
        // A mark that stays is looked at again, and goes then.
        drop(self.table.mark(run).await);
    }

    async fn now(&self) -> u64 {
        loop {
            match self.table.board().now().await {
                Ok(now) => return now.as_ms(),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

/// Says why a run came to another end before it was where it had been: it waits for a person, since
/// nothing is wrong with what its log holds.
fn unrepeatable(run: &RunRecord, at: u64, of: usize, cause: &str) -> Halt {
    Halt::infrastructure(format!(
        "the first {of} events of its log cannot be repeated from stored answers, {at} could: \
         answers were not used for longer than `--keep-days` and are gone, or this coordinator is \
         another release than the one before ({cause}); resume it with that release, or \
         `skillopt cancel {}` and submit it anew",
        run.id
    ))
}

/// Pauses a run over which coordinators die.
fn crashes(run: &mut RunRecord, now_ms: u64) {
    let names: Vec<&str> = run.tries.iter().map(|t| t.coordinator.as_str()).collect();
    let cause = format!(
        "{} coordinators died while working on it, and none got further: `{}`; look at their logs, \
         then `skillopt resume {}`",
        run.tries.len(),
        names.join("`, `"),
        run.id
    );
    let tries = run.tries.clone();
    let class = word(FailureClass::Infrastructure);
    run.stop(State::Paused, class, &cause, now_ms);
    run.tries = tries;
}
