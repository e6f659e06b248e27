//! The command line, as it is typed. Commands turn it into what they do.

mod cluster;
mod remote;
mod services;
mod views;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config_args::ConfigArgs;

pub(crate) use cluster::{
    By, CancelArgs, CapArgs, CapsArgs, DrainArgs, ExportArgs, HowArgs, PauseArgs, ResumeArgs,
    RetryArgs, Role, SubmitArgs, SubmitCommand, SubmitEvalArgs, SubmitTrainArgs, SweepArgs,
    TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs, UsageArgs, WhyArgs, WorkersArgs,
    WorkersCommand,
};
pub(crate) use remote::RemoteArgs;
pub(crate) use services::{
    ChildArgs, CoordinatorArgs, RedisArgs, SandboxInitArgs, UpArgs, WorkerArgs,
};
pub(crate) use views::{TopArgs, ViewArgs, WatchArgs};

/// Train agent skills the way one trains weights.
#[derive(Debug, Parser)]
#[command(
    name = "skillopt",
    version,
    max_term_width = 100,
    after_help = "Try `skillopt demo` first: it needs no key, no network and no data.",
    after_long_help = "Examples:\n  \
        skillopt demo\n  \
        skillopt train configs/searchqa/mini.yaml --out outputs/first\n  \
        skillopt train my.yaml --set train.batch_size=20 --slots 32\n  \
        skillopt show outputs/first --step 3\n\n\
        Data goes to standard output, everything else to standard error."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Global {
    /// Write JSON, one object per line, to standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Choose when to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a skill
    Train(TrainArgs),
    /// Score a skill without training it
    Eval(EvalArgs),
    /// Train on made-up data with a simulated model, to see how it goes
    Demo(DemoArgs),
    /// List the runs below a folder, or of a cluster
    Runs(RunsArgs),
    /// Show scores, decisions, edits and tokens of a run
    Show(ShowArgs),
    /// Follow a run: its scores as a chart, its steps as they come
    Watch(WatchArgs),
    /// Follow all that a cluster, or this machine, is at
    Top(TopArgs),
    /// Work every number of a run out again, offline, and say whether it agrees
    Replay(ReplayArgs),
    /// Show or check a configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Find out what would keep a run from working
    Doctor(DoctorArgs),
    /// Write completions for a shell
    Completions(CompletionArgs),
    /// Use the simulated model
    #[command(subcommand)]
    Sim(SimCommand),
    /// Join SearchQA id lists with the public data set's rows
    MaterializeSearchqa(MaterializeArgs),
    /// Try a cluster out on this machine
    Up(UpArgs),
    /// Serve a cluster: take runs, and keep workers busy with them
    Coordinator(CoordinatorArgs),
    /// Run jobs of a cluster
    Worker(WorkerArgs),
    /// Give a cluster something to do: a training, an evaluation or a sweep
    Submit(Box<SubmitArgs>),
    /// End a run or a sweep of a cluster for good
    Cancel(CancelArgs),
    /// Stop a run or a sweep of a cluster for now
    Pause(PauseArgs),
    /// Go on with a run or a sweep of a cluster
    Resume(ResumeArgs),
    /// Run cells of a sweep again that failed or were cancelled
    Retry(RetryArgs),
    /// Fetch the folder of a run or a sweep from a cluster
    Export(ExportArgs),
    /// Show the workers of a cluster, or send one away
    Workers(WorkersArgs),
    /// Show what runs have used, here or in a cluster
    Usage(UsageArgs),
    /// Show or set what all runs of a tenant together may use
    Caps(CapsArgs),
    /// Say why something in a cluster is not moving
    Why(WhyArgs),
    /// Make, list or take back tokens of a cluster
    #[command(subcommand)]
    Token(TokenCommand),
    #[command(hide = true)]
    Child(ChildArgs),
    #[command(hide = true, disable_help_flag = true)]
    SandboxInit(SandboxInitArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt train configs/searchqa/mini.yaml --out outputs/first\n  \
    skillopt train my.yaml --set train.batch_size=20 env.limit=50\n  \
    skillopt train my.yaml --edit_budget 8 --slots 64 --json\n\n\
    The same command goes on where a run was stopped; no answered call is made twice.\n\
    Every key of the configuration has a flag of its own name; `docs/configuration.md` explains them.")]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) tape: TapeArgs,
    /// End with code 5 if no candidate was accepted
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt eval my.yaml --skill outputs/first/best_skill.md --split test\n  \
    skillopt eval my.yaml --skill skills/mine --split val --limit 20")]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) tape: TapeArgs,
    #[command(flatten)]
    pub(crate) what: EvaluatedArgs,
}

/// What is evaluated.
#[derive(Debug, Args)]
pub(crate) struct EvaluatedArgs {
    /// Score this skill, a file or a folder with `SKILL.md`
    #[arg(long, value_name = "FILE")]
    pub(crate) skill: String,
    /// Use the items of this split
    #[arg(long, value_name = "SPLIT", default_value = "all")]
    pub(crate) split: Split,
}

/// Answers of models in a file.
#[derive(Debug, Args)]
pub(crate) struct TapeArgs {
    /// Add each request and its answer to this file, as JSON lines without credentials
    #[arg(long, value_name = "FILE", conflicts_with = "replay_from")]
    pub(crate) record: Option<PathBuf>,
    /// Take the answers from a file that `--record` wrote, and call no model
    #[arg(long, value_name = "FILE")]
    pub(crate) replay_from: Option<PathBuf>,
}

/// Which items to score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Split {
    /// What training draws from.
    Train,
    /// What the gate looks at.
    #[value(aliases = ["valid_seen", "selection"])]
    Val,
    /// What stays sealed during training.
    #[value(alias = "valid_unseen")]
    Test,
    /// All three, one after the other.
    All,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  skillopt demo\n  skillopt demo --out /tmp/first")]
pub(crate) struct DemoArgs {
    /// Write to this folder [default: `outputs/demo`, or the next free `outputs/demo-2`, …]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With a coordinator and no folder it lists the cluster's runs, newest first."
)]
pub(crate) struct RunsArgs {
    /// Look below this folder [default: outputs]
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Show at most so many runs of the cluster
    #[arg(long, value_name = "N", default_value_t = 50, hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) last: u32,
    /// Only the runs of this sweep of the cluster
    #[arg(long, value_name = "SWEEP", conflicts_with = "dir")]
    pub(crate) sweep: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  skillopt show outputs/first\n  skillopt show outputs/first --step 3\n  skillopt show outputs/first --json\n  skillopt show 3f9c1a --coordinator http://127.0.0.1:7420"
)]
pub(crate) struct ShowArgs {
    /// Show the run in this folder, or with a coordinator the run with this id or name
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Show one step with its edits as a diff
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  skillopt replay outputs/first\n\n\
    Data files are looked for where the run's configuration names them, so call it from the same folder.")]
pub(crate) struct ReplayArgs {
    /// Replay the run in this folder
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Take the answers from this database [default: the run's own]
    #[arg(long, value_name = "PATH")]
    pub(crate) store: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every value that a run would use
    Show(ConfigShowArgs),
    /// Check a configuration and its data without calling a model
    Check(ConfigCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Tell where each value came from
    #[arg(long)]
    pub(crate) origin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  skillopt doctor\n  skillopt doctor my.yaml\n\n\
    With a configuration it makes two short calls to each model."
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Make no call to a model
    #[arg(long)]
    pub(crate) offline: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  skillopt completions bash > ~/.local/share/bash-completion/completions/skillopt"
)]
pub(crate) struct CompletionArgs {
    /// Write for this shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Serve the simulated model over HTTP until interrupted
    Serve(crate::sim_args::ServeArgs),
    /// Serve a model that says what a script tells it to, until interrupted
    Mock(MockArgs),
    /// Write a made-up data set in SearchQA format
    Data(DataArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  skillopt sim mock script.json --listen 127.0.0.1:8080

What a script says: docs/mock-server.md. What was asked: GET /__mock/requests and /__mock/stats.")]
pub(crate) struct MockArgs {
    /// Say what this script tells
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: PathBuf,
    /// Listen on this address; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = skillopt_sim::server::DEFAULT_LISTEN)]
    pub(crate) listen: String,
    /// Listen on this Unix socket as well
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    /// Write to this folder
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Write so many train items
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) train: usize,
    /// Write so many val items
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) val: usize,
    /// Write so many test items
    #[arg(long, value_name = "N", default_value_t = 1400)]
    pub(crate) test: usize,
    /// Draw the items with this seed
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,
    /// Overwrite items that are not made up
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MaterializeArgs {
    /// Read id lists (`<split>/items.json`) from this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) manifest_dir: PathBuf,
    /// Read the data set's rows from this file (JSON, JSONL or CSV)
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) source: Vec<PathBuf>,
    /// Write the split folder here
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Name the data set in the manifest
    #[arg(long, value_name = "NAME", default_value = "lucadiliello/searchqa")]
    pub(crate) dataset: String,
}
