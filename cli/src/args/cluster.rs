//! What people ask of a cluster.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::EvaluatedArgs;
use super::RemoteArgs;
use crate::config_args::ConfigArgs;

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
        skillopt submit train my.yaml --out outputs/first --wait\n  \
        skillopt submit eval my.yaml --skill outputs/first/best_skill.md --split test --wait\n  \
        skillopt submit sweep.yaml\n\n\
        Name the coordinator with --coordinator, or once for all in SKILLOPT_COORDINATOR."
)]
pub(crate) struct SubmitArgs {
    #[command(subcommand)]
    pub(crate) what: Option<SubmitCommand>,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubmitCommand {
    /// Train a skill in the cluster
    Train(SubmitTrainArgs),
    /// Score a skill in the cluster
    Eval(SubmitEvalArgs),
    /// Submit a sweep, as without this word
    Sweep(SweepArgs),
}

/// A sweep: `skillopt submit sweep.yaml`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Submit the sweep in this file
    #[arg(value_name = "SWEEP", required = true)]
    pub(crate) file: Option<PathBuf>,
    /// Write the results to this folder, once all cells have ended
    #[arg(long, value_name = "DIR", requires = "wait")]
    pub(crate) out: Option<PathBuf>,
    /// Fetch the run folders of all cells too, below `cells` in that folder
    #[arg(long, requires = "out")]
    pub(crate) cells: bool,
    /// Check every cell and show the plan, but submit nothing
    #[arg(long, alias = "plan")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt submit train my.yaml --out outputs/first --wait\n  \
    skillopt submit train my.yaml --set train.batch_size=20 --usd 5\n\n\
    With --wait it shows and writes what `skillopt train` would. Ctrl-C then leaves the run alone,\n\
    and the same command waits for it again.")]
pub(crate) struct SubmitTrainArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// End with code 5 if no candidate was accepted
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    skillopt submit eval my.yaml --skill outputs/first/best_skill.md --split test --wait")]
pub(crate) struct SubmitEvalArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) what: EvaluatedArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// How a run is taken.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The run in the cluster")]
pub(crate) struct HowArgs {
    /// Wait until it has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Show it under this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Submit it once under this key, however often the command is repeated [default: a new one]
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Give it so large a share against the tenant's other runs
    #[arg(long, value_name = "1…1000", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) weight: u32,
    /// Run it so soon, 0 (last) to 7 (first)
    #[arg(long, value_name = "0…7", default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=7))]
    pub(crate) priority: u32,
    #[command(flatten)]
    pub(crate) caps: CapArgs,
}

/// Most that a run or a sweep may use.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct CapArgs {
    /// Let it make at most so many calls; then it is paused
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Let it use at most so many tokens, sent and received; then it is paused
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<u64>,
    /// Let it spend at most so many US dollars; then it is paused
    #[arg(long, value_name = "DOLLARS", value_parser = micro_usd)]
    pub(crate) usd: Option<MicroUsd>,
}

/// Millionths of a US dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MicroUsd(pub(crate) u64);

