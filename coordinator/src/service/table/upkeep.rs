//! Looks after the table: marks that are missing are made, runs that ended long ago are forgotten.

use std::time::Duration;

use skillopt_queue::board::Expect;

use super::super::error::Error;
use super::super::record::{RUNS, RunRecord};
use super::{Table, decode_run};

/// How long the record of a run is kept after its end. Its answers and its log have a retention of
/// their own, that of the store.
const KEPT_AFTER_END: Duration = Duration::from_secs(90 * 24 * 3_600);
/// Records that are read at once.
const PAGE: usize = 200;

impl Table {
    /// Looks at all runs, marks those that should be worked on, for a process may have died between
    /// two writes, and forgets those that ended long ago.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn repair(&self) -> Result<(), Error> {
        let now_ms = self.parts.board.now().await?.as_ms();
        let mut after = String::new();
        loop {
            let page = self.parts.board.list(RUNS, &after, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after.clone_from(&last.path);
            for record in &page {
                // One that this release cannot read is no reason to leave the others.
                let Ok(stored) = decode_run(record) else {
                    continue;
                };
                let run = &stored.run;
                if run.state.is_open() {
                    self.list_it(run).await?;
                    self.mark(run).await?;
                } else if is_old(run, now_ms) {
                    self.forget(run).await?;
                }
            }
        }
    }

    async fn forget(&self, run: &RunRecord) -> Result<(), Error> {
        let board = &self.parts.board;
        // The record last: as long as it is there, the rest is tried again.
        for path in run.listed().into_iter().chain([run.mark()]) {
            board.delete(&path, Expect::Any).await?;
        }
        board.delete(&RunRecord::path(&run.id), Expect::Any).await?;
        Ok(())
    }
}

fn is_old(run: &RunRecord, now_ms: u64) -> bool {
    let kept_ms = u64::try_from(KEPT_AFTER_END.as_millis()).unwrap_or(u64::MAX);
    run.state.is_over() && run.ended_ms > 0 && run.ended_ms.saturating_add(kept_ms) < now_ms
}

#[cfg(test)]
mod tests {
    use super::super::super::record::State;
    use super::super::super::record::tests::record;
    use super::*;

    #[test]
    fn only_what_ended_long_ago_is_old() {
        let quarter = 90 * 24 * 3_600 * 1_000;
        let mut run = record();
        assert!(!is_old(&run, u64::MAX), "it waits");
        run.stop(State::Paused, "person", "", 5);
        assert!(!is_old(&run, u64::MAX), "somebody may resume it");
        run.end(State::Improved, 5);
        assert!(!is_old(&run, quarter + 5));
        assert!(is_old(&run, quarter + 6));
    }
}
