//! `skillopt`: what users type. Arguments, output and exit codes; the work is done elsewhere.

mod args;
mod commands;
mod config_args;
mod exit;
mod failure;
mod found;
mod local;
mod models;
mod output;
mod preflight;
mod process;
mod sim_args;
mod start;

use std::process::ExitCode;

/// Millions of short-lived JSON values pass through; this allocator handles them at a third less
/// CPU than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    start::main().into()
}
