//! What became of a run.

use std::path::PathBuf;
use std::time::Duration;

use crate::limits::Limit;

/// How a run ended. A signal that we sent is never told as the program's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program ended with this exit code.
    Exited(i32),
    /// The program was ended by this signal, which did not come from us.
    Signalled(i32),
    /// Its time was over.
    TimedOut,
    /// It crossed this limit.
    Limit(Limit),
    /// The sandbox itself came to an end; nothing can be said of the program.
    Lost(String),
}

/// What a stream held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The beginning, or everything.
    pub head: Vec<u8>,
    /// The end, if something was left out before it.
    pub tail: Vec<u8>,
    /// How many bytes there were in all.
    pub total: u64,
}

impl Output {
    /// Tells whether something was left out.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.left_out() > 0
    }

    fn left_out(&self) -> u64 {
        let kept = self.head.len() + self.tail.len();
        self.total
            .saturating_sub(u64::try_from(kept).unwrap_or(u64::MAX))
    }

    /// Returns what was kept as text, with a line where something was left out.
    #[must_use]
    pub fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        match self.left_out() {
            0 => head.into_owned() + &String::from_utf8_lossy(&self.tail),
            left => format!(
                "{head}\n[{left} bytes left out]\n{}",
                String::from_utf8_lossy(&self.tail)
            ),
        }
    }
}

/// A file that the program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path below the working folder.
    pub path: PathBuf,
    /// What was in it.
    pub bytes: Vec<u8>,
}

/// Something that was asked for and is no file that can be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Path below the working folder.
    pub path: PathBuf,
    /// Why not.
    pub why: String,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it ended.
    pub ending: Ending,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// Files that match the task's patterns, by path.
    pub files: Vec<File>,
    /// What matched and was not taken.
    pub refused: Vec<Refused>,
    /// Processes that were still alive when the program had ended by itself, and were killed.
    pub left_behind: u64,
    /// Time from the program's start to its end.
    pub wall: Duration,
    /// Processor time of everything it started, as far as it was seen.
    pub cpu: Duration,
    /// Most memory seen: of the tree where cgroups or polling tell it, else of the largest process.
    pub peak_memory_bytes: u64,
}
