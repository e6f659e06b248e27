//! Brings sweeps on. Every coordinator looks; the one that holds a sweep's lease does the work.
//! Whatever it does may be repeated after a crash: runs are submitted under fixed client keys, and
//! the record is written only while the lease is held.

use std::time::Duration;

use skillopt_queue::Fence;
use skillopt_queue::board::{self, Expect};
use skillopt_runtime::Shutdown;

use super::desk::Sweeps;
use super::error::Error;
use super::gather::{CANCELLED, FORGOTTEN};
use super::record::{OPEN, Sweep};
use super::results::Results;
use super::runs::{self, NewRun, RunNow, What, Wish};
use crate::read_model::is_over;

/// Time between two looks.
const BEAT: Duration = Duration::from_millis(500);
/// How long a lease lasts without being renewed: several looks, and the submission of many runs.
const LEASE: Duration = Duration::from_secs(15);
/// Sweeps that are looked at in one look.
const OPEN_MAX: usize = 1_000;
/// Runs of one sweep that are submitted in one look.
const SUBMITTED_MAX: usize = 32;

impl Sweeps {
    /// Brings all sweeps on until told to stop; `holder` names this coordinator. What goes wrong is
    /// told to `report` and tried again.
    ///
    /// *Cancel safety*: may be dropped at any time; another look repeats what was cut off.
    pub async fn drive(&self, holder: &str, shutdown: &Shutdown, report: impl Fn(&str, &Error)) {
        loop {
            self.look(holder, &report).await;
            let beat = tokio::time::sleep(BEAT);
            if shutdown.drain.run_until_cancelled(beat).await.is_none() {
                break;
            }
        }
        self.release(holder).await;
    }

    async fn look(&self, holder: &str, report: &impl Fn(&str, &Error)) {
        let open = match self.board.list(OPEN, "", OPEN_MAX).await {
            Ok(open) => open,
            Err(error) => return report("the list of sweeps", &error.into()),
        };
        for mark in open {
            let id = mark.path.strip_prefix(OPEN).unwrap_or_default();
            if let Err(error) = self.bring_on(id, mark.version, holder).await {
                report(id, &error);
            }
        }
    }

    /// Lets another coordinator take over at once.
    async fn release(&self, holder: &str) {
        for mark in self
            .board
            .list(OPEN, "", OPEN_MAX)
            .await
            .unwrap_or_default()
        {
            let id = mark.path.strip_prefix(OPEN).unwrap_or_default();
            // A lease that cannot be given back ends by itself.
            drop(self.board.release(&Sweep::path(id), holder).await);
        }
    }

