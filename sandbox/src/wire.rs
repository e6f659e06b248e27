//! What the worker and the sandbox's init say to each other: lines of JSON on a Unix socket that
//! the program itself never has.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What init is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) folder: PathBuf,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) rlimits: Rlimits,
    pub(crate) confinement: Confinement,
}

/// A port of the inside and the socket behind it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Forward {
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
}

/// Limits of single processes; those of the whole tree are kept from outside.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rlimits {
    pub(crate) file_bytes: u64,
    pub(crate) cpu_s: Option<u64>,
    pub(crate) processes: Option<u64>,
}

/// What the program is bound by beside its surroundings.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Confinement {
    /// Inside namespaces: init is process 1, and the filter closes what they leave open.
    Namespaces,
    /// Outside of namespaces: these rules and a stricter filter; init adopts what loses its parent.
    Rules(Rules),
    /// Only adopted.
    Nothing,
}

/// What a program may do with the machine's files and ports.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rules {
    /// Read and execute.
    pub(crate) read: Vec<PathBuf>,
    /// Read and write, but not execute or create: devices.
    pub(crate) devices: Vec<PathBuf>,
    /// Everything.
    pub(crate) write: Vec<PathBuf>,
    /// Ports of TCP it may connect to.
    pub(crate) ports: Vec<u16>,
}

/// From the worker, after the specification. The end of the connection means: end everything.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Ask the program to end.
    Stop,
}

/// From init.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Word {
    /// The program runs.
    Started,
    /// The program cannot be started: `is_program` tells whether it is to blame itself.
    Failed { why: String, is_program: bool },
    /// The program ended, and so did everything it left behind.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        cpu_us: u64,
        peak_kib: u64,
        /// Processes that were still alive, and had to be killed.
        left_behind: u64,
    },
}
