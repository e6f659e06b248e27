//! Limits of the process, and what it has used of the machine.

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike as _;

/// What this process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Processor time of all threads, user and system, in seconds.
    pub cpu_s: f64,
    /// Largest resident memory so far, in MiB.
    pub peak_rss_mib: f64,
}

/// Returns what this process has used so far; zeros where the system does not say.
#[must_use]
pub fn used() -> Used {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Used::default();
    };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (micros, kib) = (micros as f64, usage.max_rss() as f64);
    Used {
        cpu_s: micros / 1e6,
        peak_rss_mib: kib / 1024.0,
    }
}

/// Raises the number of files and sockets this process may open to what the system allows, and
/// returns it: thousands of calls in flight need a socket each.
#[must_use]
pub fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1024;
    };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        hard
    } else {
        soft
    }
}
