//! Limits on a whole tree of processes, where the worker may make control groups.
//!
//! The launcher joins the group before it becomes the sandbox, so that nothing of the sandbox is
//! ever outside of it. Both versions of the kernel's interface are known, also side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use skillopt_runtime::clock::Stopwatch;

use crate::chance::random;
use crate::limits::{Limits, OWN_THREADS};

const PREFIX: &str = "skillopt-sandbox-";
/// How far below its limit a group may have stayed that was refused memory, in bytes: the kernel counts
/// in batches.
const SLACK_BYTES: u64 = 1024 * 1024;
/// How long members of a dead worker's group may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// How often a folder is made anew that another worker swept away before it was locked.
const CLAIMS: u32 = 100;
/// Microseconds in which a share of processors is measured out.
const PERIOD_US: u64 = 100_000;

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cgroups {
    /// 1 or 2.
    pub version: u8,
    /// What can be bounded: always `memory` and `pids`, perhaps `cpu`.
    pub controllers: Vec<String>,
    /// The folders in which groups are made, by controller; the same one for all in version 2.
    #[serde(skip)]
    folders: BTreeMap<String, PathBuf>,
    /// A folder of version 2, in which a group can be killed as one.
    #[serde(skip)]
    kill: Option<PathBuf>,
}

impl Cgroups {
    /// Finds out whether groups can be made below our own, or below `parent` (version 2).
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn find(parent: Option<&Path>) -> Result<Self, String> {
        let own = |what: &str| {
            std::fs::read_to_string(what).map_err(|e| format!("`{what}` cannot be read: {e}"))
        };
        let mounts = mounts(&own("/proc/self/mountinfo")?, &own("/proc/self/cgroup")?);
        let unified = parent
            .map(Path::to_path_buf)
            .or_else(|| mounts.get("").cloned());
        let found = match unified.as_deref().map(in_version_2) {
            Some(Ok(groups)) => Ok(groups),
            Some(Err(why)) if parent.is_some() || !mounts.contains_key("memory") => Err(why),
            _ => in_version_1(&mounts),
        }?;
        found.sweep();
        // Made and removed at once.
        drop(found.group(&Limits::default(), false)?);
        Ok(found)
    }

    /// Makes a group with these limits; `is_killed_apart` says that all that joins it is ended otherwise
    /// than by the group.
    ///
    /// # Errors
    /// What could not be written.
    pub(crate) fn group(&self, limits: &Limits, is_killed_apart: bool) -> Result<Group, String> {
        let group = self.place(limits, is_killed_apart)?;
        group.limit(limits)?;
        Ok(group)
    }

    /// Makes the folders of a group, without a limit yet.
    fn place(&self, limits: &Limits, is_killed_apart: bool) -> Result<Group, String> {
        // The process is for people who look; nobody may get a name that another worker left.
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), random());
        let mut group = Group {
            version: self.version,
            processes: AtomicU64::new(0),
            folders: BTreeMap::new(),
            kill: None,
            claims: Vec::new(),
        };
        for (controller, folder) in &self.folders {
            // Joining a group that bounds nothing costs time all the same.
            if controller == "cpu" && limits.cores.is_none() {
                continue;
            }
            group.folders.insert(controller.clone(), folder.join(&name));
        }
        // One that is there for the killing alone is dear: to join it the kernel stops every start and end
        // of a process on the machine. A namespace is killed as one with its first process.
        let kill = self.kill.as_ref();
        let kill = kill.filter(|_| self.version == 2 || !is_killed_apart);
        group.kill = kill.map(|folder| folder.join(&name));
        let folders: Vec<PathBuf> = group.folders().into_iter().map(Path::to_path_buf).collect();
        for folder in folders {
            group.claims.push(Claim::make(folder)?);
        }
        Ok(group)
    }

    /// Ends and removes what workers left that were killed. Whose group it is shows by its lock, not by
    /// the process in its name: that may be another one by now, or one of another container.
    fn sweep(&self) {
        let folders: BTreeSet<&PathBuf> = self.folders.values().chain(&self.kill).collect();
        let mut names: BTreeSet<String> = BTreeSet::new();
        for folder in folders {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let all = entries.filter_map(|entry| entry.file_name().into_string().ok());
            names.extend(all.filter(|name| name.starts_with(PREFIX)));
        }
        for name in names {
            if let Some(left) = self.left(&name) {
                left.end();
            }
        }
    }

    /// Returns a group of this name if nobody holds it any more.
    fn left(&self, name: &str) -> Option<Group> {
        let there = |folder: &PathBuf| Some(folder.join(name)).filter(|path| path.is_dir());
        let folders = self.folders.iter();
        let mut group = Group {
            version: self.version,
            processes: AtomicU64::new(0),
            folders: folders
                .filter_map(|(controller, folder)| Some((controller.clone(), there(folder)?)))
                .collect(),
            kill: self.kill.as_ref().and_then(there),
            claims: Vec::new(),
        };
        let folders: Vec<PathBuf> = group.folders().into_iter().map(Path::to_path_buf).collect();
        for folder in folders {
            let lock = Claim::lock(&folder, FlockArg::LockExclusiveNonblock).ok()?;
            group.claims.push(Claim {
                folder,
                lock: Some(lock),
            });
        }
        Some(group)
    }
}

