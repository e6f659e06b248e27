//! A process and everything it started, as `/proc` shows them.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// What a tree of processes uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Threads of all processes.
    pub(crate) threads: u64,
    /// Resident memory, in bytes; what processes share is counted for each.
    pub(crate) memory_bytes: u64,
    /// Processor time, also of children that have ended.
    pub(crate) cpu: Duration,
}

/// Returns all processes below `root`, without itself.
pub(crate) fn below(root: i32) -> Vec<i32> {
    let mut seen = HashSet::from([root]);
    let mut found = Vec::new();
    let mut waiting = vec![root];
    while let Some(pid) = waiting.pop() {
        for child in children(pid) {
            if seen.insert(child) {
                found.push(child);
                waiting.push(child);
            }
        }
    }
    found
}

/// Children are listed by the thread that started them.
fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let lists = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

/// Returns what `root` and everything below it use.
pub(crate) fn usage(root: i32) -> Usage {
    let all = below(root).into_iter().chain([root]);
    all.filter_map(of_one)
        .fold(Usage::default(), |sum, one| Usage {
            threads: sum.threads + one.threads,
            memory_bytes: sum.memory_bytes + one.memory_bytes,
            cpu: sum.cpu + one.cpu,
        })
}

fn of_one(pid: i32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let unit = |name| {
        let value = sysconf(name).ok().flatten().unwrap_or(1);
        u64::try_from(value).unwrap_or(1).max(1)
    };
    parse(
        &stat,
        unit(SysconfVar::CLK_TCK),
        unit(SysconfVar::PAGE_SIZE),
    )
}

/// Reads `/proc/PID/stat`, whose second field is a name that may hold anything, also brackets.
fn parse(stat: &str, ticks: u64, page: u64) -> Option<Usage> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The numbers are those of the manual, where the state is field 3.
    let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
    let time = field(14)? + field(15)? + field(16)? + field(17)?;
    Some(Usage {
        threads: field(20)?,
        memory_bytes: field(24)? * page,
        cpu: Duration::from_millis(time * 1000 / ticks),
    })
}

/// Returns what the files hold that were removed and that a process below `root` keeps open: nobody
/// finds them in a folder. Only files of the file system `device` count.
pub(crate) fn removed_bytes(root: i32, device: u64) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut seen = HashSet::new();
    let mut total = 0u64;
    for pid in below(root).into_iter().chain([root]) {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
        for entry in open.into_iter().flatten().flatten() {
            // Looks through the link, but opens nothing.
            let Ok(about) = std::fs::metadata(entry.path()) else {
                continue;
            };
            let is_removed = about.is_file() && about.nlink() == 0 && about.dev() == device;
            if is_removed && seen.insert(about.ino()) {
                total = total.saturating_add(about.blocks() * 512);
            }
        }
    }
    total
}

/// Kills everything below `root` that can be seen now. Who is killed starts nothing new, so that
/// repeating it comes to an end.
pub(crate) fn kill_below(root: i32) -> usize {
    let found = below(root);
    for pid in &found {
        // It may have ended meanwhile.
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
    found.len()
}

/// Returns how many threads a user has on this machine.
pub(crate) fn threads_of(uid: u32) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mine = all.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (entry.metadata().ok()?.uid() == uid).then_some(pid)
    });
    mine.filter_map(of_one).map(|one| one.threads).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_is_read() {
        let rest = "S 1 1 1 0 -1 4194304 0 0 0 0 100 50 30 20 20 0 7 0 500 9000 12 99";
        let usage = parse(&format!("42 (a) b (c) {rest}"), 100, 4096).unwrap();
        let wanted = Usage {
            threads: 7,
            memory_bytes: 12 * 4096,
            cpu: Duration::from_secs(2),
        };
        assert_eq!(usage, wanted);
        assert_eq!(parse("no", 100, 4096), None);
    }
}
