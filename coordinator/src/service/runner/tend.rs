//! Keeps what runs need that wait or go on for long: a store drops what nobody uses for a time, and
//! a log names the answers it was made from only indirectly.

use std::collections::BTreeMap;
use std::sync::Arc;

use skillopt_queue::board::{self, Expect};
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use super::super::record::RunRecord;
use super::super::table::decode_run;
use super::Runner;
use crate::sweep::record::Sweep;

/// Records of one page.
const PAGE: usize = 100;

impl Runner {
    /// Reads now and then all that runs need which are not over.
    pub(super) async fn tend(self: Arc<Self>, end: CancellationToken) {
        let every = self.settings.tend.look_every;
        let mut ticks = interval_at(Instant::now() + every, every);
        while end.run_until_cancelled(ticks.tick()).await.is_some() {
            // It is tried again.
            drop(end.run_until_cancelled(self.tend_all()).await);
        }
    }

    async fn tend_all(&self) -> Result<(), board::Error> {
        let board = self.table.board();
        let mut after = String::new();
        let mut open = BTreeMap::new();
        loop {
            let page = board.list(&RunRecord::path(""), &after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after.clone_from(&last.path);
            for record in &page {
                let Ok(stored) = decode_run(record) else {
                    continue;
                };
                let run = &stored.run;
                if !run.state.is_over() || self.is_awaited(run, &mut open).await? {
                    self.tend_one(run).await;
                }
            }
        }
    }

    /// Returns whether a run that is over is a cell of a sweep that is not: its results rest on it.
    /// `open` is what is known of sweeps already.
    async fn is_awaited(
        &self,
        run: &RunRecord,
        open: &mut BTreeMap<String, bool>,
    ) -> Result<bool, board::Error> {
        if run.sweep.is_empty() {
            return Ok(false);
        }
        if let Some(is_open) = open.get(&run.sweep) {
            return Ok(*is_open);
        }
        let mark = self.table.board().get(&Sweep::mark(&run.sweep)).await?;
        open.insert(run.sweep.clone(), mark.is_some());
        Ok(mark.is_some())
    }

    async fn tend_one(&self, run: &RunRecord) {
        let (board, path) = (self.table.board(), format!("tended/{}", run.id));
        let every = self.settings.tend.touch_every;
        let ours = board.put(&path, Vec::new().into(), Expect::Absent, Some(every));
        if ours.await.is_ok() && self.folders.touch(run).await.is_err() {
            // What is lost is told when the run goes on; what cannot be reached is tried again.
            let soon = Some(every / 24);
            drop(board.put(&path, Vec::new().into(), Expect::Any, soon).await);
        }
    }
}
