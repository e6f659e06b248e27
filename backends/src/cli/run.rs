//! Runs a program once: prompt in, output out, and nothing of it left behind.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::error::CallError;
use crate::http::ANSWER_MAX;

/// Most bytes of what it says of errors that are kept.
const STDERR_MAX: usize = 64 << 10;
/// How long output may still come when the program is gone: something it started may hold it.
const GRACE: Duration = Duration::from_secs(2);

/// A program to run.
pub(crate) struct Run<'a> {
    /// Its name, for messages.
    pub(crate) endpoint: &'a str,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// All of its environment.
    pub(crate) env: Vec<(String, OsString)>,
    pub(crate) folder: PathBuf,
    /// What it reads; then its input ends.
    pub(crate) stdin: Vec<u8>,
    /// Limit of all.
    pub(crate) limit: Duration,
    /// The setting that names the program.
    pub(crate) setting: &'a str,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Output {
    /// Returns what it printed to standard output beside its events. In those stand the model's own
    /// words, which tell nothing of a failure.
    pub(crate) fn plain_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        // A crash may cut an event; what the model said in it is no word of the program either.
        let is_event = |line: &&str| {
            line.starts_with('{') || serde_json::from_str::<serde_json::Value>(line).is_ok()
        };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let plain: Vec<&str> = lines.filter(|line| !is_event(line)).collect();
        plain.join("\n")
    }
}

impl Run<'_> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// It could not be started, took too long or said too much.
    ///
    /// # Cancel safety
    /// Dropping the future kills the program and all of its process group.
    pub(crate) async fn output(self) -> Result<Output, CallError> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(|e| self.unstarted(&e))?;
        let group = Group::of(&child);
        let work = exchange(child, &group, &self.stdin);
        match timeout(self.limit, work).await {
            Err(_) => Err(CallError::Timeout {
                endpoint: self.endpoint.to_owned(),
                limit: self.limit,
            }),
            Ok(Err(e)) => Err(CallError::Connection {
                endpoint: self.endpoint.to_owned(),
                detail: e.to_string(),
            }),
            Ok(Ok((status, stdout, stderr))) => {
                if stdout.len() > ANSWER_MAX {
                    return Err(CallError::Malformed {
                        endpoint: self.endpoint.to_owned(),
                        detail: format!("more than {ANSWER_MAX} bytes"),
                    });
                }
                Ok(Output {
                    code: status.code(),
                    stdout,
                    stderr: String::from_utf8_lossy(&stderr).into_owned(),
                })
            }
        }
    }

    fn unstarted(&self, error: &io::Error) -> CallError {
        let endpoint = self.endpoint.to_owned();
        let program = self.program.display();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => CallError::Misconfigured {
                endpoint,
                status: 0,
                detail: format!(
                    "cannot start `{program}`: {error}; install it or set `{}`",
                    self.setting
                ),
            },
            // Every prompt with this schema fails alike: no agent's fault.
            io::ErrorKind::ArgumentListTooLong => CallError::Misconfigured {
                endpoint,
                status: 0,
                detail: "the schema is too long for a command line".to_owned(),
            },
            // Too many processes, no memory: that may pass.
            _ => CallError::Connection {
                endpoint,
                detail: format!("client error (Connect): cannot start `{program}`: {error}"),
            },
        }
    }
}

/// The process group of a program. It dies with this value: with the program itself, by a
/// deadline, or because nobody waits any more.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.map(Pid::from_raw))
    }

    fn kill(&self) {
        if let Some(group) = self.0 {
            // Fails if all are gone, which is what is wanted.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn exchange(
    mut child: Child,
    group: &Group,
    input: &[u8],
) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let status = {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its prompt says itself why.
                let _ = stdin.write_all(input).await;
            }
        };
        let io = async {
            tokio::join!(
                feed,
                // One byte more than is allowed tells that there was more.
                collect(out, &mut stdout, ANSWER_MAX + 1),
                collect(err, &mut stderr, STDERR_MAX),
            );
        };
        tokio::pin!(io);
        let mut is_read = false;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                () = &mut io, if !is_read => is_read = true,
            }
        };
        group.kill();
        if !is_read {
            let _ = timeout(GRACE, io).await;
        }
        status
    };
    Ok((status, stdout, stderr))
}

/// Reads to the end and keeps the first `max` bytes: a program must not block on what we do not
/// want.
async fn collect(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>, max: usize) {
    let Some(mut from) = from else { return };
    let mut chunk = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut chunk).await {
        let room = max.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..n.min(room)]);
    }
}

#[cfg(test)]
mod tests;