/// A group's folder that is held: no other worker takes it for a dead one's. Dropping it removes the
/// folder, if nobody is in there; one that stays is ended by a later worker.
#[derive(Debug)]
struct Claim {
    folder: PathBuf,
    /// Nothing where the kernel knows no locks here; then nobody else gets one either.
    lock: Option<Flock<File>>,
}

impl Claim {
    fn make(folder: PathBuf) -> Result<Self, String> {
        for _ in 0..CLAIMS {
            make(&folder)?;
            // Another worker may have found it before it was locked, and is about to remove it.
            let lock = match Self::lock(&folder, FlockArg::LockExclusive) {
                Ok(lock) => Some(lock),
                Err(Errno::EINTR | Errno::ENOENT | Errno::ENODEV) => continue,
                Err(_) => None,
            };
            if folder.is_dir() {
                return Ok(Self { folder, lock });
            }
        }
        Err(format!(
            "`{}` was removed by another process each time it was made",
            folder.display()
        ))
    }

    fn lock(folder: &Path, how: FlockArg) -> Result<Flock<File>, Errno> {
        let code = |e: std::io::Error| Errno::from_raw(e.raw_os_error().unwrap_or_default());
        let file = File::open(folder).map_err(code)?;
        Flock::lock(file, how).map_err(|(_, errno)| errno)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.folder);
        // Only now may another one look at it.
        drop(self.lock.take());
    }
}

