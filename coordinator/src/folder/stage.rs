//! The folder of one rollout stage: `results.jsonl` and `predictions/<id>/…`.
//!
//! It is built aside and renamed as a whole, so a stage that is there is complete, and a repeated
//! run leaves it alone.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use skillopt_core::job::RolloutRecord;
use skillopt_runtime::files::{FileError, create_dir_all};

use super::ROWS;

/// Which stages write a folder per item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictions {
    /// `predictions/<id>/` for every item.
    Write,
    /// Only `results.jsonl`; the trajectories stay in the store.
    Skip,
}

/// Writes one stage. Rows may come in any order and from any thread.
#[derive(Debug)]
pub struct StageWriter {
    aside: PathBuf,
    target: PathBuf,
    predictions: Predictions,
    /// The stage is there already.
    done: bool,
    is_unwritten: bool,
    turn: Arc<Mutex<()>>,
}

impl StageWriter {
    /// A stage of which nothing is written.
    pub(super) fn unwritten() -> Self {
        Self {
            aside: PathBuf::new(),
            target: PathBuf::new(),
            predictions: Predictions::Skip,
            done: false,
            is_unwritten: true,
            turn: Arc::default(),
        }
    }

    pub(super) fn open(
        root: &Path,
        stage: &str,
        predictions: Predictions,
        turn: Arc<Mutex<()>>,
    ) -> Result<Self, FileError> {
        let target = root.join(stage);
        let aside = root
            .join(super::PRIVATE)
            .join("tmp")
            .join(stage.replace('/', "__"));
        // One that was made without folders of its items is made anew where they are wanted.
        let has_items = predictions == Predictions::Skip || target.join("predictions").exists();
        let done = has_items && target.join(ROWS).exists();
        if !done {
            match std::fs::remove_dir_all(&aside) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FileError::new("clear", aside, e));
                }
                _ => {}
            }
            create_dir_all(&aside)?;
        }
        Ok(Self {
            aside,
            target,
            predictions,
            done,
            is_unwritten: false,
            turn,
        })
    }

    /// Returns whether the stage was there already.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Returns whether [`Self::rows`] would write anything.
    #[must_use]
    pub const fn wants_rows(&self) -> bool {
        !self.done && !self.is_unwritten
    }

    /// Returns whether the stage that is there has exactly these rows.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn holds<'a>(&self, mut rows: impl Iterator<Item = &'a [u8]>) -> Result<bool, FileError> {
        let path = self.target.join(ROWS);
        let known = std::fs::read(&path).map_err(|e| FileError::new("read", &path, e))?;
        let mut lines = known.split_inclusive(|byte| *byte == b'\n');
        let is_next = |row: &[u8]| {
            lines
                .next()
                .is_some_and(|line| line.strip_suffix(b"\n") == Some(row))
        };
        Ok(rows.all(is_next) && lines.next().is_none())
    }

    /// Removes the stage that is there, so that it can be made anew.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn discard(&self) -> Result<(), FileError> {
        std::fs::remove_dir_all(&self.target).map_err(|e| FileError::new("clear", &self.target, e))
    }

    /// Returns whether [`Self::prediction`] would write anything.
    #[must_use]
    pub fn wants_predictions(&self) -> bool {
        self.wants_rows() && self.predictions == Predictions::Write
    }

    /// Writes the files of one item; `folder` is its safe name.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn prediction(&self, folder: &str, record: &RolloutRecord) -> Result<(), FileError> {
        if !self.wants_predictions() {
            return Ok(());
        }
        let conversation = serde_json::to_vec_pretty(&record.conversation)
            .map_err(|e| FileError::new("write", &self.target, e.into()))?;
        let dir = self.aside.join("predictions").join(folder);
        // It guards no data, so a panic elsewhere does not matter.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        match std::fs::create_dir(&dir) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => create_dir_all(&dir)?,
            Err(e) => return Err(FileError::new("create folder", dir, e)),
            Ok(()) => {}
        }
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            std::fs::write(&path, bytes).map_err(|e| FileError::new("write", path, e))
        };
        write("conversation.json", &conversation)?;
        for (name, content) in &record.files {
            if let Value::String(text) = content {
                write(name, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Writes `results.jsonl` from the rows in item order.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn rows<'a>(&self, rows: impl Iterator<Item = &'a [u8]>) -> Result<(), FileError> {
        if !self.wants_rows() {
            return Ok(());
        }
        let path = self.aside.join(ROWS);
        let error = |e| FileError::new("write", &path, e);
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).map_err(error)?);
        for row in rows {
            file.write_all(row)
                .and_then(|()| file.write_all(b"\n"))
                .map_err(error)?;
        }
        file.flush().map_err(error)
    }

    /// Shows the stage, when its rows are written.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn show(&self) -> Result<(), FileError> {
        if !self.wants_rows() {
            return Ok(());
        }
        if self.target.exists() {
            self.discard()?;
        } else if let Some(parent) = self.target.parent() {
            create_dir_all(parent)?;
        }
        std::fs::rename(&self.aside, &self.target)
            .map_err(|e| FileError::new("write", &self.target, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillopt_core::job::{Ending, Usage};

    fn open(root: &Path, predictions: Predictions) -> StageWriter {
        StageWriter::open(root, "test_eval", predictions, Arc::default()).unwrap()
    }

    #[test]
    fn a_stage_without_folders_of_its_items_is_made_anew_where_they_are_wanted() {
        let root = tempfile::tempdir().unwrap();
        let row: [&[u8]; 1] = [b"{}"];
        let record = RolloutRecord {
            ending: Ending::Scored,
            row: serde_json::Map::new(),
            conversation: Vec::new(),
            files: serde_json::Map::new(),
            usage: Usage::default(),
        };
        let item = root
            .path()
            .join("test_eval/predictions/one/conversation.json");
        let plain = open(root.path(), Predictions::Skip);
        plain.prediction("one", &record).unwrap();
        plain.rows(row.into_iter()).unwrap();
        plain.show().unwrap();
        assert!(open(root.path(), Predictions::Skip).is_done());
        assert!(!item.exists());
        let full = open(root.path(), Predictions::Write);
        assert!(!full.is_done());
        full.prediction("one", &record).unwrap();
        full.rows(row.into_iter()).unwrap();
        full.show().unwrap();
        assert!(item.exists());
        for wanted in [Predictions::Skip, Predictions::Write] {
            let writer = open(root.path(), wanted);
            assert!(writer.is_done() && writer.holds(row.into_iter()).unwrap());
        }
    }
}
