//! One run, from start to end.
//!
//! The launcher joins the control group and becomes bubblewrap (or init itself, where there is none);
//! init calls the worker, is told what to run, and says how it ended. Meanwhile the worker reads the
//! output, watches the limits and the time. In the end everything is killed, always, and the end is
//! waited for.

use std::process::{ChildStderr, ChildStdin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use skillopt_runtime::clock::Stopwatch;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::check::check;
use crate::cleaner::Remains;
use crate::collect::collect;
use crate::control::{Control, Waiting};
use crate::folder::Folder;
use crate::level::Level;
use crate::limits::Limit;
use crate::output::{Collector, Shared};
use crate::report::{Ending, Report};
use crate::room::Room;
use crate::task::{Line, Place, Stream, Task};
use crate::watch::{Crossed, Seen, State, Watch};
use crate::wire::Word;
use crate::{Error, disk, forward, start};

/// How long the sandbox may take to stand.
const START: Duration = Duration::from_secs(60);
/// How long the output may take to end after everything was killed.
const DRAIN: Duration = Duration::from_secs(5);
/// How much of a sandbox's complaint is read, in bytes.
const COMPLAINT: usize = 4096;

/// Why the program is to be over.
enum Verdict {
    Word(Option<Word>),
    Crossed(Crossed),
    TimedOut,
}

/// What has to be ended, also if the run is dropped.
struct Running<'a> {
    room: &'a Room,
    remains: Option<Remains>,
}

impl Running<'_> {
    /// Ends everything and waits for it.
    async fn end(mut self) -> Result<(), String> {
        let Some(remains) = self.remains.take() else {
            return Ok(());
        };
        let ended = tokio::task::spawn_blocking(move || remains.end()).await;
        ended.unwrap_or_else(|e| Err(format!("ending the sandbox broke: {e}")))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let (Some(remains), Some(cleaner)) = (self.remains.take(), &self.room.shared.cleaner) {
            cleaner.end(remains);
        }
    }
}

