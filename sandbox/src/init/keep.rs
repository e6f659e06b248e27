//! Starts the program, reaps everything, kills what is left.
//!
//! Inside namespaces this is process 1, which the program cannot kill, and whose end is the end of
//! everything. Elsewhere it adopts whatever loses its parent. The connection to the worker is the
//! lifeline: when it ends, everything ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::time::TimeValLike as _;
use nix::unistd::{Pid, getpid};
use rustix::process::{WaitOptions, wait};

use crate::wire::{Confinement, Forward, Order, Rlimits, Spec, Word};
use crate::{confine, forward, tree};

/// Files and sockets that the program may have open.
const OPEN_FILES: u64 = 8_192;

/// Says whether a program can be bound on this machine; started inside to try the sandbox out.
pub(super) fn check() -> Result<(), String> {
    let tried = thread::spawn(|| confine::apply(&Confinement::Namespaces)).join();
    tried.unwrap_or_else(|_| Err("the filter of system calls broke".to_owned()))?;
    // The program's loopback has to be there, too.
    std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(|e| format!("no loopback: {e}"))?;
    Ok(())
}

/// Serves one run.
pub(super) fn keep(socket: &Path) -> Result<(), String> {
    // The program runs as the same user: it must be able neither to trace this process nor to open
    // what it has open.
    prctl::set_dumpable(false).map_err(|e| format!("cannot be shut off: {e}"))?;
    let mut control = UnixStream::connect(socket)
        .map_err(|e| format!("the worker does not answer at `{}`: {e}", socket.display()))?;
    let reading = control.try_clone().map_err(|e| e.to_string())?;
    let mut orders = BufReader::new(reading);
    let mut line = String::new();
    orders.read_line(&mut line).map_err(|e| e.to_string())?;
    let spec: Spec = serde_json::from_str(&line)
        .map_err(|e| format!("the worker's order cannot be read: {e}"))?;
    let program = Arc::new(AtomicI32::new(0));
    let heard = Arc::clone(&program);
    // Before there is a program that may use all threads up. Not joined: it waits for the worker,
    // and ends with this process.
    thread::Builder::new()
        .spawn(move || listen(orders, &heard))
        .map_err(|e| format!("no thread for the worker's orders: {e}"))?;
    let mut last = match begin(spec) {
        Ok(id) => {
            program.store(id, Ordering::SeqCst);
            say(&mut control, &Word::Started);
            reap(id, &program)
        }
        Err((why, is_program)) => Word::Failed { why, is_program },
    };
    let killed = kill_all();
    if let Word::Ended { left_behind, .. } = &mut last {
        *left_behind = killed;
    }
    say(&mut control, &last);
    Ok(())
}

/// The worker may be gone; then there is nobody to tell.
fn say(control: &mut UnixStream, word: &Word) {
    if let Ok(text) = serde_json::to_string(word) {
        let _ = control.write_all(format!("{text}\n").as_bytes());
    }
}

/// Starts the relays and the program; on failure says whether the program itself is to blame.
fn begin(spec: Spec) -> Result<i32, (String, bool)> {
    let ours = |why: String| (why, false);
    if !is_first() {
        prctl::set_child_subreaper(true).map_err(|e| ours(format!("cannot adopt: {e}")))?;
        // From here on the lifeline does it: killed by a signal, this process could kill nobody.
        prctl::set_pdeathsig(None).map_err(|e| ours(e.to_string()))?;
    }
    relay(&spec.forwards).map_err(ours)?;
    limit(&spec.rlimits).map_err(ours)?;
    let (tx, rx) = mpsc::channel();
    // What binds it holds for this thread and its children; the rest of this process stays free.
    let starter = thread::spawn(move || {
        let started = match confine::apply(&spec.confinement) {
            Err(why) => Err((why, false)),
            Ok(()) => start(&spec),
        };
        // The receiver waits for just this.
        let _ = tx.send(started);
    });
    let started = rx.recv();
    if starter.join().is_err() {
        return Err(ours("the thread that starts the program broke".to_owned()));
    }
    started.unwrap_or_else(|_| Err(ours("the program was not started".to_owned())))
}

