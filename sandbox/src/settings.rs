//! How sandboxes are made.

use std::path::PathBuf;

use crate::level::Policy;

/// How sandboxes are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder for all rooms; it is made. Its path has to be short: sockets lie below it.
    pub folder: PathBuf,
    /// The program that is the sandbox's init: our own.
    pub init: PathBuf,
    /// What comes before the arguments of [`crate::init::main`].
    pub init_args: Vec<String>,
    /// How strong it has to be.
    pub policy: Policy,
    /// Bubblewrap's program; `None` looks for it on the `PATH`.
    pub bubblewrap: Option<PathBuf>,
    /// Control group of version 2 that was delegated to the worker; `None` tries our own.
    pub cgroup: Option<PathBuf>,
}
