//! The run folder: a projection of the run in the reference's layout (training spec 8.1).
//!
//! Nothing is read back from here to decide anything; the store and the log are the truth. So a
//! file only has to be whole, and equal for equal runs: times live in `timings.json` alone, paths
//! are relative, every file is written aside and renamed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::Value;
use skillopt_core::skill::Folder;
use skillopt_runtime::files::{self, FileError};

mod doubts;
mod identity;
mod stage;

pub use doubts::Unanswered;
pub use identity::{Claim, ClaimError};
pub use stage::{Predictions, StageWriter};

/// Name of the folder for our own files inside a run folder.
pub const PRIVATE: &str = ".skillopt";
/// Name of the file with a stage's rows, one JSON object a line.
const ROWS: &str = "results.jsonl";

/// A run's folder.
#[derive(Clone, Debug)]
pub struct RunFolder {
    root: PathBuf,
    /// Held while the files of an item are made: two threads that make files in one folder fight
    /// inside the kernel, at many times the cost of taking turns.
    turn: Arc<Mutex<()>>,
    is_unwritten: bool,
}

impl RunFolder {
    /// Takes `root` as a run folder; touches nothing.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            turn: Arc::default(),
            is_unwritten: false,
        }
    }

    /// Takes `root` as a run folder into which nothing is written that can be made again from
    /// stored answers: for runs whose folder nobody looks at before it is asked for.
    #[must_use]
    pub fn unwritten(root: impl Into<PathBuf>) -> Self {
        Self {
            is_unwritten: true,
            ..Self::new(root)
        }
    }

    /// Returns the folder's path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the place of our own files.
    #[must_use]
    pub fn private(&self) -> PathBuf {
        self.root.join(PRIVATE)
    }

    /// Returns the default place of the store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.private().join("store.sqlite")
    }

    /// Writes a JSON file, indented by two blanks.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn json(&self, path: &str, value: &impl Serialize) -> Result<(), FileError> {
        if self.is_unwritten {
            return Ok(());
        }
        let mut bytes = serde_json::to_vec_pretty(value)
            .map_err(|e| FileError::new("write", self.root.join(path), e.into()))?;
        bytes.push(b'\n');
        self.bytes(path, &bytes)
    }

    /// Writes a text file.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn text(&self, path: &str, text: &str) -> Result<(), FileError> {
        self.bytes(path, text.as_bytes())
    }

    fn bytes(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        if self.is_unwritten {
            return Ok(());
        }
        files::write_derived(&self.root.join(path), bytes)
    }

    /// Writes one JSON value a line.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn json_lines(&self, path: &str, values: &[Value]) -> Result<(), FileError> {
        let text: String = values.iter().map(|v| format!("{v}\n")).collect();
        self.text(path, &text)
    }

    /// Writes the best skill: `best_skill.md`, and `best_skill/` when it brings other files.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn best_skill(&self, skill: &Folder) -> Result<(), FileError> {
        if !skill.files().is_empty() {
            self.text("best_skill/SKILL.md", &skill.document)?;
            for (path, bytes) in skill.files() {
                self.bytes(&format!("best_skill/{path}"), bytes)?;
            }
        }
        self.text("best_skill.md", &skill.document)
    }

    /// Opens the folder of one rollout stage for writing.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn stage(&self, stage: &str, predictions: Predictions) -> Result<StageWriter, FileError> {
        if self.is_unwritten {
            return Ok(StageWriter::unwritten());
        }
        StageWriter::open(&self.root, stage, predictions, Arc::clone(&self.turn))
    }
}
