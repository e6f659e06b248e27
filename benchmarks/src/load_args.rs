//! What a benchmark is told about its items.

use std::path::PathBuf;

use serde_json::{Map, Value};

/// What a benchmark needs of the flat configuration (training spec 1.14).
#[derive(Clone, Debug, PartialEq)]
pub struct LoadArgs {
    /// `split_dir` or `ratio`; empty means the benchmark's default.
    pub split_mode: String,
    /// Folder with `train/`, `val/` and `test/`.
    pub split_dir: String,
    /// Raw items of mode `ratio`: a file, or a folder that holds one.
    pub data_path: String,
    /// Weights `train:val:test`; empty means `2:1:7`.
    pub split_ratio: String,
    /// Seed of the ratio split; 0 means [`Self::seed`].
    pub split_seed: i64,
    /// Seed of the run.
    pub seed: i64,
    /// Keep only the first `limit` items of every part; 0 keeps all.
    pub limit: usize,
    /// Where a ratio split is written; empty means below [`Self::out_root`].
    pub split_output_dir: String,
    /// The run's folder.
    pub out_root: PathBuf,
    /// Most model calls of one rollout.
    pub max_turns: u32,
    /// Most tokens of one answer.
    pub max_completion_tokens: u32,
    /// Limit of one call (or command) in seconds.
    pub exec_timeout: u64,
    /// All other `env` keys, for keys that only one benchmark knows.
    pub extra: Map<String, Value>,
}

impl Default for LoadArgs {
    fn default() -> Self {
        Self {
            split_mode: String::new(),
            split_dir: String::new(),
            data_path: String::new(),
            split_ratio: String::new(),
            split_seed: 42,
            seed: 42,
            limit: 0,
            split_output_dir: String::new(),
            out_root: PathBuf::from("outputs"),
            max_turns: 1,
            max_completion_tokens: 16_384,
            exec_timeout: 120,
            extra: Map::new(),
        }
    }
}
