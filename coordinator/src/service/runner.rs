//! Works on runs: takes those that nobody has, keeps the right to them, and runs the training loop
//! for each. Any number of coordinators do this over one board.
//!
//! A run has one holder at a time, by a lease on the board. If the holder dies, the lease runs out,
//! and another coordinator runs the loop again: what was answered is answered from the store. If
//! the holder only seemed dead, the board refuses what it writes, and the log takes no second,
//! different event. Start at [`Runner::run`].

mod active;
mod keeper;
mod tend;
mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use skillopt_queue::Ledger;
use skillopt_runtime::Shutdown;
use tokio::task::JoinSet;

use self::active::{Active, Actives};
use super::folders::Folders;
use super::lines::Lines;
use super::live::Live;
use super::options::Tend;
use super::record::RunRecord;
use super::table::Table;

pub use active::Why;

/// How long a run stays with a coordinator that gives no sign of life.
pub const LEASE: Duration = Duration::from_secs(6);
/// Time between two looks at the board.
const POLL: Duration = Duration::from_millis(500);
/// Looks after which runs that another has are tried again.
const LOOKS_BETWEEN_TRIES: u64 = 4;
/// Marks that are read at once.
const PAGE: usize = 500;
/// Time between two searches for runs without a mark.
const REPAIR_EVERY: Duration = Duration::from_secs(300);

/// What a runner is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this coordinator: unique, also after a restart.
    pub name: String,
    /// Runs that it works on at once.
    pub runs_max: usize,
    /// How the store is kept from dropping what runs need.
    pub tend: Tend,
}

/// Works on runs.
pub struct Runner {
    settings: Settings,
    table: Table,
    folders: Arc<Folders>,
    lines: Lines,
    live: Live,
    ledger: Arc<dyn Ledger>,
    actives: Actives,
}

impl Runner {
    /// Makes a runner; it does nothing before [`Runner::run`].
    #[must_use]
    pub fn new(
        settings: Settings,
        table: Table,
        folders: Arc<Folders>,
        lines: Lines,
        live: Live,
        ledger: Arc<dyn Ledger>,
    ) -> Self {
        Self {
            settings,
            table,
            folders,
            lines,
            live,
            ledger,
            actives: Actives::default(),
        }
    }

    /// Works until told to stop. On `drain` the runs are given to other coordinators; on `now`
    /// everything stops as if the machine had died.
    pub async fn run(self: Arc<Self>, shutdown: Shutdown) {
        let mut keepers = JoinSet::new();
        let idle = tokio_util::sync::CancellationToken::new();
        keepers.spawn(Arc::clone(&self).keep_leases(idle.clone()));
        keepers.spawn(Arc::clone(&self).keep_wishes(idle.clone()));
        keepers.spawn(Arc::clone(&self).repair(idle.clone()));
        keepers.spawn(Arc::clone(&self).tend(idle.clone()));
        let mut works = Works::default();
        let mut bell = self.table.bell().listen();
        let mut looks = 0;
        loop {
            self.look(&mut works, looks).await;
            looks += 1;
            tokio::select! {
                () = shutdown.drain.cancelled() => break,
                () = shutdown.now.cancelled() => break,
                () = works.one(&self) => {}
                () = bell.rung() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
        self.actives.stop_all(Why::Drain);
        while !works.tasks.is_empty() {
            tokio::select! {
                biased;
                () = shutdown.now.cancelled() => break,
                () = works.one(&self) => {}
            }
        }
        self.actives.stop_all(Why::Now);
        while !works.tasks.is_empty() {
            works.one(&self).await;
        }
        idle.cancel();
        while keepers.join_next().await.is_some() {}
    }

    /// Takes runs that nobody has.
    async fn look(self: &Arc<Self>, works: &mut Works, looks: u64) {
        let mut after = String::new();
        while self.actives.len() < self.settings.runs_max {
            // A board that is away is looked at again.
            let Ok(open) = self.table.open(&after, PAGE).await else {
                return;
            };
            let Some((_, last)) = open.last() else { return };
            after.clone_from(last);
            for (id, _) in open {
                if self.actives.len() >= self.settings.runs_max {
                    return;
                }
                if self.actives.has(&id) || works.is_others(&id, looks) {
                    continue;
                }
                self.take(works, &id, looks).await;
            }
        }
    }

    async fn take(self: &Arc<Self>, works: &mut Works, id: &str, looks: u64) {
        let (board, path) = (self.table.board(), RunRecord::path(id));
        let since = tokio::time::Instant::now();
        match board.acquire(&path, &self.settings.name, LEASE).await {
            Ok(Some(held)) => {
                let active = Active::new(held.fence, since);
                self.actives.add(id, active.clone());
                let live = self.live.add(id);
                works.add(self, id, active, live);
            }
            Ok(None) => works.others_have(id, looks),
            Err(_) => {}
        }
    }
}

/// The runs at work, and what is known of those of others.
#[derive(Default)]
struct Works {
    tasks: JoinSet<()>,
    ids: HashMap<tokio::task::Id, String>,
    /// When a run that another has was last tried.
    others: HashMap<String, u64>,
}

impl Works {
    fn add(
        &mut self,
        runner: &Arc<Runner>,
        id: &str,
        active: Active,
        live: Arc<super::live::LiveRun>,
    ) {
        self.others.remove(id);
        let (runner, name) = (Arc::clone(runner), id.to_owned());
        let handle = tokio::runtime::Handle::current();
        // A thread of its own: the loop computes for long stretches, which must not hold up
        // renewals.
        let task = self
            .tasks
            .spawn_blocking(move || handle.block_on(runner.work(&name, &active, live)));
        self.ids.insert(task.id(), id.to_owned());
    }

    /// Waits for a run to stop; for ever if there is none.
    async fn one(&mut self, runner: &Runner) {
        let ended = match self.tasks.join_next_with_id().await {
            None => return std::future::pending().await,
            Some(Ok((task, ()))) => task,
            // A fault of ours: the lease runs out, and the next holder counts the tries.
            Some(Err(error)) => error.id(),
        };
        if let Some(id) = self.ids.remove(&ended) {
            runner.actives.remove(&id);
            runner.live.remove(&id);
        }
    }

    fn others_have(&mut self, id: &str, looks: u64) {
        self.others.retain(|_, at| looks.saturating_sub(*at) < 100);
        self.others.insert(id.to_owned(), looks);
    }

    fn is_others(&self, id: &str, looks: u64) -> bool {
        let tried = self.others.get(id);
        tried.is_some_and(|at| looks.saturating_sub(*at) < LOOKS_BETWEEN_TRIES)
    }
}
