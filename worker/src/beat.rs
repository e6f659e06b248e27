//! Signs of life: what a worker writes of itself on the board, and the wish it finds there.

use std::sync::Arc;
use std::time::Duration;

use skillopt_queue::Board;
use skillopt_queue::board::{self, Expect};
use skillopt_queue::fleet::{self, WorkerRecord};

use crate::metrics::Outcome;
use crate::shift::{Shift, Way};

/// How long one request may take before the next one is tried.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// How long a worker that leaves tries to say so.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// Longest name of a job, in bytes: a record that is too large for the board is no sign of life.
const LABEL_BYTES_MAX: usize = 120;

/// Cuts names of jobs.
fn short(mut labels: Vec<String>) -> Vec<String> {
    for label in &mut labels {
        label.truncate(label.floor_char_boundary(LABEL_BYTES_MAX));
    }
    labels
}

/// The signs of life of one worker; without a board there are none.
pub(crate) struct Beat<'a> {
    shift: &'a Shift,
    board: Option<Arc<dyn Board>>,
    path: String,
    drain_path: String,
}

impl<'a> Beat<'a> {
    pub(crate) fn new(shift: &'a Shift, board: Option<Arc<dyn Board>>) -> Self {
        let id = &shift.worker.settings.name;
        Self {
            shift,
            board,
            path: WorkerRecord::path(id),
            drain_path: WorkerRecord::drain_path(id),
        }
    }

    /// Goes on until dropped.
    pub(crate) async fn go_on(&self) {
        let Some(board) = &self.board else {
            return;
        };
        let mut started_ms = None;
        loop {
            let beat = self.once(board.as_ref(), &mut started_ms);
            match tokio::time::timeout(REQUEST_MAX, beat).await {
                Ok(Ok(())) => self.shift.reached(Way::Pulse),
                Ok(Err(e)) => self.shift.unreached(Way::Pulse, &e),
                Err(_) => {
                    let cause = "no answer to a sign of life";
                    self.shift.unreached(Way::Pulse, &cause);
                }
            }
            let drain = &self.shift.stop.drain;
            if drain.is_cancelled() {
                tokio::time::sleep(fleet::BEAT).await;
            } else {
                // That it drains is told at once.
                drain
                    .run_until_cancelled(tokio::time::sleep(fleet::BEAT))
                    .await;
            }
        }
    }

    async fn once(
        &self,
        board: &dyn Board,
        started_ms: &mut Option<u64>,
    ) -> Result<(), board::Error> {
        let now_ms = board.now().await?.as_ms();
        let record = self.record(*started_ms.get_or_insert(now_ms), now_ms);
        // A record of ours can always be written as JSON.
        let value = serde_json::to_vec(&record).unwrap_or_default();
        board
            .put(&self.path, value.into(), Expect::Any, Some(fleet::KEPT_FOR))
            .await?;
        if self.shift.lacks.is_asked() {
            let others = self.others(board, now_ms).await?;
            self.shift.lacks.compare(&others, &record.lanes);
        }
        if board.get(&self.drain_path).await?.is_some() && !self.shift.stop.drain.is_cancelled() {
            self.shift
                .worker
                .tell("somebody wishes this worker to leave");
            self.shift.stop.drain.cancel();
        }
        Ok(())
    }

    /// Returns the other workers that take jobs.
    async fn others(
        &self,
        board: &dyn Board,
        now_ms: u64,
    ) -> Result<Vec<WorkerRecord>, board::Error> {
        let found = board.list(fleet::WORKERS, "", fleet::WORKERS_MAX).await?;
        let others = found.iter().filter(|record| record.path != self.path);
        let others = others.filter_map(|r| serde_json::from_slice::<WorkerRecord>(&r.value).ok());
        Ok(others
            .filter(|other| other.state_at(now_ms) == "well")
            .collect())
    }

    fn record(&self, started_ms: u64, now_ms: u64) -> WorkerRecord {
        let shift = self.shift;
        let (settings, metrics) = (&shift.worker.settings, &shift.worker.metrics);
        let state = shift.state();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let slots = settings.slots.iter();
        WorkerRecord {
            version: fleet::VERSION,
            id: settings.name.to_string(),
            state: state.word.to_owned(),
            cause: state.cause,
            program: settings.program.clone(),
            started_ms,
            seen_ms: now_ms,
            slots: slots
                .map(|(kind, n)| (kind.to_string(), count(*n)))
                .collect(),
            busy: shift
                .busy()
                .map(|(kind, n)| (kind.to_string(), count(n)))
                .collect(),
            lanes: settings
                .lanes
                .iter()
                .map(|lane| lane.as_str().to_owned())
                .collect(),
            jobs_done: metrics.total(Outcome::Done),
            jobs_failed: metrics.total(Outcome::GivenUp) + metrics.total(Outcome::Fault),
            jobs: short(shift.held.labels(fleet::JOBS_MAX)),
            lacks: shift.lacks.servers(),
        }
    }

    /// Takes the worker off the list.
    pub(crate) async fn leave(&self) {
        let Some(board) = &self.board else {
            return;
        };
        for path in [&self.path, &self.drain_path] {
            let farewell = board.delete(path, Expect::Any);
            // If it cannot be said, the record runs out.
            drop(tokio::time::timeout(FAREWELL_MAX, farewell).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_are_short() {
        let long = format!("a{}", "é".repeat(1 << 20));
        let short = short(vec!["job".to_owned(), long]);
        assert_eq!(short[0], "job");
        assert_eq!(short[1], format!("a{}", "é".repeat(59)));
    }
}
