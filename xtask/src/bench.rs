//! Speed, as processor time per job and as ratios: `cargo xtask bench WHAT`.
//!
//! The model side is the simulated model in a process of its own, so only our own process counts.
//! Wall times are used only where the work waits instead of computing (latency of a second).

mod agents;
mod backends;
mod cluster;
mod example;
mod ideal;
mod queue;
mod relay;
mod rollouts;
mod run;
mod sandbox;
mod sweep;
mod train;

use std::borrow::Cow;
use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use serde_json::json;

/// What to measure, and how to say it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_enum)]
    what: What,
    /// Print one JSON object per figure instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Whole runs: waiting, memory, start-up
    Train,
    /// Rollouts: processor time, throughput, calls in flight
    Rollouts,
    /// The queue on Redis, beside BullMQ
    Queue,
    /// Coordinator, Redis and workers: processor time, waiting, faults
    Cluster,
    /// 52 paper-size cells: time and memory
    Sweep,
    /// Chat backends: processor time, memory, a bad hour
    Backends,
    /// Programs shut in: one after another, and fifty at once
    Sandbox,
    /// The relay between an agent and its model: processor time
    Relay,
    /// Agent CLIs, alone and many at once: memory and processor time
    Agents,
}

/// One measured number beside its goal.
struct Figure {
    name: Cow<'static, str>,
    value: f64,
    unit: &'static str,
    goal: Goal,
}

impl Figure {
    fn new(name: impl Into<Cow<'static, str>>, value: f64, unit: &'static str, goal: Goal) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            goal,
        }
    }
}

/// What a figure should be.
#[derive(Clone, Copy)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// Shown for comparison.
    None,
}

impl Goal {
    fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtMost(limit) => Some(value <= limit),
            Self::AtLeast(limit) => Some(value >= limit),
            Self::None => None,
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::AtLeast(limit) => format!("≥ {limit}"),
            Self::None => "—".to_owned(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // Before a build of minutes.
    if matches!(
        args.what,
        What::Queue | What::Cluster | What::Sweep | What::Sandbox | What::Agents
    ) {
        crate::prerequisites::servers()?;
    }
    let figures = match args.what {
        What::Train => train::figures(&run::build()?)?,
        What::Rollouts => rollouts::figures(&run::build()?)?,
        What::Queue => queue::figures()?,
        What::Cluster => cluster::figures(&run::build()?)?,
        What::Sweep => sweep::figures(&run::build()?)?,
        What::Backends => backends::figures()?,
        What::Sandbox => sandbox::figures(&run::build()?)?,
        What::Relay => relay::figures()?,
        What::Agents => agents::figures(&run::build()?)?,
    };
    if !args.json {
        println!(
            "{:<50} {:>12} {:<12} {:>9}",
            "figure", "value", "unit", "goal"
        );
    }
    for figure in &figures {
        let ok = figure.goal.is_met(figure.value);
        if args.json {
            let goal = match figure.goal {
                Goal::AtMost(limit) | Goal::AtLeast(limit) => json!(limit),
                Goal::None => json!(null),
            };
            let value = json!({
                "name": figure.name, "value": figure.value, "unit": figure.unit, "goal": goal, "ok": ok,
            });
            println!("{value}");
        } else {
            let mark = match ok {
                Some(true) => "ok",
                Some(false) => "missed",
                None => "",
            };
            let (value, goal) = (figure.value, figure.goal.words());
            println!(
                "{:<50} {value:>12.3} {:<12} {goal:>9}  {mark}",
                figure.name, figure.unit
            );
        }
    }
    // A missed goal is a finding, not a failure of the measurement.
    Ok(ExitCode::SUCCESS)
}