/// Reads dollars with at most six places, without any rounding on the way.
fn micro_usd(text: &str) -> Result<MicroUsd, String> {
    let wrong = || format!("`{text}` is no amount of dollars; write `5` or `0.25`");
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let text = text.strip_prefix('$').unwrap_or(text);
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    if (whole.is_empty() && places.is_empty())
        || !digits(whole)
        || !digits(places)
        || places.len() > 6
    {
        return Err(wrong());
    }
    let number = |part: &str| {
        if part.is_empty() {
            Some(0)
        } else {
            part.parse::<u64>().ok()
        }
    };
    let padded = format!("{places:0<6}");
    let all = number(whole)
        .and_then(|dollars| dollars.checked_mul(1_000_000))
        .zip(number(&padded))
        .and_then(|(whole, rest)| whole.checked_add(rest));
    all.map(MicroUsd).ok_or_else(wrong)
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Cancel this run or sweep: its id, a beginning that only one has, or its name
    #[arg(value_name = "RUN|SWEEP")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Pause this run or sweep: its id, a beginning that only one has, or its name
    #[arg(value_name = "RUN|SWEEP")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  skillopt resume 3f9c1a\n  skillopt resume 3f9c1a --usd 10\n\n\
    What is not named stays as it is. An amount is for the whole run, what is used already included."
)]
pub(crate) struct ResumeArgs {
    /// Go on with this run or sweep: its id, a beginning that only one has, or its name
    #[arg(value_name = "RUN|SWEEP")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) caps: CapArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  skillopt retry 3f9c1a\n  skillopt retry 3f9c1a gpt-5.5/searchqa/chat\n\n\
    The other cells are left alone, and answers that are there are not asked for again."
)]
pub(crate) struct RetryArgs {
    /// The sweep: its id, a beginning that only one has, or its name
    #[arg(value_name = "SWEEP")]
    pub(crate) id: String,
    /// Run these cells again [default: all that failed or were cancelled]
    #[arg(value_name = "CELL")]
    pub(crate) cells: Vec<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  skillopt export 3f9c1a --out outputs/first\n\n\
    The folder is as `skillopt train` writes it, with all answers: `show` and `replay` work on it."
)]
pub(crate) struct ExportArgs {
    /// Fetch the folder of this run or sweep: its id, a beginning that only one has, or its name
    #[arg(value_name = "RUN|SWEEP")]
    pub(crate) id: String,
    /// Write to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Leave out the store with all answers, which `show` and `replay` need
    #[arg(long)]
    pub(crate) no_store: bool,
    /// Fetch the run folders of all cells of a sweep too, below `cells` in that folder
    #[arg(long)]
    pub(crate) cells: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  skillopt workers\n  skillopt workers drain host-17"
)]
pub(crate) struct WorkersArgs {
    #[command(subcommand)]
    pub(crate) command: Option<WorkersCommand>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// Let a worker finish its jobs, take no more, and leave
    Drain(DrainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The worker
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  skillopt usage outputs/first --by stage\n  skillopt usage\n  \
    skillopt usage --by tenant\n  skillopt usage 3f9c1a\n  skillopt usage --by stage 3f9c1a"
)]
pub(crate) struct UsageArgs {
    /// Only this run, sweep or tenant; of a run on this machine its folder
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Add up by who paid (run, sweep, tenant) or by what calls were for (role, stage, model); by run, a
    /// sweep stands for its runs [default: what ID is, or run]
    #[arg(long, value_name = "WHAT")]
    pub(crate) by: Option<By>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// What use is added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Each run.
    Run,
    /// Each sweep.
    Sweep,
    /// Each tenant.
    Tenant,
    /// Target and optimizer.
    Role,
    /// Rollouts, analysts, merges, …
    Stage,
    /// Each model.
    Model,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  skillopt caps lab\n  skillopt caps lab --usd 500 --requests 2000000\n  \
    skillopt caps lab --lift\n\n\
    An amount is for all that the tenant ever uses, what is used already included. What is not named\n\
    stays as it is. It takes an admin's token of the whole cluster; looking takes less."
)]
pub(crate) struct CapsArgs {
    /// The tenant
    #[arg(value_name = "TENANT")]
    pub(crate) tenant: String,
    /// Let its runs make at most so many calls; then they are paused
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Let its runs use at most so many tokens, sent and received; then they are paused
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<u64>,
    /// Let its runs spend at most so many US dollars; then they are paused
    #[arg(long, value_name = "DOLLARS", value_parser = micro_usd)]
    pub(crate) usd: Option<MicroUsd>,
    /// Take away all limits that are not named
    #[arg(long)]
    pub(crate) lift: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// A run's or sweep's id or name, or a job's key; a beginning that only one has is enough. Without
    /// it: the whole cluster
    #[arg(value_name = "RUN|JOB")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; it is shown once
    Create(TokenCreateArgs),
    /// List tokens: who may do what, until when
    List(TokenListArgs),
    /// Take a token back, by the id that was shown with it
    Revoke(TokenRevokeArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  skillopt token create --name ci --role submitter --tenant lab --days 90"
)]
pub(crate) struct TokenCreateArgs {
    /// Say who has it
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// What it allows: looking, submitting too, or everything
    #[arg(long, value_name = "ROLE", default_value = "submitter")]
    pub(crate) role: Role,
    /// Whose runs it shows and makes; "" for those of all
    #[arg(long, value_name = "TENANT", default_value = "default")]
    pub(crate) tenant: String,
    /// Let it end after so many days [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: Option<u32>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Look.
    Viewer,
    /// Look and submit.
    Submitter,
    /// Everything.
    Admin,
}

#[derive(Debug, Args)]
pub(crate) struct TokenListArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRevokeArgs {
    /// The token's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars() {
        for (text, want) in [
            ("5", Some(5_000_000)),
            ("$5.25", Some(5_250_000)),
            (".000001", Some(1)),
            ("0", Some(0)),
            ("1.", Some(1_000_000)),
            ("", None),
            (".", None),
            ("-1", None),
            ("1e3", None),
            ("0.0000001", None),
            ("99999999999999999999", None),
            ("18446744073710", None),
        ] {
            assert_eq!(micro_usd(text).ok().map(|m| m.0), want, "{text}");
        }
    }
}
