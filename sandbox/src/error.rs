//! Why a run could not even begin.

use std::path::{Path, PathBuf};

/// Why a run could not even begin. How a run that began went wrong is an [`crate::Ending`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine does not offer what was asked for.
    #[error("no sandbox can be had: {0}")]
    NoLevel(String),
    /// The task cannot be carried out as it is written.
    #[error("the sandbox refuses the task: {0}")]
    Task(String),
    /// The sandbox itself did not start.
    #[error("the sandbox did not start: {0}")]
    Start(String),
    /// The program itself cannot be started inside.
    #[error("`{program}` cannot be started in the sandbox: {why}")]
    Program {
        /// As the task names it.
        program: String,
        /// What the system said.
        why: String,
    },
    /// A file or folder of the sandbox cannot be used.
    #[error("cannot {what} `{path}`: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn io(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }
}
