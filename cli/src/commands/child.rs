//! `skillopt child`: becomes another program that dies with the one that started it. Hidden: only
//! `skillopt up` calls it.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::args::ChildArgs;
use crate::exit::Exit;
use crate::failure::Failure;

pub(crate) fn run(args: &ChildArgs) -> Result<Exit, Failure> {
    die_with_parent(args.parent)?;
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::usage("no program was named"));
    };
    // Returns only if the program cannot be started.
    let error = Command::new(program).args(rest).exec();
    Err(Failure::usage(format!(
        "`{}` cannot be started: {error}",
        program.to_string_lossy()
    )))
}

/// Asks the system to kill this process when its parent dies, whatever kills that.
#[cfg(target_os = "linux")]
fn die_with_parent(parent: i32) -> Result<(), Failure> {
    use nix::sys::prctl::set_pdeathsig;
    use nix::sys::signal::Signal;
    use nix::unistd::getppid;

    set_pdeathsig(Signal::SIGKILL).map_err(|e| Failure::new(Exit::Unexpected, e))?;
    // It may have died before it was asked.
    if getppid().as_raw() == parent {
        Ok(())
    } else {
        Err(Failure::new(Exit::Interrupted, "the parent is gone"))
    }
}

/// Other systems know no such request: there the children of a killed parent go on.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: i32) -> Result<(), Failure> {
    Ok(())
}
