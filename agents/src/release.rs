//! Asks a program which release it is of, where no package tells it.
//!
//! It is somebody else's program, so it is asked in a sandbox: without a relay it reaches nothing, and
//! there is no credential.

use std::time::Duration;

use skillopt_sandbox::{Ending, Error, Host, Limits, Task};

use crate::cli::Version;
use crate::installed::Installed;

/// How long it may take to say so.
const WALL: Duration = Duration::from_secs(10);
/// Longest line in which a program says it, in bytes: a longer one is about something else.
const LINE_MAX: usize = 200;

impl Installed {
    /// Returns the release that the program says it is of, where no package tells it, so that a wrong one
    /// is found before a task is. Waits for the answer, which takes some seconds at most.
    ///
    /// # Errors
    /// It could not be asked, in words.
    pub fn told(&self, host: &Host) -> Result<Option<Version>, String> {
        if self.version.is_some() {
            return Ok(self.version);
        }
        // Of its own: whoever asks may be in the midst of an async runtime, or have none.
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let runtime = runtime.map_err(|e| e.to_string())?;
                runtime.block_on(ask(host, self)).map_err(|e| e.to_string())
            });
            let asked = asking.join();
            asked.unwrap_or_else(|_| Err("the thread that asks it broke".to_owned()))
        })
    }
}

/// Asks a program; `None` if it does not say.
///
/// # Errors
/// It could not be asked: the sandbox failed.
///
/// # Cancel safety
/// May be dropped at any time; the sandbox ends what was started.
pub(crate) async fn ask(host: &Host, installed: &Installed) -> Result<Option<Version>, Error> {
    let limits = Limits {
        wall: WALL,
        ..Limits::default()
    };
    let mut room = host.room(Vec::new(), limits)?;
    let paths = room.paths();
    let (home, tmp) = (paths.home.to_string_lossy(), paths.tmp.to_string_lossy());
    let task = Task {
        program: installed.program.to_string_lossy().into_owned(),
        args: vec!["--version".to_owned()],
        env: installed.environment(&home, &tmp),
        read_only: installed.read_only.clone(),
        ..Task::default()
    };
    let report = room.run(&task, &mut |_| {}).await?;
    match report.ending {
        Ending::Exited(0) => Ok(told(&report.stdout.text())),
        Ending::Lost(why) => Err(Error::Start(why)),
        Ending::Exited(_) | Ending::Signalled(_) | Ending::TimedOut | Ending::Limit(_) => Ok(None),
    }
}

/// Reads the first line that a program prints. One that does not know the question may begin its work
/// instead: events are no answer.
fn told(stdout: &str) -> Option<Version> {
    let mut lines = stdout.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty())?;
    let is_answer = line.len() <= LINE_MAX && !line.starts_with(['{', '[']);
    is_answer.then(|| Version::find(line)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells_the_release_unless_it_is_something_else() {
        for (stdout, want) in [
            ("codex-cli 0.171.0\n", Some(Version(0, 171, 0))),
            ("\n2.1.197 (Claude Code)\n", Some(Version(2, 1, 197))),
            ("2026.01.28-fd13201\n", Some(Version(2026, 1, 28))),
            ("tool 1.2.3\nwith libx 4.5.6\n", Some(Version(1, 2, 3))),
            ("tool\n1.2.3\n", None),
            ("{\"type\":\"init\",\"version\":\"1.2.3\"}\n", None),
            ("[1.2.3]\n", None),
            ("", None),
        ] {
            assert_eq!(told(stdout), want, "{stdout}");
        }
        assert_eq!(told(&format!("{} 1.2.3", "x".repeat(LINE_MAX))), None);
    }
}
