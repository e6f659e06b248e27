//! The commands of people who work on this repository, in Rust instead of scripts:
//! `cargo xtask help`.
//!
//! This program depends on none of our crates, so that it is built in seconds; each command starts
//! what it needs.

mod bench;
mod cargo;
mod check;
mod generate;
mod parity;
mod prerequisites;
mod real_model;
mod steps;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tests, checks and generators of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every test of the workspace: units, golden vectors, end to end, documentation
    Test,
    /// Check format, lints, documentation, structure and generated pages
    Check,
    /// Write the generated pages anew (docs/configuration.md, docs/exit-codes.md)
    Generate,
    /// Run the golden vectors and list the ids that fail
    Parity(parity::Args),
    /// Measure speed against the goals
    Bench(bench::Args),
    /// Train with a real, small language model on this machine (opt-in: downloads, takes long)
    RealModel(real_model::Args),
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Test => test::run(),
        Command::Check => check::run(),
        Command::Generate => generate::run(),
        Command::Parity(args) => parity::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::RealModel(args) => real_model::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
