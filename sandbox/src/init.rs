//! The sandbox's first program: a mode of our own program, started three ways.
//!
//! `enter` joins the control groups and becomes the sandbox. `keep` is what the sandbox then runs: it
//! forwards the relays, starts the program, reaps everything and kills what is left. `check` says
//! whether it can be run at all.

mod enter;
mod keep;

use std::ffi::OsString;

/// Exit code of a sandbox that could not be set up; what went wrong is on standard error.
pub const FAILED: u8 = 125;

/// Does what the arguments say and returns the exit code. Only the sandbox's own parts call it.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    let done = match args {
        [mode, rest @ ..] if mode == "enter" => enter::enter(rest),
        [mode, socket] if mode == "keep" => keep::keep(std::path::Path::new(socket)),
        [mode] if mode == "check" => keep::check(),
        _ => Err("it is started by the sandbox alone, never by hand".to_owned()),
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            use std::io::Write as _;
            // Nobody may be listening any more.
            let _ = writeln!(std::io::stderr(), "sandbox: {why}");
            FAILED
        }
    }
}
