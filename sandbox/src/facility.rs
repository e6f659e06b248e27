//! What shuts a program in, as far as this machine has it.

use std::path::PathBuf;

use serde::Serialize;

/// How the program sees processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcMount {
    /// Only its own.
    New,
    /// All that the worker sees, read-only: containers do not let a new one be mounted.
    Shared,
}

/// A bubblewrap that works here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bubblewrap {
    /// The program.
    pub program: PathBuf,
    /// What it calls itself.
    pub version: String,
    /// How `/proc` can be mounted.
    pub proc: ProcMount,
    /// Whether the kernel can be told to refuse user namespaces inside; the filter does so anyway.
    pub forbids_user_namespaces: bool,
}

/// A Landlock that suffices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Landlock {
    /// Version of the kernel's interface.
    pub abi: i32,
}
