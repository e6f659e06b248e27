//! One job inside the scheduler.

use skillopt_queue::{Enqueue, Lane, Priority, RunId, Timestamp};

/// Names the line of jobs of one run for one lane with one urgency.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId {
    pub(super) run: u64,
    pub(super) lane: Lane,
    /// The job's priority within its run.
    pub(super) urgency: u8,
}

#[derive(Debug)]
pub(super) struct Entry<W> {
    pub(super) job: Enqueue,
    pub(super) since: Timestamp,
    /// Who wants it, in the order of asking. A released job may have lost all of them.
    pub(super) waits: Vec<Wait<W>>,
    pub(super) place: Place,
}

#[derive(Debug)]
pub(super) struct Wait<W> {
    pub(super) line: LineId,
    pub(super) to: W,
}

#[derive(Debug)]
pub(super) enum Place {
    /// In the line of each of its waits.
    Waiting,
    /// In the queue.
    Out(Out),
}

#[derive(Debug)]
pub(super) struct Out {
    /// The line that the job is charged to.
    pub(super) line: LineId,
    /// The run that the queue knows it under.
    pub(super) submitted_as: RunId,
    /// The batch that it was released with: ends of earlier batches are not its own.
    pub(super) batch: u64,
    /// Its priority in the queue.
    pub(super) priority: Priority,
    pub(super) at: Timestamp,
    /// Its place in the order of releases.
    pub(super) turn: u64,
}

impl<W> Entry<W> {
    pub(super) fn new(now: Timestamp, job: Enqueue, wait: Wait<W>) -> Self {
        Self {
            job,
            since: now,
            waits: vec![wait],
            place: Place::Waiting,
        }
    }

    pub(super) fn stands_in(&self, line: &LineId) -> bool {
        self.waits.iter().any(|wait| wait.line == *line)
    }

    pub(super) fn waits_in(&self, line: &LineId) -> bool {
        matches!(self.place, Place::Waiting) && self.stands_in(line)
    }

    /// Returns the lines that it stands in, each once.
    pub(super) fn lines(&self) -> Vec<LineId> {
        let mut lines: Vec<LineId> = Vec::with_capacity(1);
        for wait in &self.waits {
            if !lines.contains(&wait.line) {
                lines.push(wait.line.clone());
            }
        }
        lines
    }

    /// Applies the earlier time of a second submission.
    pub(super) fn hasten(&mut self, job: &Enqueue) {
        self.job.not_before = match (self.job.not_before, job.not_before) {
            (Some(a), Some(b)) => Some(a.min(b)),
            _ => None,
        };
    }
}
