//! What each command does. A command takes its arguments and the output, and says how it ended.

pub(crate) mod cancel;
pub(crate) mod caps;
pub(crate) mod child;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod coordinator;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod materialize;
pub(crate) mod pause;
mod recorded;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod runs;
pub(crate) mod sandbox_init;
pub(crate) mod show;
pub(crate) mod sim;
pub(crate) mod submit;
pub(crate) mod sweep_results;
mod sweep_watch;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod train;
pub(crate) mod up;
pub(crate) mod usage;
pub(crate) mod watch;
pub(crate) mod why;
pub(crate) mod worker;
pub(crate) mod workers;

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
        Command::Watch(args) => watch::run(args, out),
        Command::Top(args) => top::run(args, out),
        Command::Replay(args) => replay::run(args, out),
        Command::Config(ConfigCommand::Show(args)) => config::show(args, out),
        Command::Config(ConfigCommand::Check(args)) => config::check(args, out),
        Command::Doctor(args) => doctor::run(args, out),
        Command::Completions(args) => completions::run(args, out),
        Command::Sim(SimCommand::Serve(args)) => sim::serve(args, out),
        Command::Sim(SimCommand::Mock(args)) => sim::mock(args, out),
        Command::Sim(SimCommand::Data(args)) => sim::data(args, out),
        Command::MaterializeSearchqa(args) => materialize::run(args, out),
        Command::Up(args) => up::run(args, out),
        Command::Coordinator(args) => coordinator::run(args, out),
        Command::Worker(args) => worker::run(args, out),
        Command::Submit(args) => submit::run(args, out),
        Command::Cancel(args) => cancel::run(args, out),
        Command::Pause(args) => pause::run(args, out),
        Command::Resume(args) => resume::run(args, out),
        Command::Retry(args) => retry::run(args, out),
        Command::Export(args) => export::run(args, out),
        Command::Workers(args) => workers::run(args, out),
        Command::Usage(args) => usage::run(args, out),
        Command::Caps(args) => caps::run(args, out),
        Command::Why(args) => why::run(args, out),
        Command::Token(command) => token::run(command, out),
        Command::Child(args) => child::run(args),
        Command::SandboxInit(args) => Ok(sandbox_init::run(args)),
    }
}
