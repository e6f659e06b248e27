//! What the rows of a run folder say against its own scores.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use skillopt_core::job::no_answer;
use skillopt_runtime::files::FileError;

use super::{PRIVATE, ROWS, RunFolder};

/// Rollouts that got no answer from the model, and count as wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// How many.
    pub n: u64,
    /// Among so many.
    pub of: u64,
    /// Why the first of them got none.
    pub cause: String,
}

/// A row, read as far as it tells whether it was answered.
#[derive(Deserialize)]
struct Answered<'a> {
    #[serde(default)]
    agent_ok: Option<bool>,
    #[serde(borrow, default)]
    fail_reason: Cow<'a, str>,
}

impl RunFolder {
    /// Counts the rollouts of all stages that got no answer from the model; nothing if all did.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn unanswered(&self) -> Result<Option<Unanswered>, FileError> {
        let mut files = Vec::new();
        row_files(self.root(), &mut files)?;
        files.sort();
        let mut found = Unanswered {
            n: 0,
            of: 0,
            cause: String::new(),
        };
        for path in files {
            count(&path, &mut found).map_err(|e| FileError::new("read", path, e))?;
        }
        Ok(Some(found).filter(|found| found.n > 0))
    }
}

/// Finds the files of rows; folders of single items hold none.
fn row_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), FileError> {
    let broken = |e| FileError::new("read", folder, e);
    for entry in std::fs::read_dir(folder).map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let name = entry.file_name();
        if name == ROWS {
            files.push(entry.path());
        } else if name != PRIVATE
            && name != "predictions"
            && entry.file_type().map_err(broken)?.is_dir()
        {
            row_files(&entry.path(), files)?;
        }
    }
    Ok(())
}

fn count(path: &Path, found: &mut Unanswered) -> std::io::Result<()> {
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let row: Answered<'_> = serde_json::from_str(&line)?;
        found.of += 1;
        if let Some(cause) = no_answer(row.agent_ok, &row.fail_reason) {
            if found.n == 0 {
                cause.clone_into(&mut found.cause);
            }
            found.n += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(stages: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (stage, rows) in stages {
            let stage = root.path().join(stage);
            std::fs::create_dir_all(&stage).unwrap();
            std::fs::write(stage.join(ROWS), rows).unwrap();
        }
        root
    }

    const ANSWERED: &str = "{\"id\":\"a\",\"agent_ok\":true,\"fail_reason\":\"\"}\n";
    const MUTE: &str =
        "{\"id\":\"b\",\"agent_ok\":false,\"fail_reason\":\"no answer: the prompt is too long\"}\n";
    /// An agent that worked and failed did answer.
    const FAILED: &str = "{\"id\":\"c\",\"agent_ok\":false,\"fail_reason\":\"exit status 1\"}\n";

    #[test]
    fn items_without_an_answer_are_counted_over_all_stages() {
        let root = folder(&[
            ("test_eval", ANSWERED),
            ("steps/step_0001/rollout", &[ANSWERED, MUTE].concat()),
            ("steps/step_0001/selection_eval", &[MUTE, FAILED].concat()),
            // What is not of the result does not count.
            (".skillopt/tmp/test_eval", MUTE),
            ("test_eval/predictions/x", "no row\n"),
        ]);
        let want = Unanswered {
            n: 2,
            of: 5,
            cause: "the prompt is too long".to_owned(),
        };
        let found = RunFolder::new(root.path()).unanswered().unwrap();
        assert_eq!(found, Some(want));
    }

    #[test]
    fn a_run_that_was_answered_leaves_no_doubt() {
        let root = folder(&[("test_eval", &[ANSWERED, FAILED].concat())]);
        assert_eq!(RunFolder::new(root.path()).unanswered().unwrap(), None);
    }

    #[test]
    fn a_damaged_row_is_named_by_its_file() {
        let root = folder(&[("test_eval", "{\n")]);
        let error = RunFolder::new(root.path()).unanswered().unwrap_err();
        assert!(error.to_string().contains("results.jsonl"), "{error}");
    }
}
