//! What can go wrong while loading and while running an item.

use std::path::{Path, PathBuf};

use skillopt_backends::{CallError, Disposition};
use skillopt_runtime::files::FileError;

/// Why a benchmark could not be loaded. Every text names the file or key and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder could not be read or written.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// `read`, `write`, …
        action: &'static str,
        /// Which one.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file's content is wrong.
    #[error("`{path}`{place}: {problem}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// `, line 3, column 7`, or empty.
        place: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A configuration value is wrong.
    #[error("`{key}`: {problem}")]
    Setting {
        /// Which key.
        key: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A name that stands for nothing.
    #[error("unknown {kind} `{name}`; {hint}")]
    Unknown {
        /// `benchmark`, `split`, …
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The nearest valid name and the list of all.
        hint: String,
    },
}

impl LoadError {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            place: String::new(),
            problem: problem.into(),
        }
    }

    pub(crate) fn setting(key: &'static str, problem: impl Into<String>) -> Self {
        Self::Setting {
            key,
            problem: problem.into(),
        }
    }
}

/// Why a rollout gave no record. None of these is ever a score.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolloutError {
    /// The target gave no answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The judge failed (a command that broke, hung or answered nonsense).
    #[error("the judge of benchmark `{benchmark}` failed on item `{item}`: {detail}")]
    Judge {
        /// Which benchmark.
        benchmark: String,
        /// Which item.
        item: String,
        /// What happened and what to do.
        detail: String,
        /// Whether a second try may go better.
        retry: bool,
    },
    /// The item or the settings cannot be read.
    #[error("item `{item}` of benchmark `{benchmark}` cannot be run: {detail}")]
    Data {
        /// Which benchmark.
        benchmark: String,
        /// Which item.
        item: String,
        /// What is wrong and what to do.
        detail: String,
    },
}

impl RolloutError {
    /// Returns what to do about it. A broken judge or item would fail again in every run, so it
    /// stops the run; a judge that timed out or was killed is tried again first.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.disposition(),
            Self::Judge { retry: true, .. } => Disposition::Retry(None),
            Self::Judge { retry: false, .. } | Self::Data { .. } => Disposition::StopRun,
        }
    }
}
