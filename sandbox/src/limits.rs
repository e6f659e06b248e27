//! What a run may use.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;
/// Processes and threads of the sandbox itself, which are counted with the program's: bubblewrap,
/// and init's.
pub(crate) const OWN_THREADS: u64 = 5;

/// What a run may use. Crossing a limit ends the run, and the report names the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Time from the program's start.
    pub wall: Duration,
    /// How long the program may take to end by itself once its time is over (it gets SIGTERM).
    pub grace: Duration,
    /// Processor time of everything it starts, together; `None` leaves it to `wall`.
    pub cpu: Option<Duration>,
    /// Processors it may keep busy at once; needs cgroups, and is without effect elsewhere.
    pub cores: Option<f64>,
    /// Memory of everything it starts, together, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads at the same time.
    pub processes: u64,
    /// What may lie in its folders at the same time, in bytes; a file counts as 1 KiB at least.
    pub disk_bytes: u64,
    /// Size of its private `/tmp` and `/dev/shm` each, in bytes, where they are mounts of its own.
    pub tmp_bytes: u64,
    /// What it may print, both streams together, in bytes.
    pub output_bytes: u64,
    /// How much of each stream is kept for the report, in bytes; more is left out of the middle.
    pub kept_bytes: usize,
    /// Longest line that is handed on while it runs, in bytes; the rest of a longer one is left out.
    pub line_bytes: usize,
    /// What the collected files may have together, in bytes.
    pub collected_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(600),
            grace: Duration::from_secs(2),
            cpu: None,
            cores: None,
            memory_bytes: 2048 * MIB,
            // Agent programs use some forty threads, and hang without a word below that.
            processes: 512,
            disk_bytes: 1024 * MIB,
            tmp_bytes: 256 * MIB,
            output_bytes: 64 * MIB,
            kept_bytes: 1024 * 1024,
            line_bytes: 1024 * 1024,
            collected_bytes: 64 * MIB,
        }
    }
}

/// The limit that a run crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Processor time.
    Cpu,
    /// Memory of the whole tree.
    Memory,
    /// Processes and threads.
    Processes,
    /// What lies in its folders.
    Disk,
    /// What it printed.
    Output,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "processor time",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Disk => "disk",
            Self::Output => "output",
        })
    }
}
