//! What is to be run.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A way out for the program: a Unix socket of the worker that answers inside as a port of
/// `127.0.0.1`. There is no other way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Path of the listening socket.
    pub socket: PathBuf,
}

/// Where a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The folder that the program works in.
    Work,
    /// Its home.
    Home,
}

/// A file that the program finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Below which folder.
    pub place: Place,
    /// Path below it, without `..`.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// Whether it may be executed.
    pub is_executable: bool,
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What is to be run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// Program: a path as seen inside, or a name that is looked up in the `PATH` of `env`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment; nothing is added.
    pub env: BTreeMap<String, String>,
    /// What it reads from standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// Files that lie there when it starts.
    pub files: Vec<Input>,
    /// Absolute paths of the machine that it may read and execute, at the same place.
    pub read_only: Vec<PathBuf>,
    /// Patterns of the files that are wanted from the working folder: `answer.txt`, `out/*.json`,
    /// `**/*.md`.
    pub collect: Vec<String>,
}

/// A line that the program printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Where.
    pub stream: Stream,
    /// Without the end of the line; not always valid text.
    pub bytes: &'a [u8],
    /// Whether it was longer than the limit.
    pub is_cut: bool,
}
