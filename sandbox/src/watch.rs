//! Looks at a running sandbox from outside, again and again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skillopt_runtime::clock::Stopwatch;
use tokio::time::MissedTickBehavior;

use crate::cgroup::{Group, Whose};
use crate::folder::{Folder, is_programs};
use crate::limits::{Limit, Limits, OWN_THREADS};
use crate::tree::{self, Usage};

/// How often the tree is looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// Folders are looked at less often the longer it takes: at most this share of the time.
const DISK_SHARE: u32 = 10;

/// What was seen of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) cpu: Duration,
    pub(crate) peak_memory_bytes: u64,
}

/// Why a run is to be over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Crossed {
    /// It crossed this limit.
    Limit(Limit),
    /// The machine failed it; nothing can be said of the program.
    Lost(String),
}

/// What is looked at, and against which limits.
pub(crate) struct Watch {
    pub(crate) limits: Limits,
    /// The sandbox's process; everything below it is watched where there is no group.
    pub(crate) root: i32,
    pub(crate) group: Option<Arc<Group>>,
    pub(crate) folders: Vec<Folder>,
    pub(crate) state: Mutex<State>,
}

/// What changes from look to look.
#[derive(Debug, Default)]
pub(crate) struct State {
    seen: Seen,
    disk: Option<(Stopwatch, Duration)>,
}

impl Watch {
    /// Returns when a limit is crossed, or the machine fails the run.
    pub(crate) async fn crossed(self: &Arc<Self>) -> Crossed {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let this = Arc::clone(self);
            // Reading many small files would hold other tasks up.
            let looked = tokio::task::spawn_blocking(move || this.look(false)).await;
            if let Ok(Some(crossed)) = looked {
                return crossed;
            }
        }
    }

    /// Looks once more when everything is over, so that no limit is crossed between two looks.
    pub(crate) fn look(&self, is_last: bool) -> Option<Crossed> {
        self.look_at_tree(is_last)
            .or_else(|| self.look_at_disk(is_last))
    }

    pub(crate) fn seen(&self) -> Seen {
        self.state().seen
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // What a look left half done is done again by the next.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_at_tree(&self, is_last: bool) -> Option<Crossed> {
        let usage = match (&self.group, is_last) {
            (Some(group), _) => Usage {
                threads: 0,
                memory_bytes: group.peak_memory_bytes().unwrap_or(0),
                cpu: group.cpu().unwrap_or_default(),
            },
            (None, false) => tree::usage(self.root),
            (None, true) => Usage::default(),
        };
        let mut state = self.state();
        // Of a tree that is only looked at, those who ended unseen are missing.
        state.seen.cpu = state.seen.cpu.max(usage.cpu);
        state.seen.peak_memory_bytes = state.seen.peak_memory_bytes.max(usage.memory_bytes);
        let cpu = state.seen.cpu;
        drop(state);
        let (memory, processes) = match &self.group {
            Some(group) => (group.memory_kill(), group.process_refusal()),
            None => (None, None),
        };
        if memory == Some(Whose::Above) {
            return Some(Crossed::Lost(
                "the machine, or a group that the worker is in, had no more memory, and the kernel \
                 killed a program that was within its own limit; give the worker more memory, or \
                 fewer slots"
                    .to_owned(),
            ));
        }
        if processes == Some(Whose::Above) && memory.is_none() {
            return Some(Crossed::Lost(
                "a group that the worker is in had no room for more processes, though the program was \
                 within its own limit; raise that group's limit of processes, or give the worker \
                 fewer slots"
                    .to_owned(),
            ));
        }
        let crossed = match &self.group {
            Some(_) => [
                (memory.is_some(), Limit::Memory),
                (processes.is_some(), Limit::Processes),
            ],
            None => [
                (usage.memory_bytes > self.limits.memory_bytes, Limit::Memory),
                (
                    usage.threads > self.limits.processes + OWN_THREADS,
                    Limit::Processes,
                ),
            ],
        };
        let cpu = (self.limits.cpu.is_some_and(|max| cpu > max), Limit::Cpu);
        let mut all = crossed.into_iter().chain([cpu]);
        all.find_map(|(is_crossed, limit)| is_crossed.then_some(Crossed::Limit(limit)))
    }

    fn look_at_disk(&self, is_last: bool) -> Option<Crossed> {
        let is_early = |(since, pause): &(Stopwatch, Duration)| since.elapsed() < *pause;
        if !is_last && self.state().disk.as_ref().is_some_and(is_early) {
            return None;
        }
        let looking = Stopwatch::start();
        let max = self.limits.disk_bytes;
        let mut total = 0;
        for folder in &self.folders {
            total += match folder.size(max) {
                Ok(size) => size,
                // Counted as too large: it lies too deep, or the program took our rights away.
                Err(errno) if is_programs(errno) => u64::MAX / 4,
                // This machine's fault, which may have passed by the next look.
                Err(_) if !is_last => 0,
                Err(errno) => {
                    return Some(Crossed::Lost(format!(
                        "the worker cannot look at the program's files: {errno}"
                    )));
                }
            };
        }
        if !is_last && let Some(device) = self.folders.first().and_then(Folder::device) {
            total += tree::removed_bytes(self.root, device);
        }
        self.state().disk = Some((Stopwatch::start(), looking.elapsed() * DISK_SHARE));
        (total > max).then_some(Crossed::Limit(Limit::Disk))
    }
}