    /// Does what can be done for one sweep, if no other coordinator does.
    ///
    /// # Errors
    /// Something cannot be reached; what was done is kept, the rest is done by the next look.
    pub async fn bring_on(&self, id: &str, mark: u64, holder: &str) -> Result<(), Error> {
        let path = Sweep::path(id);
        let Some(held) = self.board.acquire(&path, holder, LEASE).await? else {
            return Ok(());
        };
        let found = self.find(id).await?;
        let Some((mut sweep, version)) = found.filter(|(sweep, _)| sweep.ended_ms == 0) else {
            // A mark that was renewed meanwhile stays: the sweep is begun anew.
            let mark = Expect::Version(mark);
            match self.board.delete(&Sweep::mark(id), mark).await {
                Ok(()) | Err(board::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            // Without a mark nobody would think of it at the end.
            self.board.release(&path, holder).await?;
            return Ok(());
        };
        let before = sweep.clone();
        let outcome = self.step(&mut sweep).await;
        if sweep != before {
            self.write(&sweep, version, held.fence).await?;
        }
        outcome?;
        if sweep.ended_ms > 0 {
            self.board.release(&path, holder).await?;
        }
        Ok(())
    }

    /// Writes the record; a person's change that came between is seen by the next look.
    async fn write(&self, sweep: &Sweep, version: u64, fence: Fence) -> Result<(), Error> {
        let path = Sweep::path(&sweep.id);
        let bytes = serde_json::to_vec(sweep)?;
        let expect = Expect::Version(version);
        match self
            .board
            .put_fenced(&path, bytes.into(), expect, &path, fence)
            .await
        {
            Ok(_) | Err(board::Error::Conflict { .. } | board::Error::NotHolder { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// One step in memory: what runs were submitted and what became of them is noted in `sweep`.
    async fn step(&self, sweep: &mut Sweep) -> Result<(), Error> {
        if sweep.wish == Wish::Cancel {
            drop_waiting(sweep);
        }
        let mut room = SUBMITTED_MAX;
        if sweep.wish == Wish::Run {
            self.submit_cells(sweep, &mut room).await?;
        }
        let (cells, checks) = self.gather.standing(sweep).await?;
        if sweep.untold {
            self.tell(sweep, cells.iter().chain(&checks)).await?;
            sweep.untold = false;
        }
        self.note_cells(sweep, &cells).await?;
        for (check, now) in sweep.checks.iter_mut().zip(&checks) {
            if let Some(now) = now
                .as_ref()
                .filter(|now| is_over(&now.state) && !check.over)
            {
                check.over = true;
                if now.state != "evaluated" {
                    check.refused = Some(format!("its evaluation is {}: {}", now.state, now.cause));
                }
            }
        }
        if sweep.wish == Wish::Run {
            let new = sweep.new_checks();
            sweep.checks.extend(new);
            self.submit_checks(sweep, &mut room).await?;
        }
        if sweep.is_done() {
            self.end(sweep).await?;
        }
        Ok(())
    }

    async fn submit_cells(&self, sweep: &mut Sweep, room: &mut usize) -> Result<(), Error> {
        for at in 0..sweep.cells.len() {
            let Some(cell) = sweep
                .cells
                .get(at)
                .filter(|cell| !cell.over && cell.run.is_none())
            else {
                continue;
            };
            if *room == 0 {
                break;
            }
            *room -= 1;
            let key = format!("sweep/{}/{at}/{}", sweep.id, cell.attempt);
            let new = NewRun {
                client_key: key,
                name: format!("{} {}", sweep.name, cell.name),
                bundle: cell.bundle,
                what: What::Train,
                cell: cell.name.clone(),
                ..new_run(sweep)
            };
            let answer = self.runs.submit(new).await;
            let Some(cell) = sweep.cells.get_mut(at) else {
                continue;
            };
            match answer {
                Ok(run) => cell.run = Some(run),
                Err(runs::Error::Refused(why)) => {
                    cell.refused = Some(why);
                    cell.over = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn submit_checks(&self, sweep: &mut Sweep, room: &mut usize) -> Result<(), Error> {
        for at in 0..sweep.checks.len() {
            let Some(check) = sweep
                .checks
                .get(at)
                .filter(|check| !check.over && check.run.is_none())
            else {
                continue;
            };
            let Some(cell) = sweep.cells.get(check.cell) else {
                continue;
            };
            if *room == 0 {
                break;
            }
            *room -= 1;
            let (id, skill, round) = (&sweep.id, check.skill.short(), sweep.round);
            let new = NewRun {
                client_key: format!("sweep/{id}/{}/{skill}/{round}", check.cell),
                name: format!("{} {}: {}", sweep.name, cell.name, check.name),
                bundle: cell.bundle,
                what: What::Evaluate { skill: check.skill },
                cell: format!("{}: {}", cell.name, check.name),
                ..new_run(sweep)
            };
            let answer = self.runs.submit(new).await;
            let Some(check) = sweep.checks.get_mut(at) else {
                continue;
            };
            match answer {
                Ok(run) => check.run = Some(run),
                Err(runs::Error::Refused(why)) => {
                    check.refused = Some(why);
                    check.over = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Tells the wish to all runs that have not ended.
    async fn tell<'a>(
        &self,
        sweep: &Sweep,
        now: impl Iterator<Item = &'a Option<RunNow>>,
    ) -> Result<(), Error> {
        let cells = sweep.cells.iter().map(|cell| &cell.run);
        let runs = cells.chain(sweep.checks.iter().map(|check| &check.run));
        for (run, now) in runs.zip(now) {
            let is_open = now.as_ref().is_some_and(|now| !is_over(&now.state));
            if let Some(run) = run.as_ref().filter(|_| is_open) {
                self.runs.set_wish(run, sweep.wish).await?;
            }
        }
        Ok(())
    }

    /// Notes which cells have ended, and the skills of those that came to their end.
    async fn note_cells(&self, sweep: &mut Sweep, now: &[Option<RunNow>]) -> Result<(), Error> {
        for (cell, now) in sweep.cells.iter_mut().zip(now) {
            let (Some(now), Some(run)) = (now, &cell.run) else {
                continue;
            };
            if cell.over || !is_over(&now.state) {
                continue;
            }
            if super::facts::is_finished(&now.state) {
                match self.gather.ended(run).await? {
                    Some(ended) => match self.gather.inputs(cell.bundle).await {
                        Ok(inputs) => {
                            cell.best = Some(ended.best);
                            cell.initial = Some(inputs.initial);
                        }
                        Err(Error::Precondition(why)) => {
                            cell.refused = Some(format!("{FORGOTTEN}: {why}"));
                        }
                        Err(error) => return Err(error),
                    },
                    None => {
                        cell.refused = Some(format!(
                            "run `{run}` has ended, but its log has not; run the cell again"
                        ));
                    }
                }
            }
            cell.over = true;
        }
        Ok(())
    }

    async fn end(&self, sweep: &mut Sweep) -> Result<(), Error> {
        // Apart, for a record is also written of a step that failed half-way: one that has ended has
        // its results.
        let mut ended = sweep.clone();
        ended.ended_ms = self.board.now().await?.as_ms();
        let (state, _) = self.state(&ended).await?;
        let results = Results::of(&self.gather.facts(&ended, &state).await?);
        let bytes = serde_json::to_vec(&results)?;
        ended.results = Some(self.store.put_blob(bytes.into()).await?);
        *sweep = ended;
        Ok(())
    }
}

fn new_run(sweep: &Sweep) -> NewRun {
    NewRun {
        client_key: String::new(),
        name: String::new(),
        tenant: sweep.tenant.clone(),
        owner: sweep.owner.clone(),
        bundle: skillopt_core::Hash::of(b""),
        what: What::Train,
        sweep: sweep.id.clone(),
        cell: String::new(),
        weight: sweep.weight,
        capped: !sweep.caps.is_none(),
    }
}

/// What never began ends at once when a sweep is cancelled.
fn drop_waiting(sweep: &mut Sweep) {
    for cell in sweep
        .cells
        .iter_mut()
        .filter(|cell| !cell.over && cell.run.is_none())
    {
        cell.refused = Some(CANCELLED.to_owned());
        cell.over = true;
    }
    for check in sweep
        .checks
        .iter_mut()
        .filter(|check| !check.over && check.run.is_none())
    {
        check.refused = Some(CANCELLED.to_owned());
        check.over = true;
    }
}
