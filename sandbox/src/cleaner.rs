//! Ends what is left of a run, and the thread that does so for runs that nobody waits for any more.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use skillopt_runtime::clock::Stopwatch;

use crate::cgroup::Group;
use crate::{folder, tree};

/// How long init may take to end everything by itself.
const BY_ITSELF: Duration = Duration::from_secs(5);
/// How long killed processes may take to be gone.
const GONE: Duration = Duration::from_secs(20);

/// Everything that has to end with a run.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) child: Child,
    /// Init inside a namespace, as it is known outside: its end is the end of everybody there.
    pub(crate) first: Option<OwnedFd>,
    /// Init outside of namespaces kills by itself once its lifeline is cut.
    pub(crate) is_keeper: bool,
    pub(crate) group: Option<Arc<Group>>,
}

impl Remains {
    /// Returns a handle of a process, which never means another one.
    pub(crate) fn handle(pid: i32) -> Option<OwnedFd> {
        pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
    }

    /// Kills everything and waits until it is gone. The lifeline has to be cut before.
    ///
    /// # Errors
    /// Something is still alive after a long time.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let id = i32::try_from(self.child.id()).unwrap_or_default();
        let leader = Self::handle(id);
        let since = Stopwatch::start();
        let mut left = Vec::new();
        match &self.first {
            // It may be gone already.
            Some(first) => drop(pidfd_send_signal(first, Signal::KILL)),
            None if self.is_keeper && is_over(leader.as_ref(), BY_ITSELF) => {}
            // Either a keeper that hangs, or a sandbox that is not known to stand: a first process that
            // waits for its launcher would wait for ever for one that is gone.
            None => {
                if !end_below(id, leader.as_ref(), GONE) {
                    left.push("what it started");
                }
            }
        }
        // Likewise.
        let _ = self.child.kill();
        for (what, handle) in [("its first process", &self.first), ("itself", &leader)] {
            if !is_over(handle.as_ref(), GONE.saturating_sub(since.elapsed())) {
                left.push(what);
            }
        }
        if left.is_empty() {
            let _ = self.child.wait();
        }
        if let Some(group) = &self.group {
            while group.kill() {
                if since.elapsed() > GONE {
                    left.push("its control group");
                    break;
                }
                std::thread::yield_now();
            }
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "the sandbox could not be ended: {} is still there after {} s",
                left.join(", "),
                since.elapsed().as_secs()
            )),
        }
    }
}

/// Waits until the process is gone; one without a handle is.
fn is_over(handle: Option<&OwnedFd>, limit: Duration) -> bool {
    let Some(handle) = handle else { return true };
    let since = Stopwatch::start();
    loop {
        let left = limit.saturating_sub(since.elapsed());
        let mut wanted = [PollFd::new(handle, PollFlags::IN)];
        let limit = Timespec::try_from(left).ok();
        match poll(&mut wanted, limit.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Kills everything below a process that was started, and tells whether all of it is gone.
fn end_below(leader: i32, handle: Option<&OwnedFd>, limit: Duration) -> bool {
    if let Some(handle) = handle {
        // It starts nothing further. Being stopped does not keep it from being killed.
        let _ = pidfd_send_signal(handle, Signal::STOP);
    }
    let since = Stopwatch::start();
    loop {
        let found = tree::below(leader).into_iter();
        let living: Vec<OwnedFd> = found
            .filter_map(Remains::handle)
            // Who is over stays in the list until its parent looks.
            .filter(|handle| !is_over(Some(handle), Duration::ZERO))
            .collect();
        if living.is_empty() {
            return true;
        }
        for handle in &living {
            // It may have ended meanwhile.
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        for handle in &living {
            if !is_over(Some(handle), limit.saturating_sub(since.elapsed())) {
                return false;
            }
        }
    }
}

enum Work {
    End(Box<Remains>),
    Remove(PathBuf),
    Tell(tokio::sync::oneshot::Sender<()>),
}

/// The thread that ends and removes, in the order in which it is told.
#[derive(Debug)]
pub(crate) struct Cleaner {
    work: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Cleaner {
    pub(crate) fn new() -> std::io::Result<Self> {
        // Bounded by the rooms there are.
        let (work, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("sandbox-cleaner".to_owned())
            .spawn(move || inbox.into_iter().for_each(carry_out))?;
        Ok(Self {
            work: Some(work),
            thread: Some(thread),
        })
    }

    pub(crate) fn end(&self, remains: Remains) {
        self.hand_over(Work::End(Box::new(remains)));
    }

    pub(crate) fn remove(&self, folder: PathBuf) {
        self.hand_over(Work::Remove(folder));
    }

    /// Waits until everything before is done.
    pub(crate) async fn is_done(&self) {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.hand_over(Work::Tell(tell));
        // An error means that the thread is over, and so is its work.
        let _ = told.await;
    }

    fn hand_over(&self, work: Work) {
        let refused = match &self.work {
            Some(inbox) => inbox.send(work).err().map(|e| e.0),
            None => Some(work),
        };
        if let Some(work) = refused {
            carry_out(work);
        }
    }
}

fn carry_out(work: Work) {
    match work {
        // There is nobody left to be told; what is still alive keeps its folder, which a later
        // worker finds.
        Work::End(remains) => drop(remains.end()),
        Work::Remove(path) => drop(folder::remove(&path)),
        Work::Tell(waiting) => drop(waiting.send(())),
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// A launcher whose sandbox was never heard of, as it is when a run is dropped while it begins: with
    /// no handle of its first process and no group, and with a process below that outlives its parent.
    #[test]
    fn a_sandbox_that_was_not_heard_of_yet_is_ended() {
        let script = "trap '' HUP TERM; (setsid sh -c 'trap \"\" HUP TERM; echo $$; sleep 300 & wait'; :) & \
                      wait";
        for is_keeper in [false, true] {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0);
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
            let below: i32 = said.next().unwrap().unwrap().parse().unwrap();
            let handle = Remains::handle(below).unwrap();
            assert!(!is_over(Some(&handle), Duration::ZERO));
            let remains = Remains {
                child,
                first: None,
                is_keeper,
                group: None,
            };
            assert_eq!(remains.end(), Ok(()));
            assert!(is_over(Some(&handle), Duration::ZERO));
            // Nobody holds its output open: the last one is gone, too.
            assert!(said.next().is_none());
        }
    }
}