impl Room {
    /// Runs a program to its end and hands on each line that it prints. May be called again: a later
    /// program finds what the earlier one left in the folders.
    ///
    /// # Errors
    /// It could not even begin.
    ///
    /// # Cancel safety
    /// May be dropped at any time: everything that was started is then ended by the host.
    pub async fn run(
        &mut self,
        task: &Task,
        on_line: &mut (dyn FnMut(Line<'_>) + Send),
    ) -> Result<Report, Error> {
        check(task, &self.shared.folder)?;
        run(self, task, on_line).await
    }
}

async fn run(
    room: &Room,
    task: &Task,
    on_line: &mut (dyn FnMut(Line<'_>) + Send),
) -> Result<Report, Error> {
    let (work, home, tmp) = (open(room, "work")?, open(room, "home")?, open(room, "tmp")?);
    for file in &task.files {
        let folder = match file.place {
            Place::Work => &work,
            Place::Home => &home,
        };
        let path = room.outside(file.place).join(&file.path);
        let wrote = folder.write(&file.path, &file.bytes, file.is_executable);
        wrote.map_err(|errno| Error::io("write", &path)(errno.into()))?;
    }
    let waiting = Waiting::new(&room.folder)?;
    let group = match &room.shared.probe.cgroups {
        Ok(cgroups) => {
            let is_namespace = room.shared.level == Level::Bubblewrap;
            let group = cgroups.group(&room.limits, is_namespace);
            Some(group.map_err(Error::Start)?)
        }
        Err(_) => None,
    };
    let group = group.map(Arc::new);
    let command = start::command(room, task, group.as_deref(), waiting.path());
    let mut child = room
        .shared
        .starter
        .start(command)
        .await
        .map_err(|e| Error::Start(format!("its launcher cannot be started: {e}")))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let root = i32::try_from(child.id()).unwrap_or_default();
    let mut running = Running {
        room,
        remains: Some(Remains {
            child,
            first: None,
            is_keeper: false,
            group: group.clone(),
        }),
    };
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(Error::Start("its pipes could not be opened".to_owned()));
    };
    let (mut control, stderr) = called(&waiting, stderr).await?;
    drop(waiting);
    if let Some(remains) = &mut running.remains {
        match room.shared.level {
            Level::Bubblewrap => remains.first = control.pid.and_then(Remains::handle),
            Level::Landlock | Level::None => remains.is_keeper = true,
        }
    }
    let mut relays = relays(room)?;

    let sent = control.send(&start::spec(room, task)).await;
    sent.map_err(|e| Error::Start(format!("it cannot be told what to run: {e}")))?;
    match tokio::time::timeout(START, control.word()).await {
        Ok(Some(Word::Started)) => {}
        Ok(Some(Word::Failed { why, is_program })) => {
            return Err(match is_program {
                true => Error::Program {
                    program: task.program.clone(),
                    why,
                },
                false => Error::Start(why),
            });
        }
        _ => return Err(Error::Start("it ended before the program ran".to_owned())),
    }

    let since = Stopwatch::start();
    let watch = Arc::new(Watch {
        limits: room.limits.clone(),
        root,
        group,
        folders: match room.shared.level {
            // There it is a mount of its own, which is bounded and gone in the end.
            Level::Bubblewrap => vec![work, home],
            Level::Landlock | Level::None => vec![work, home, tmp],
        },
        state: Mutex::new(State::default()),
    });
    let shared = Shared::new(&room.limits, on_line);
    let mut out = Collector::new(Stream::Out, &room.limits);
    let mut err = Collector::new(Stream::Err, &room.limits);
    let (verdict, lost) = {
        let talk = async {
            tokio::join!(
                feed(stdin, &task.stdin),
                read(
                    tokio::process::ChildStdout::from_std(stdout),
                    &mut out,
                    &shared
                ),
                read(Ok(stderr), &mut err, &shared)
            )
        };
        tokio::pin!(talk);
        let mut is_quiet = false;
        let verdict = {
            let decide = decide(&mut control, &watch, &shared);
            tokio::pin!(decide);
            loop {
                tokio::select! {
                    biased;
                    verdict = &mut decide => break verdict,
                    _ = &mut talk, if !is_quiet => is_quiet = true,
                }
            }
        };
        control.cut();
        let drained = async {
            if !is_quiet {
                // A pipe that stays open is not the program's any more.
                let _ = tokio::time::timeout(DRAIN, &mut talk).await;
            }
        };
        let (ended, ()) = tokio::join!(running.end(), drained);
        (verdict, ended.err())
    };
    let wall = since.elapsed();
    relays.abort_all();
    let looking = Arc::clone(&watch);
    let last = tokio::task::spawn_blocking(move || looking.look(true)).await;
    let left_behind = match &verdict {
        Verdict::Word(Some(Word::Ended { left_behind, .. })) => *left_behind,
        _ => 0,
    };
    let over = Over {
        verdict,
        lost,
        crossed: last
            .unwrap_or_else(|e| Some(Crossed::Lost(format!("looking at the sandbox broke: {e}")))),
        memory_bytes: room.limits.memory_bytes,
        signals: [Signal::SIGXCPU, Signal::SIGXFSZ].map(|signal| signal as i32),
    };
    let (mut ending, used) = over.ending();
    let seen = watch.seen();
    let (patterns, bytes) = (task.collect.clone(), room.limits.collected_bytes);
    let files = open(room, "work")?;
    let collecting = move || collect(&files, &patterns, bytes);
    let collected = tokio::task::spawn_blocking(collecting).await;
    let collected =
        collected.unwrap_or_else(|e| Err(format!("collecting the program's files broke: {e}")));
    let (files, refused) = collected.unwrap_or_else(|why| {
        ending = or_lost(ending.clone(), why);
        (Vec::new(), Vec::new())
    });
    let (stdout, stderr) = (out.finish(), err.finish());
    let wants_files = !task.collect.is_empty();
    if disk::is_full(&room.folder)
        && disk::is_starved(&ending, [&stdout, &stderr], wants_files, &files)
    {
        let why = "the disk of this machine was full at its end; make room there";
        ending = or_lost(ending, why.to_owned());
    }
    Ok(Report {
        ending,
        stdout,
        stderr,
        files,
        refused,
        left_behind,
        wall,
        cpu: seen.cpu.max(used.cpu),
        peak_memory_bytes: seen.peak_memory_bytes.max(used.peak_memory_bytes),
    })
}

/// What a fault of this machine makes of an ending: who crossed a limit did so all the same.
fn or_lost(ending: Ending, why: String) -> Ending {
    match ending {
        Ending::Exited(_) | Ending::Signalled(_) => Ending::Lost(why),
        Ending::TimedOut | Ending::Limit(_) | Ending::Lost(_) => ending,
    }
}

fn open(room: &Room, name: &str) -> Result<Folder, Error> {
    let path = room.folder.join(name);
    Folder::open(&path).map_err(Error::io("open", &path))
}

/// Waits for init's call; if the sandbox ends before, its error output says why.
async fn called(
    waiting: &Waiting,
    stderr: ChildStderr,
) -> Result<(Control, tokio::process::ChildStderr), Error> {
    let broken = |what: &str, e: std::io::Error| Error::Start(format!("{what}: {e}"));
    let mut stderr = tokio::process::ChildStderr::from_std(stderr)
        .map_err(|e| broken("its error output cannot be read", e))?;
    let mut said = Vec::new();
    let listening = async {
        // The program does not run yet: whatever is said here is the sandbox's own complaint, and
        // the end of it is the sandbox's end.
        let mut some = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut some).await {
            let room = COMPLAINT - said.len();
            said.extend_from_slice(&some[..count.min(room)]);
        }
    };
    tokio::select! {
        biased;
        control = waiting.call() => {
            let control = control.map_err(|e| broken("its call was lost", e))?;
            return Ok((control, stderr));
        }
        () = listening => {}
        () = tokio::time::sleep(START) => {
            let seconds = START.as_secs();
            return Err(Error::Start(format!("nothing was heard of it for {seconds} s")));
        }
    }
    let text = String::from_utf8_lossy(&said);
    let line = text.lines().next().unwrap_or("it ended without a word");
    Err(Error::Start(line.to_owned()))
}

/// Forwards the machine's ports to the relays, where the program has no network of its own.
fn relays(room: &Room) -> Result<JoinSet<()>, Error> {
    let mut all = JoinSet::new();
    for (listener, relay) in room.listeners.iter().zip(&room.relays) {
        let listener = listener.try_clone().and_then(TcpListener::from_std);
        let listener =
            listener.map_err(|e| Error::Start(format!("a relay's port is lost: {e}")))?;
        let socket = relay.socket.clone();
        all.spawn(async move { forward::forward(listener, &socket).await });
    }
    Ok(all)
}

/// A program that does not read its input may be right all the same.
async fn feed(stdin: ChildStdin, bytes: &[u8]) {
    if let Ok(mut stdin) = tokio::process::ChildStdin::from_std(stdin) {
        let _ = stdin.write_all(bytes).await;
    }
}

async fn read(
    from: std::io::Result<impl AsyncRead + Unpin>,
    to: &mut Collector,
    shared: &Shared<'_>,
) {
    if let Ok(from) = from {
        to.read(from, shared).await;
    }
}

/// Returns why the program is to be over. One whose time is over is asked to end first.
async fn decide(control: &mut Control, watch: &Arc<Watch>, shared: &Shared<'_>) -> Verdict {
    tokio::select! {
        biased;
        // What the program did by itself goes before what we would do to it.
        word = control.word() => return Verdict::Word(word),
        () = shared.over.notified() => return Verdict::Crossed(Crossed::Limit(Limit::Output)),
        crossed = watch.crossed() => return Verdict::Crossed(crossed),
        () = tokio::time::sleep(watch.limits.wall) => {}
    }
    control.stop().await;
    let _ = tokio::time::timeout(watch.limits.grace, control.word()).await;
    Verdict::TimedOut
}

/// What is known when everything is over.
struct Over {
    verdict: Verdict,
    /// Why it could not be ended.
    lost: Option<String>,
    /// What the last look found.
    crossed: Option<Crossed>,
    memory_bytes: u64,
    /// The kernel's signals for a process's own limits: processor time, size of a file.
    signals: [i32; 2],
}

impl Over {
    /// Returns the ending, and what init says was used.
    fn ending(self) -> (Ending, Seen) {
        let mut used = Seen::default();
        let told = match self.verdict {
            Verdict::Crossed(Crossed::Limit(limit)) => Ending::Limit(limit),
            Verdict::Crossed(Crossed::Lost(why)) => Ending::Lost(why),
            Verdict::TimedOut => match self.crossed {
                // Who was failed by the machine is not slow by itself.
                Some(Crossed::Lost(why)) => Ending::Lost(why),
                _ => Ending::TimedOut,
            },
            Verdict::Word(Some(Word::Ended {
                code,
                signal,
                cpu_us,
                peak_kib,
                ..
            })) => {
                used = Seen {
                    cpu: Duration::from_micros(cpu_us),
                    peak_memory_bytes: peak_kib.saturating_mul(1024),
                };
                let is_hog = used.peak_memory_bytes > self.memory_bytes;
                match (self.crossed, code, signal) {
                    (Some(Crossed::Limit(limit)), ..) => Ending::Limit(limit),
                    (Some(Crossed::Lost(why)), ..) => Ending::Lost(why),
                    _ if is_hog => Ending::Limit(Limit::Memory),
                    (_, _, Some(signal)) if signal == self.signals[0] => Ending::Limit(Limit::Cpu),
                    (_, _, Some(signal)) if signal == self.signals[1] => Ending::Limit(Limit::Disk),
                    (_, _, Some(signal)) => Ending::Signalled(signal),
                    (_, Some(code), _) => Ending::Exited(code),
                    _ => Ending::Lost("the program ended in an unknown way".to_owned()),
                }
            }
            Verdict::Word(Some(Word::Failed { why, .. })) => Ending::Lost(why),
            Verdict::Word(None | Some(Word::Started)) => match self.crossed {
                // Init itself was killed, for the limit was crossed.
                Some(Crossed::Limit(limit)) => Ending::Limit(limit),
                Some(Crossed::Lost(why)) => Ending::Lost(why),
                None => Ending::Lost("the sandbox ended without saying how".to_owned()),
            },
        };
        (self.lost.map_or(told, Ending::Lost), used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verdict: Verdict, crossed: Option<Crossed>, want: &Ending) {
        let over = Over {
            verdict,
            lost: None,
            crossed,
            memory_bytes: 99,
            signals: [24, 25],
        };
        assert_eq!(&over.ending().0, want);
    }

    #[test]
    fn a_fault_of_the_machine_is_no_end_of_the_program() {
        let lost = || Some(Crossed::Lost("no memory".to_owned()));
        let want = Ending::Lost("no memory".to_owned());
        let ended = |code, signal| {
            Verdict::Word(Some(Word::Ended {
                code,
                signal,
                cpu_us: 0,
                peak_kib: 0,
                left_behind: 0,
            }))
        };
        check(ended(Some(0), None), lost(), &want);
        check(ended(None, Some(9)), lost(), &want);
        check(Verdict::Word(None), lost(), &want);
        check(Verdict::TimedOut, lost(), &want);
        check(Verdict::Crossed(lost().unwrap()), None, &want);
        let limit = || Crossed::Limit(Limit::Memory);
        check(
            Verdict::Crossed(limit()),
            lost(),
            &Ending::Limit(Limit::Memory),
        );
        check(
            ended(Some(0), None),
            Some(limit()),
            &Ending::Limit(Limit::Memory),
        );
        check(Verdict::TimedOut, Some(limit()), &Ending::TimedOut);
        check(ended(Some(3), None), None, &Ending::Exited(3));
    }
}
