//! The thread that starts sandboxes.
//!
//! A sandbox dies with the *thread* that started it, which is how it dies with the worker. Threads of
//! an async runtime come and go, so that starting is left to one that stays.

use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

struct Job {
    command: Command,
    reply: oneshot::Sender<std::io::Result<Child>>,
}

#[derive(Debug)]
pub(crate) struct Starter {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    pub(crate) fn new() -> std::io::Result<Self> {
        // Bounded by the rooms that wait for their answer.
        let (jobs, inbox) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new()
            .name("sandbox-starter".to_owned())
            .spawn(move || {
                for mut job in inbox {
                    let unwanted = job.reply.send(job.command.spawn());
                    // Nobody waits any more. It has not been told yet what to run.
                    if let Err(Ok(mut child)) = unwanted {
                        let _ = child.kill();
                        let _ = child.wait();
                    }
                }
            })?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Starts a process that lives at most as long as this starter.
    pub(crate) async fn start(&self, command: Command) -> std::io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || std::io::Error::other("the thread that starts sandboxes is gone");
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Job { command, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
