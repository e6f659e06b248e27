//! What people look at while it goes on.

use std::path::PathBuf;

use clap::Args;

use super::RemoteArgs;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt watch outputs/first\n  \
    skillopt watch outputs/first --once\n  \
    skillopt watch 3f9c1a --coordinator http://127.0.0.1:7420\n\n\
    On a terminal: j/k choose a step, Enter says why it ended as it did, d shows its diff, t its\n\
    tasks, . holds the view, p pauses a run of a cluster (it asks first), q leaves.\n\
    Elsewhere it writes a line for each step. It ends with the run, with the code that\n\
    docs/exit-codes.md names for how the run ended.")]
pub(crate) struct WatchArgs {
    /// Follow the run in this folder, or with a coordinator the run or sweep with this id
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) how: ViewArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt top --coordinator http://127.0.0.1:7420\n  \
    skillopt top outputs --once\n\n\
    On a terminal: . holds the view, q leaves.")]
pub(crate) struct TopArgs {
    /// Without a coordinator, look below this folder [default: outputs]
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: ViewArgs,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// How to look.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ViewArgs {
    /// Show how it stands now, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Use no characters beyond ASCII [default: as the locale says]
    #[arg(long)]
    pub(crate) ascii: bool,
}
