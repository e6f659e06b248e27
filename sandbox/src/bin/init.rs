//! The sandbox's init as a program of its own, for the tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    #[cfg(target_os = "linux")]
    return skillopt_sandbox::init::main(&args).into();
    #[cfg(not(target_os = "linux"))]
    ExitCode::FAILURE
}
