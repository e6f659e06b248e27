//! `skillopt`: what users type. Arguments, output and exit codes; the work is done elsewhere.

mod account_limits;
mod advice;
mod args;
mod cluster;
mod commands;
mod config_args;
mod exit;
mod failure;
mod found;
mod local;
mod marker;
mod models;
mod output;
mod place;
mod preflight;
mod process;
mod purse;
mod redis_url;
mod remarks;
mod remote;
mod sim_args;
mod spent;
mod start;
mod status;
mod tui;

use std::process::ExitCode;

/// Coordinators and workers make and drop many small values from dozens of threads: this one gives the
/// memory back when a sweep is over.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    start::main().into()
}
