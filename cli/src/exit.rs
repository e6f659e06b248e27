//! What the exit code of the program says. `docs/exit-codes.md` shows the same table.

use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is done, whether the skill got better or not.
    Done,
    /// Something went wrong that should not, or a replay found a difference.
    Unexpected,
    /// The command line, the configuration or the data cannot be used.
    Usage,
    /// There was nothing to judge, so there is no score.
    NothingJudged,
    /// The run waits for a person; the same command goes on from here.
    Paused,
    /// The run is over, and no candidate was accepted.
    NothingAccepted,
    /// A person cancelled the run in the cluster.
    Cancelled,
    /// No coordinator answers.
    Unreachable,
    /// A person stopped the program; the same command goes on from here.
    Interrupted,
}

/// All codes, with what they mean to a script.
#[cfg_attr(not(test), expect(dead_code, reason = "shown by the documentation"))]
pub(crate) const TABLE: &[(Exit, &str)] = &[
    (
        Exit::Done,
        "done; a training ends so whether the skill improved or not",
    ),
    (
        Exit::Unexpected,
        "unexpected failure; `replay`: the run does not agree with its answers",
    ),
    (Exit::Usage, "usage, configuration or data cannot be used"),
    (
        Exit::NothingJudged,
        "nothing could be judged, so there is no score",
    ),
    (
        Exit::Paused,
        "paused (provider, infrastructure, budget, or by hand); what is paid for is kept, the same command goes on",
    ),
    (
        Exit::NothingAccepted,
        "finished without an accepted candidate; only with `--exit-code`",
    ),
    (
        Exit::Cancelled,
        "the run was cancelled in the cluster; only while waiting for one",
    ),
    (
        Exit::Unreachable,
        "no coordinator answers; a run that was taken goes on, the same command waits for it again",
    ),
    (
        Exit::Interrupted,
        "interrupted (Ctrl-C); the same command goes on",
    ),
];

impl Exit {
    /// Returns the number that the system gets.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::NothingJudged => 3,
            Self::Paused => 4,
            Self::NothingAccepted => 5,
            Self::Cancelled => 6,
            Self::Unreachable => 7,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Returns the table as Markdown.
#[cfg(test)]
fn page() -> String {
    let mut page = "# Exit codes\n\n| code | meaning |\n| --- | --- |\n".to_owned();
    for (exit, meaning) in TABLE {
        page.push_str(&format!("| {} | {meaning} |\n", exit.code()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_shows_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/exit-codes.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written.starts_with(&page()),
            "write this to docs/exit-codes.md:\n{}",
            page()
        );
    }
}
