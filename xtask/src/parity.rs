//! `cargo xtask parity`: the golden vectors, as a program of the `tests` crate.

use std::process::ExitCode;

use anyhow::Context;

use crate::cargo::cargo;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run one area (`training`) or the files of an area whose name contains a text
    /// (`training/gate`); all areas without it
    #[arg(value_name = "AREA[/FILE]")]
    filter: Option<String>,
}

/// Runs the golden vectors and hands the program's exit code on.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut command = cargo(&[
        "run",
        "--quiet",
        "--package",
        "skillopt-tests",
        "--bin",
        "parity",
    ]);
    command.arg("--").args(&args.filter);
    let status = command.status().context("cargo cannot be started")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