fn make(folder: &Path) -> Result<(), String> {
    match std::fs::create_dir(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(format!("`{}` cannot be made: {e}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Returns our own folder for each controller of version 1, and for `""` that of version 2.
fn mounts(mountinfo: &str, own: &str) -> BTreeMap<String, PathBuf> {
    let mut paths = BTreeMap::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        if let (Some(controllers), Some(path)) = (parts.next(), parts.next()) {
            paths.extend(controllers.split(',').map(|name| (name, path)));
        }
    }
    let mut found = BTreeMap::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let (left, right): (Vec<&str>, Vec<&str>) =
            (left.split(' ').collect(), right.split(' ').collect());
        let ([_, _, _, root, point, ..], [kind, _, options, ..]) = (&left[..], &right[..]) else {
            continue;
        };
        let names: Vec<&str> = match *kind {
            "cgroup2" => vec![""],
            "cgroup" => options.split(',').collect(),
            _ => continue,
        };
        for name in names {
            let Some(path) = paths.get(name) else {
                continue;
            };
            // What lies above the mount's root cannot be seen through it.
            let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
            let below = below.strip_prefix("/").unwrap_or(below);
            found.insert(name.to_owned(), Path::new(point).join(below));
        }
    }
    found
}

fn in_version_2(folder: &Path) -> Result<Cgroups, String> {
    let handed_down = folder.join("cgroup.subtree_control");
    let text = std::fs::read_to_string(&handed_down)
        .map_err(|e| format!("`{}` cannot be read: {e}", handed_down.display()))?;
    let has = |name: &str| text.split_whitespace().any(|word| word == name);
    if !(has("memory") && has("pids")) {
        return Err(format!(
            "`{}` hands neither memory nor pids down; delegate a group to the worker",
            folder.display()
        ));
    }
    let controllers = ["memory", "pids", "cpu"]
        .into_iter()
        .filter(|name| has(name));
    let controllers: Vec<String> = controllers.map(str::to_owned).collect();
    Ok(Cgroups {
        version: 2,
        folders: [(String::new(), folder.to_path_buf())].into(),
        controllers,
        kill: Some(folder.to_path_buf()),
    })
}

fn in_version_1(mounts: &BTreeMap<String, PathBuf>) -> Result<Cgroups, String> {
    let wanted = ["memory", "pids", "cpu", "cpuacct"];
    let folders: BTreeMap<String, PathBuf> = wanted
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), mounts.get(name)?.clone())))
        .collect();
    if !(folders.contains_key("memory") && folders.contains_key("pids")) {
        return Err("no control groups for memory and pids are mounted".to_owned());
    }
    let can_kill = |folder: &&PathBuf| {
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), random());
        let claim = Claim::make(folder.join(name));
        claim.is_ok_and(|claim| claim.folder.join("cgroup.kill").exists())
    };
    let controllers = folders.keys().filter(|name| *name != "cpuacct");
    Ok(Cgroups {
        version: 1,
        controllers: controllers.cloned().collect(),
        kill: mounts.get("").filter(can_kill).cloned(),
        folders,
    })
}

/// Whose limit the kernel kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The group's own.
    Own,
    /// That of a group above it, or what the machine has.
    Above,
}

/// One run's group.
#[derive(Debug)]
pub(crate) struct Group {
    version: u8,
    /// Most processes that were seen at a time.
    processes: AtomicU64,
    folders: BTreeMap<String, PathBuf>,
    kill: Option<PathBuf>,
    claims: Vec<Claim>,
}

impl Group {
    /// Returns the folders that a process has to join.
    pub(crate) fn folders(&self) -> BTreeSet<&Path> {
        let all = self.folders.values().chain(&self.kill);
        all.map(PathBuf::as_path).collect()
    }

