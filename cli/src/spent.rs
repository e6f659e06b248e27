//! What a run in one process has spent, as its folder tells it.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};
use skillopt_coordinator::folder::RunFolder;
use skillopt_queue::ledger::{Amount, Caps, Counts, Tally, Use};
use skillopt_runtime::files::{self, FileError};

use crate::failure::Failure;

/// Where it is written down, in the run folder.
pub(crate) const FILE: &str = ".skillopt/spent.json";
/// Largest such file that is read, in bytes: a tally tells a bounded number of kinds apart.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// What a run has spent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spent {
    /// Everything, with [`Self::held`].
    #[serde(flatten)]
    pub(crate) amount: Amount,
    /// Of this what was held for calls under way when it was written: if the process was killed, they
    /// may have been paid.
    #[serde(default)]
    pub(crate) held: Amount,
    /// Most that the run may spend.
    #[serde(default)]
    pub(crate) caps: Caps,
    /// What calls were for; earlier releases did not say.
    #[serde(default)]
    pub(crate) uses: Vec<Used>,
}

impl Spent {
    /// Reads what a run has spent; nothing if nobody wrote it down.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub(crate) fn read(folder: &RunFolder) -> Result<Option<Self>, Failure> {
        let path = folder.root().join(FILE);
        let bytes = match files::read_limited(&path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(e) if e.source.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let spent = serde_json::from_slice(&bytes).map_err(|e| {
            Failure::usage(format!(
                "`{}` is damaged ({e}); remove it to count from zero",
                path.display()
            ))
        })?;
        Ok(Some(spent))
    }

    /// Writes it down.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn write(&self, folder: &RunFolder) -> Result<(), FileError> {
        folder.json(FILE, self)
    }

    /// Returns what calls were for.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for used in &self.uses {
            tally.add(used.of(), &used.counts());
        }
        tally
    }
}

/// What calls of one kind came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Used {
    role: String,
    stage: String,
    model: String,
    requests: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    cached_tokens: u64,
    reasoning_tokens: u64,
    micro_usd: u64,
    unpriced: u64,
    outcomes: BTreeMap<String, u64>,
}

impl Used {
    /// Writes a tally as rows.
    pub(crate) fn rows(tally: &Tally) -> Vec<Self> {
        let row = |(of, counts): (&Use, &Counts)| {
            let (of, counts) = (of.clone(), counts.clone());
            Self {
                role: of.role,
                stage: of.stage,
                model: of.model,
                requests: counts.requests,
                prompt_tokens: counts.prompt_tokens,
                completion_tokens: counts.completion_tokens,
                cached_tokens: counts.cached_tokens,
                reasoning_tokens: counts.reasoning_tokens,
                micro_usd: counts.micro_usd,
                unpriced: counts.unpriced,
                outcomes: counts.outcomes,
            }
        };
        tally.0.iter().map(row).collect()
    }

    fn of(&self) -> Use {
        Use::new(&self.role, &self.stage, &self.model)
    }

    fn counts(&self) -> Counts {
        Counts {
            requests: self.requests,
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            cached_tokens: self.cached_tokens,
            reasoning_tokens: self.reasoning_tokens,
            micro_usd: self.micro_usd,
            unpriced: self.unpriced,
            outcomes: self.outcomes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, RunFolder) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".skillopt")).unwrap();
        let folder = RunFolder::new(dir.path());
        (dir, folder)
    }

    #[test]
    fn what_was_spent_is_read_as_it_was_written() {
        let (_dir, folder) = folder();
        assert_eq!(Spent::read(&folder).unwrap(), None);
        let counts = Counts {
            requests: 2,
            prompt_tokens: 30,
            unpriced: 2,
            outcomes: BTreeMap::from([("answer".to_owned(), 2)]),
            ..Counts::default()
        };
        let mut tally = Tally::default();
        tally.add(Use::new("target", "rollout", "m"), &counts);
        let spent = Spent {
            amount: Amount {
                requests: 2,
                prompt_tokens: 30,
                ..Amount::default()
            },
            caps: Caps {
                requests: Some(9),
                ..Caps::default()
            },
            uses: Used::rows(&tally),
            ..Spent::default()
        };
        spent.write(&folder).unwrap();
        let read = Spent::read(&folder).unwrap().unwrap();
        assert_eq!(read, spent);
        assert_eq!(read.tally(), tally);
    }

    #[test]
    fn the_file_of_an_earlier_release_counts_and_a_damaged_one_is_told() {
        let (_dir, folder) = folder();
        let path = folder.root().join(FILE);
        let earlier = r#"{"requests":3,"prompt_tokens":1,"completion_tokens":2,"micro_usd":4}"#;
        std::fs::write(&path, earlier).unwrap();
        let read = Spent::read(&folder).unwrap().unwrap();
        assert_eq!((read.amount.requests, read.amount.micro_usd), (3, 4));
        assert!(read.tally().is_empty());
        std::fs::write(&path, "{").unwrap();
        let failure = Spent::read(&folder).unwrap_err();
        let words = &failure.errors[0].message;
        assert!(
            words.contains("spent.json") && words.contains("remove it"),
            "{words}"
        );
    }
}
