//! From arguments to an exit code.

use clap::Parser as _;
use clap::error::ErrorKind;

use skillopt_runtime::limits;

use crate::args::{Cli, Global, When};
use crate::commands;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;

/// Reads the arguments, runs the command, shows what went wrong.
pub(crate) fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return unreadable(&error),
    };
    let out = Out::new(cli.global);
    // Each call in flight needs a socket, on both sides of it.
    let _ = limits::raise_open_files();
    match commands::run(&cli.command, &out) {
        Ok(exit) => exit,
        Err(failure) => {
            out.failure(&failure);
            failure.exit
        }
    }
}

/// Shows help, the version, or what is wrong with the command line.
fn unreadable(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // A reader that went away is no error.
        drop(error.print());
        return Exit::Done;
    }
    let json = std::env::args_os().any(|arg| arg == "--json");
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if json && !is_help {
        let global = Global {
            json,
            quiet: false,
            color: When::Never,
        };
        let text = error.render().to_string();
        let text = text.trim_start_matches("error: ").trim_end();
        let message = text.split("\n\nUsage").next().unwrap_or(text);
        Out::new(global).failure(&Failure::usage(message));
    } else {
        drop(error.print());
    }
    Exit::Usage
}