    fn limit(&self, limits: &Limits) -> Result<(), String> {
        let memory = limits.memory_bytes.to_string();
        let processes = (limits.processes + OWN_THREADS).to_string();
        self.write("pids", "pids.max", &processes)?;
        if self.version == 2 {
            self.write("memory", "memory.max", &memory)?;
            // Neither exists on every kernel.
            let _ = self.write("memory", "memory.swap.max", "0");
            let _ = self.write("memory", "memory.oom.group", "1");
        } else {
            self.write("memory", "memory.limit_in_bytes", &memory)?;
            let _ = self.write("memory", "memory.memsw.limit_in_bytes", &memory);
        }
        if let Some(cores) = limits.cores {
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of processors"
            )]
            let quota = (cores * PERIOD_US as f64).max(1_000.0) as u64;
            match self.version {
                2 => self.write("cpu", "cpu.max", &format!("{quota} {PERIOD_US}"))?,
                _ => self.write("cpu", "cpu.cfs_quota_us", &quota.to_string())?,
            }
        }
        Ok(())
    }

    fn path(&self, controller: &str, file: &str) -> Option<PathBuf> {
        let key = if self.version == 2 { "" } else { controller };
        Some(self.folders.get(key)?.join(file))
    }

    fn write(&self, controller: &str, file: &str, value: &str) -> Result<(), String> {
        let path = self
            .path(controller, file)
            .ok_or_else(|| format!("no control group bounds {controller}"))?;
        std::fs::write(&path, value)
            .map_err(|e| format!("`{}` cannot be set to {value}: {e}", path.display()))
    }

    fn read(&self, controller: &str, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path(controller, file)?).ok()
    }

    fn number(&self, controller: &str, file: &str) -> Option<u64> {
        self.read(controller, file)?.trim().parse().ok()
    }

    /// Returns whose limit it was if the kernel killed for want of memory. It counts the killed in
    /// their own group, whichever group had no more.
    pub(crate) fn memory_kill(&self) -> Option<Whose> {
        let is_own = match self.version {
            2 => {
                let events = self
                    .read("memory", "memory.events.local")
                    .or_else(|| self.read("memory", "memory.events"))?;
                keyed(&events, "oom_kill").filter(|count| *count > 0)?;
                keyed(&events, "oom").is_some_and(|count| count > 0)
            }
            _ => {
                let events = self.read("memory", "memory.oom_control")?;
                keyed(&events, "oom_kill").filter(|count| *count > 0)?;
                self.was_full()
            }
        };
        Some(if is_own { Whose::Own } else { Whose::Above })
    }

    /// Returns whether a group of version 1 ever had all the memory that it may have. Refusals for the
    /// limit of memory and swap together are not counted by every kernel.
    fn was_full(&self) -> bool {
        let number = |file: &str| self.number("memory", file);
        let is_refused = ["memory.failcnt", "memory.memsw.failcnt"]
            .into_iter()
            .any(|file| number(file).is_some_and(|count| count > 0));
        let limit = number("memory.limit_in_bytes").unwrap_or(u64::MAX);
        let most =
            number("memory.max_usage_in_bytes").max(number("memory.memsw.max_usage_in_bytes"));
        is_refused || most.is_some_and(|most| most.saturating_add(SLACK_BYTES) >= limit)
    }

    /// Returns whose limit it was if a process could not be started because there were too many.
    /// Has to be asked now and then, for older kernels do not say how many there were at most.
    pub(crate) fn process_refusal(&self) -> Option<Whose> {
        let now = self.number("pids", "pids.current").unwrap_or(0);
        let seen = self.processes.fetch_max(now, Ordering::Relaxed).max(now);
        let events = self.read("pids", "pids.events")?;
        keyed(&events, "max").filter(|count| *count > 0)?;
        let max = self.number("pids", "pids.max").unwrap_or(u64::MAX);
        let is_own = match self.number("pids", "pids.peak") {
            // Kernels that have this file count a refusal where the limit is.
            _ if self.read("pids", "pids.events.local").is_some() => true,
            Some(most) => most >= max,
            // What lies between two looks is not seen.
            None => seen >= max / 2,
        };
        Some(if is_own { Whose::Own } else { Whose::Above })
    }

    /// Returns the processor time used so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        match self.version {
            2 => self
                .read("cpu", "cpu.stat")
                .and_then(|text| keyed(&text, "usage_usec"))
                .map(Duration::from_micros),
            _ => self
                .read("cpuacct", "cpuacct.usage")
                .and_then(|text| text.trim().parse().ok())
                .map(Duration::from_nanos),
        }
    }

    /// Returns the most memory used at a time.
    pub(crate) fn peak_memory_bytes(&self) -> Option<u64> {
        let file = match self.version {
            2 => "memory.peak",
            _ => "memory.max_usage_in_bytes",
        };
        self.read("memory", file)?.trim().parse().ok()
    }

    /// Kills whoever is in the group, and tells whether there was anybody.
    pub(crate) fn kill(&self) -> bool {
        self.strike().0
    }

    /// Tells whether there was anybody, and whether somebody could be killed.
    fn strike(&self) -> (bool, bool) {
        // Older kernels have no such file; the list is always there.
        let as_one = self
            .kill
            .as_ref()
            .is_some_and(|folder| std::fs::write(folder.join("cgroup.kill"), "1").is_ok());
        let (mut any, mut killed) = (false, as_one);
        for folder in self.folders() {
            let list = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            for pid in list.lines().filter_map(|line| line.parse().ok()) {
                any = true;
                // A process of a group that is not ours to see is listed as 0, which would be us.
                if pid > 0 {
                    killed |= kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok();
                }
            }
        }
        (any, killed)
    }

    /// Ends a dead worker's group; whoever is not ours to end is left in it.
    fn end(self) {
        // Nobody there starts anything any more.
        let _ = self.write("pids", "pids.max", "0");
        let since = Stopwatch::start();
        while self.strike() == (true, true) && since.elapsed() < GONE {
            std::thread::yield_now();
        }
    }
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_both_versions_are_found() {
        let mountinfo = "30 1 0:9 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                         31 1 0:9 /pod /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                         32 1 0:9 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n\
                         33 1 0:9 / /tmp rw - tmpfs tmpfs rw";
        let own = "3:memory:/pod/a\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/b/c\n";
        let found = mounts(mountinfo, own);
        let wanted = [
            ("", "/sys/fs/cgroup/unified/b/c"),
            ("cpu", "/sys/fs/cgroup/cpu"),
            ("cpuacct", "/sys/fs/cgroup/cpu"),
            ("memory", "/sys/fs/cgroup/memory/a"),
        ];
        let wanted: BTreeMap<String, PathBuf> = wanted
            .into_iter()
            .map(|(name, path)| (name.to_owned(), PathBuf::from(path)))
            .collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn version_2_needs_controllers_that_are_handed_down() {
        let dir = tempfile::tempdir().unwrap();
        let control = dir.path().join("cgroup.subtree_control");
        assert!(in_version_2(dir.path()).is_err());
        std::fs::write(&control, "memory io\n").unwrap();
        assert!(in_version_2(dir.path()).unwrap_err().contains("delegate"));
        std::fs::write(&control, "cpu memory pids\n").unwrap();
        let found = in_version_2(dir.path()).unwrap();
        assert_eq!(found.controllers, ["memory", "pids", "cpu"]);
        // A folder stands in for the kernel's: what is written shows the names and the values.
        let limits = Limits {
            memory_bytes: 77,
            processes: 5,
            cores: Some(1.5),
            ..Limits::default()
        };
        let group = found.group(&limits, false).unwrap();
        let read = |file: &str| group.read("memory", file).unwrap();
        assert_eq!(read("memory.max"), "77");
        assert_eq!(read("pids.max"), "10");
        assert_eq!(read("cpu.max"), "150000 100000");
    }

    /// A folder stands in for the kernel's; returns what is told of memory and of processes.
    fn told(version: u8, files: &[(&str, &str)]) -> (Option<Whose>, Option<Whose>) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let names: &[&str] = if version == 2 {
            &[""]
        } else {
            &["memory", "pids"]
        };
        let folders = names.iter();
        let group = Group {
            version,
            processes: AtomicU64::new(0),
            folders: folders
                .map(|name| ((*name).to_owned(), dir.path().to_path_buf()))
                .collect(),
            kill: None,
            claims: Vec::new(),
        };
        (group.memory_kill(), group.process_refusal())
    }

    #[test]
    fn who_is_killed_for_want_of_memory_may_be_within_its_limit() {
        let killed = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
        let one = [
            ("memory.oom_control", killed),
            ("memory.limit_in_bytes", "2147483648\n"),
        ];
        let (own, above) = (Some(Whose::Own), Some(Whose::Above));
        for (version, files, want) in [
            (
                2,
                vec![("memory.events", "max 9\noom 0\noom_kill 0\n")],
                None,
            ),
            (
                2,
                vec![("memory.events", "max 9\noom 2\noom_kill 1\n")],
                own,
            ),
            (
                2,
                vec![("memory.events", "max 9\noom 0\noom_kill 1\n")],
                above,
            ),
            (
                2,
                vec![
                    ("memory.events", "oom 2\noom_kill 1\n"),
                    ("memory.events.local", "oom 0\noom_kill 1\n"),
                ],
                above,
            ),
            (1, vec![("memory.oom_control", "oom_kill 0\n")], None),
            (1, one.to_vec(), above),
            (
                1,
                [one.to_vec(), vec![("memory.failcnt", "7\n")]].concat(),
                own,
            ),
            (
                1,
                [
                    one.to_vec(),
                    vec![("memory.memsw.max_usage_in_bytes", "2147400000\n")],
                ]
                .concat(),
                own,
            ),
            (
                1,
                [
                    one.to_vec(),
                    vec![("memory.max_usage_in_bytes", "300000000\n")],
                ]
                .concat(),
                above,
            ),
        ] {
            assert_eq!(told(version, &files).0, want, "{version}: {files:?}");
        }
    }

    #[test]
    fn who_is_refused_a_process_may_be_within_its_limit() {
        let (own, above) = (Some(Whose::Own), Some(Whose::Above));
        let refused = [("pids.max", "40\n"), ("pids.events", "max 3\n")];
        for (more, want) in [
            (("pids.peak", "40\n"), own),
            (("pids.peak", "12\n"), above),
            (("pids.events.local", "max 3\n"), own),
            (("pids.current", "38\n"), own),
            (("pids.current", "5\n"), above),
        ] {
            let files = [refused.to_vec(), vec![more]].concat();
            assert_eq!(told(2, &files).1, want, "{more:?}");
        }
        assert_eq!(told(2, &[("pids.events", "max 0\n")]).1, None);
    }

    /// Programs of a group whose worker was killed: the lock fell, and nobody removed anything.
    fn leave(group: &mut Group, count: usize) -> Vec<std::process::Child> {
        let sleep = || std::process::Command::new("sleep").arg("300").spawn();
        let all: Vec<_> = (0..count).map(|_| sleep().unwrap()).collect();
        for (folder, child) in group
            .folders()
            .iter()
            .flat_map(|folder| all.iter().map(move |child| (folder, child)))
        {
            std::fs::write(folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        }
        for claim in &mut group.claims {
            claim.lock = None;
        }
        all
    }

    /// Both versions of the kernel's interface, as far as this machine lets groups be made.
    #[test]
    fn who_survived_a_killed_worker_is_ended_by_the_next() {
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        let mounts = mounts(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        let unified = mounts.get("").map(|folder| Cgroups {
            version: 2,
            controllers: Vec::new(),
            folders: [(String::new(), folder.clone())].into(),
            kill: Some(folder.clone()),
        });
        let without_kill = unified.clone().map(|groups| Cgroups {
            kill: None,
            ..groups
        });
        let old = in_version_1(&mounts).ok();
        for groups in [unified, without_kill, old].into_iter().flatten() {
            let limits = Limits::default();
            let (Ok(held), Ok(mut left)) =
                (groups.place(&limits, true), groups.place(&limits, true))
            else {
                continue;
            };
            let folders: Vec<PathBuf> = left.folders().into_iter().map(Into::into).collect();
            let mut living = std::process::Command::new("sleep")
                .arg("300")
                .spawn()
                .unwrap();
            for folder in held.folders() {
                std::fs::write(folder.join("cgroup.procs"), living.id().to_string()).unwrap();
            }
            let survivors = leave(&mut left, 3);
            groups.sweep();
            for mut child in survivors {
                use std::os::unix::process::ExitStatusExt as _;
                // Hangs, and so fails, if it was not killed.
                assert_eq!(child.wait().unwrap().signal(), Some(9), "{groups:?}");
            }
            for folder in folders {
                assert!(!folder.exists(), "{}", folder.display());
            }
            assert!(living.try_wait().unwrap().is_none(), "its worker lives");
            assert!(held.folders().iter().all(|folder| folder.is_dir()));
            living.kill().unwrap();
            living.wait().unwrap();
        }
    }

    #[test]
    fn counters_are_read_by_name() {
        assert_eq!(keyed("oom 3\noom_kill 2\n", "oom_kill"), Some(2));
        assert_eq!(keyed("oom_kill_disable 0\nunder_oom 0\n", "oom_kill"), None);
    }
}
