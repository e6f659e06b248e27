//! The cluster at a glance.

use skillopt_queue::ledger::Amount;

use super::super::auth::Caller;
use super::super::error::Error;
use super::super::purse;
use super::super::record::State;
use super::super::rows::state_words;
use super::super::table::{Filter, decode};
use super::super::teller::{self, Pace, RunJobs};
use super::Desk;
use crate::read_model::{self, Inputs, Overview, RunLine, SweepLine};
use crate::sweep::record::{OPEN, SWEEPS, Sweep};

/// Runs and sweeps that are shown.
const SHOWN_MAX: usize = 100;
/// Runs, the newest first, among which those are looked for that have not ended.
const LOOKED_AT_MAX: usize = 500;

pub(super) async fn overview(desk: &Desk, caller: &Caller) -> Result<Overview, Error> {
    let now_ms = desk.now().await?;
    let jobs = jobs(desk, caller).await?;
    let (pace, accounts) = if caller.is_global {
        let accounts = desk.parts.rates.accounts().await?;
        (desk.teller.pace(now_ms), accounts)
    } else {
        // They are of all tenants together.
        (Pace::default(), Vec::new())
    };
    Ok(read_model::overview(Inputs {
        now_ms,
        program: desk.program.clone(),
        workers: desk.workers(caller).await?,
        accounts,
        waits: jobs.waits,
        finished_a_minute: pace.now,
        finished_a_minute_before: pace.before,
        cost_usd_an_hour: desk.teller.usd_an_hour(caller.limit()),
        reserved: reserved(desk, caller).await?,
        runs: runs(desk, caller).await?,
        sweeps: sweeps(desk, caller).await?,
    }))
}

/// Adds the jobs of the caller's runs up.
async fn jobs(desk: &Desk, caller: &Caller) -> Result<RunJobs, Error> {
    let told = desk.teller.runs().await?;
    let mut own = Vec::new();
    for (id, jobs) in &told {
        let is_own = match caller.limit() {
            None => true,
            Some(tenant) => {
                let stored = desk.table.get(id).await?;
                stored.is_some_and(|stored| stored.run.tenant == tenant)
            }
        };
        own.extend(is_own.then_some(jobs));
    }
    Ok(teller::sum(own))
}

async fn reserved(desk: &Desk, caller: &Caller) -> Result<Amount, Error> {
    let tenants = [purse::tenant(&caller.tenant)];
    let balances = desk.parts.ledger.balances(&tenants).await?;
    Ok(balances.first().map(|b| b.reserved).unwrap_or_default())
}

/// Returns the runs that have not ended: those at work, those that wait for a person, those that
/// wait for a coordinator.
async fn runs(desk: &Desk, caller: &Caller) -> Result<Vec<RunLine>, Error> {
    let filter = Filter {
        tenant: caller.limit().map(str::to_owned),
        ..Filter::default()
    };
    let mut lines = Vec::new();
    let page = desk.table.list(&filter, "", LOOKED_AT_MAX).await?;
    for state in [State::Running, State::Paused, State::Queued] {
        let left = SHOWN_MAX.saturating_sub(lines.len());
        let of_state = page.runs.iter().filter(|stored| stored.run.state == state);
        for stored in of_state.take(left) {
            let view = desk.rows.of(&stored.run).await?.run;
            let lift = view.best.zip(view.baseline).map(|(best, base)| best - base);
            lines.push(RunLine {
                run: stored.run.id.clone(),
                name: stored.run.name.clone(),
                state: state_words(&stored.run),
                steps_done: view.steps_done,
                steps_total: view.steps_total,
                lift_points: lift.filter(|_| view.accepted > 0).map(|lift| lift * 100.0),
            });
        }
    }
    Ok(lines)
}

/// Returns the sweeps that have not ended.
async fn sweeps(desk: &Desk, caller: &Caller) -> Result<Vec<SweepLine>, Error> {
    let mut lines = Vec::new();
    let mut after = String::new();
    // Others' sweeps may lie between.
    loop {
        let marks = desk.parts.board.list(OPEN, &after, SHOWN_MAX).await?;
        let Some(last) = marks.last() else {
            return Ok(lines);
        };
        after.clone_from(&last.path);
        for mark in &marks {
            let id = mark.path.strip_prefix(OPEN).unwrap_or_default();
            let Some(record) = desk.parts.board.get(&format!("{SWEEPS}{id}")).await? else {
                continue;
            };
            let sweep: Sweep = decode(&record)?;
            if caller.limit().is_none_or(|tenant| tenant == sweep.tenant) {
                lines.push(line(desk, &sweep).await?);
            }
            if lines.len() == SHOWN_MAX {
                return Ok(lines);
            }
        }
    }
}

async fn line(desk: &Desk, sweep: &Sweep) -> Result<SweepLine, Error> {
    let (mut done, mut in_trouble) = (0, 0);
    for run in sweep.cells.iter().filter_map(|cell| cell.run.as_deref()) {
        let Some(stored) = desk.table.get(run).await? else {
            continue;
        };
        done += u64::from(stored.run.state.is_over());
        let troubled = matches!(stored.run.state, State::Paused | State::Failed);
        in_trouble += u64::from(troubled);
    }
    Ok(SweepLine {
        sweep: sweep.id.clone(),
        name: sweep.name.clone(),
        state: "running".to_owned(),
        cells_done: done,
        cells_total: sweep.cells.len() as u64,
        cells_in_trouble: in_trouble,
    })
}