fn start(spec: &Spec) -> Result<i32, (String, bool)> {
    let child = Command::new(&spec.program)
        .args(&spec.args)
        .env_clear()
        .envs(&spec.env)
        .current_dir(&spec.folder)
        .process_group(0)
        .spawn()
        .map_err(|e| (e.to_string(), true))?;
    i32::try_from(child.id()).map_err(|e| (e.to_string(), false))
}

fn is_first() -> bool {
    getpid().as_raw() == 1
}

/// Ports are listened on before the program starts, so that it need not try again.
fn relay(forwards: &[Forward]) -> Result<(), String> {
    if forwards.is_empty() {
        return Ok(());
    }
    let mut bound = Vec::new();
    for Forward { port, socket } in forwards {
        let listener = std::net::TcpListener::bind(("127.0.0.1", *port))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|e| format!("cannot listen on 127.0.0.1:{port}: {e}"))?;
        bound.push((listener, socket.clone()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|e| format!("cannot forward: {e}"))?;
    // Not joined: it ends with this process.
    thread::spawn(move || {
        runtime.block_on(async {
            let mut all = tokio::task::JoinSet::new();
            for (listener, socket) in bound {
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    all.spawn(async move { forward::forward(listener, &socket).await });
                }
            }
            while all.join_next().await.is_some() {}
        });
    });
    Ok(())
}

/// Sets the limits of single processes, which the program inherits and cannot raise again.
fn limit(limits: &Rlimits) -> Result<(), String> {
    let wanted = [
        (Resource::RLIMIT_CORE, Some(0)),
        (Resource::RLIMIT_NOFILE, Some(OPEN_FILES)),
        (Resource::RLIMIT_FSIZE, Some(limits.file_bytes)),
        (Resource::RLIMIT_CPU, limits.cpu_s),
        (Resource::RLIMIT_NPROC, limits.processes),
    ];
    for (resource, value) in wanted {
        let Some(value) = value else { continue };
        let (_, hard) = getrlimit(resource).map_err(|e| e.to_string())?;
        let value = value.min(hard);
        setrlimit(resource, value, value).map_err(|e| format!("{resource:?}: {e}"))?;
    }
    Ok(())
}

/// Waits for the worker's orders; the end of the connection ends everything.
fn listen(orders: impl std::io::BufRead, program: &AtomicI32) {
    for line in orders.lines() {
        let Ok(Ok(Order::Stop)) = line.map(|line| serde_json::from_str(&line)) else {
            break;
        };
        let group = program.load(Ordering::SeqCst);
        if group > 0 {
            // The group may have emptied itself.
            let _ = killpg(Pid::from_raw(group), Signal::SIGTERM);
        }
    }
    // Whatever is started meanwhile is found by the next round; the last one finds the main thread
    // past its own killing.
    loop {
        kill_once();
        thread::yield_now();
    }
}

/// Reaps until the program has ended.
fn reap(program: i32, shared: &AtomicI32) -> Word {
    loop {
        let status = match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_pid() == program => status,
            Ok(_) | Err(rustix::io::Errno::INTR) => continue,
            Err(e) => {
                let why = format!("lost track of the program: {e}");
                return Word::Failed {
                    why,
                    is_program: false,
                };
            }
        };
        // Its number may be given to another from now on.
        shared.store(0, Ordering::SeqCst);
        let (code, signal) = (status.exit_status(), status.terminating_signal());
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok();
        let micros = usage.map_or(0, |usage| {
            usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
        });
        return Word::Ended {
            code,
            signal,
            cpu_us: u64::try_from(micros).unwrap_or(0),
            peak_kib: usage.map_or(0, |usage| u64::try_from(usage.max_rss()).unwrap_or(0)),
            left_behind: 0,
        };
    }
}

/// Kills and reaps until nobody is left; returns how many did not end by themselves.
fn kill_all() -> u64 {
    let mut killed = 0;
    loop {
        kill_once();
        match wait(WaitOptions::NOHANG) {
            Ok(Some((_, status))) => {
                let is_killed = status.terminating_signal() == Some(Signal::SIGKILL as i32);
                killed += u64::from(is_killed);
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(None) => thread::yield_now(),
            Err(_) => return killed,
        }
    }
}

fn kill_once() {
    if is_first() {
        // Everybody in the namespace but this process.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    } else {
        tree::kill_below(getpid().as_raw());
    }
}
