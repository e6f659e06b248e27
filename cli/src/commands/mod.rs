//! What each command does. A command takes its arguments and the output, and says how it ended.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod materialize;
pub(crate) mod replay;
pub(crate) mod runs;
pub(crate) mod show;
pub(crate) mod sim;
pub(crate) mod train;

use crate::args::{Command, ConfigCommand, SimCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;

/// Runs a command.
///
/// # Errors
/// What kept it from doing what was asked.
pub(crate) fn run(command: &Command, out: &Out) -> Result<Exit, Failure> {
    match command {
        Command::Train(args) => train::run(args, out),
        Command::Eval(args) => eval::run(args, out),
        Command::Demo(args) => demo::run(args, out),
        Command::Runs(args) => runs::run(args, out),
        Command::Show(args) => show::run(args, out),
        Command::Replay(args) => replay::run(args, out),
        Command::Config(ConfigCommand::Show(args)) => config::show(args, out),
        Command::Config(ConfigCommand::Check(args)) => config::check(args, out),
        Command::Doctor(args) => doctor::run(args, out),
        Command::Completions(args) => completions::run(args, out),
        Command::Sim(SimCommand::Serve(args)) => sim::serve(args, out),
        Command::Sim(SimCommand::Data(args)) => sim::data(args, out),
        Command::MaterializeSearchqa(args) => materialize::run(args, out),
    }
}
