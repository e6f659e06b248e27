//! Joins the control groups, then becomes the sandbox.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getppid, setsid};

/// How willingly the kernel kills the sandbox instead of the worker when memory runs out.
const OOM_SCORE: &str = "500";

/// Arguments: the worker's process, the groups' folders, `--`, a command.
pub(super) fn enter(args: &[OsString]) -> Result<(), String> {
    let at = args.iter().position(|arg| arg == "--");
    let (before, command) = args.split_at(at.ok_or("no command was named")?);
    let ([parent, groups @ ..], [_, program, rest @ ..]) = (before, command) else {
        return Err("the worker's process or the command is missing".to_owned());
    };
    set_pdeathsig(Signal::SIGKILL).map_err(|e| format!("cannot be bound to the worker: {e}"))?;
    // It may have died before it was asked.
    let parent: Option<i32> = parent.to_str().and_then(|text| text.parse().ok());
    if parent != Some(getppid().as_raw()) {
        return Err("the worker is gone".to_owned());
    }
    // Away from the worker's terminal: what is typed there is for the worker, which decides what it
    // means for its runs, and nothing inside can type into it.
    setsid().map_err(|e| format!("cannot have a session of its own: {e}"))?;
    for group in groups {
        let list = list(Path::new(group));
        std::fs::write(&list, "0").map_err(|e| format!("cannot join `{}`: {e}", list.display()))?;
    }
    // Where it is refused, the kernel chooses by size, which is right most of the time.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    let error = Command::new(program).args(rest).exec();
    Err(format!(
        "`{}` cannot be started: {error}",
        program.to_string_lossy()
    ))
}

/// Returns where one joins a group. To move all threads of a process the kernel stops every start and end
/// of a process on the machine, and waits for that; to move the one that asks it does not. Version 2 knows
/// only the first. The one is enough: it alone is left when it becomes the sandbox.
fn list(group: &Path) -> PathBuf {
    let one = group.join("tasks");
    match one.exists() {
        true => one,
        false => group.join("cgroup.procs"),
    }
}
