//! Runs somebody else's program so that it cannot leave, cannot outlive its limits, and leaves
//! nothing behind.
//!
//! A [`Host`] finds out once what the machine offers ([`Probe`]) and settles on a [`Level`]. It makes
//! a [`Room`] for each run: private folders, and ports behind which the worker's [`Relay`]s answer.
//! [`Room::run`] takes a [`Task`] and gives back a [`Report`], whatever the program did.
//!
//! Knows nothing of models, skills or benchmarks. Start reading at `run.rs`; what happens on the
//! inside is in `init.rs`.
#![cfg(target_os = "linux")]

mod bubblewrap;
mod cgroup;
mod chance;
mod check;
mod cleaner;
mod collect;
mod confine;
mod control;
mod disk;
mod error;
mod etc;
mod facility;
mod folder;
mod forward;
mod host;
pub mod init;
mod level;
mod limits;
mod output;
mod own_folder;
mod pattern;
mod probe;
mod report;
mod room;
mod run;
mod seccomp;
mod settings;
mod shared;
mod start;
mod starter;
mod task;
mod tree;
mod watch;
mod wire;

pub use bubblewrap::shows;
pub use cgroup::Cgroups;
pub use error::Error;
pub use facility::{Bubblewrap, Landlock, ProcMount};
pub use host::Host;
pub use level::{Level, Policy};
pub use limits::{Limit, Limits};
pub use own_folder::OwnFolder;
pub use probe::Probe;
pub use report::{Ending, File, Output, Refused, Report};
pub use room::{Paths, Room};
pub use settings::Settings;
pub use task::{Input, Line, Place, Relay, Stream, Task};
