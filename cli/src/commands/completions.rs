//! `skillopt completions`.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;

#[expect(clippy::unnecessary_wraps, reason = "all commands look alike")]
pub(crate) fn run(args: &CompletionArgs, out: &Out) -> Result<Exit, Failure> {
    let mut bytes = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "skillopt", &mut bytes);
    out.line(String::from_utf8_lossy(&bytes).trim_end());
    Ok(Exit::Done)
}
