//! `skillopt sandbox-init`: the first program of a sandbox. Hidden: only the sandbox calls it.

use crate::args::SandboxInitArgs;
use crate::exit::Exit;

/// It says by itself what went wrong, on the sandbox's error output.
#[cfg(target_os = "linux")]
pub(crate) fn run(args: &SandboxInitArgs) -> Exit {
    match skillopt_sandbox::init::main(&args.words) {
        0 => Exit::Done,
        _ => Exit::Unexpected,
    }
}

/// Other systems have no sandbox.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &SandboxInitArgs) -> Exit {
    Exit::Unexpected
}
