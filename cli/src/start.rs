//! From arguments to an exit code.

use clap::Parser as _;
use clap::error::ErrorKind;

use skillopt_runtime::limits;

use crate::args::{Cli, Global, When};
use crate::commands;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Out};

/// What holds if the command line cannot be read.
const PLAIN: Global = Global {
    json: false,
    quiet: false,
    color: When::Never,
};

/// Reads the arguments, runs the command, shows what went wrong.
pub(crate) fn main() -> Exit {
    // One library for all TLS of the program, chosen before anything asks for one. It can only be
    // chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return unreadable(&error),
    };
    let out = Out::new(cli.global);
    // Each call in flight needs a socket, on both sides of it.
    let _ = limits::raise_open_files();
    let outcome = commands::run(&cli.command, &out);
    if let Err(failure) = &outcome
        && !out.is_broken()
    {
        out.failure(failure);
    }
    // Telling of the failure may be what could not be written.
    match (out.fault(), outcome) {
        (Some(fault), outcome) => unwritten(fault, outcome.err(), &out),
        (None, Ok(exit)) => exit,
        (None, Err(failure)) => {
            // On standard output nobody would see it.
            if out.is_broken() && !out.json {
                out.tell(&failure);
            }
            failure.exit
        }
    }
}

/// Says that standard output could not be written, and what else went wrong: a run that was
/// stopped for it can go on.
fn unwritten(mut fault: Failure, other: Option<Failure>, out: &Out) -> Exit {
    if let Some(other) = other {
        fault.hint = other.hint;
        if other.exit != Exit::Interrupted {
            fault.errors.extend(other.errors);
        }
    }
    out.tell(&fault);
    fault.exit
}

/// Shows help, the version, or what is wrong with the command line.
fn unreadable(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let fault = error.print().err().and_then(|e| output::unwritten(&e));
        let Some(fault) = fault else {
            return Exit::Done;
        };
        Out::new(PLAIN).tell(&fault);
        return fault.exit;
    }
    let json = std::env::args_os().any(|arg| arg == "--json");
    let words = std::env::args_os().skip(1);
    if let Some(failure) = commands::submit::mistyped(words.map(|w| w.to_string_lossy().into())) {
        Out::new(Global { json, ..PLAIN }).failure(&failure);
        return failure.exit;
    }
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if json && !is_help {
        let global = Global { json, ..PLAIN };
        let text = error.render().to_string();
        let text = text.trim_start_matches("error: ").trim_end();
        let message = text.split("\n\nUsage").next().unwrap_or(text);
        Out::new(global).failure(&Failure::usage(message));
    } else {
        drop(error.print());
    }
    Exit::Usage
}
