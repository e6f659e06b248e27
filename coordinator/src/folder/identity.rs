//! Whose run folder it is: one process at a time, one run for ever.

use std::fs::{File, TryLockError};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skillopt_runtime::clock::unix_ms;
use skillopt_runtime::files::{self, FileError};

use super::{PRIVATE, RunFolder};

/// Largest identity file that is read, in bytes.
const IDENTITY_MAX: u64 = 4 << 20;

/// The right to write into a run folder, held until dropped.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process writes into it.
    #[error("another skillopt process is working in `{}`; wait for it, or choose another --out", .0.display())]
    Busy(PathBuf),
    /// It holds something else.
    #[error("`{}` is not empty and not a run folder; choose another --out", .0.display())]
    Foreign(PathBuf),
    /// It holds another run.
    #[error("`{}` holds another run: {difference}; choose another --out (with --store both may share answers)", path.display())]
    Other {
        /// The folder.
        path: PathBuf,
        /// What differs, in words.
        difference: String,
    },
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Where benchmarks put the splits that they draw (training spec 8.1).
const DRAWN_SPLITS: &str = "_generated_splits";

#[derive(Debug, Serialize, Deserialize)]
struct Identity {
    version: u32,
    run: String,
    facts: Map<String, Value>,
}

impl RunFolder {
    /// Takes the folder for the run that `facts` describe (everything that changes its result),
    /// creating it if need be.
    ///
    /// # Errors
    /// See [`ClaimError`]; nothing was changed then, except that the folder may now exist.
    pub fn claim(
        &self,
        run: &str,
        facts: &Map<String, Value>,
        differs: impl Fn(&Map<String, Value>, &Map<String, Value>) -> Option<String>,
    ) -> Result<Claim, ClaimError> {
        let root = self.root();
        let mine = root.join(PRIVATE);
        self.check_is_ours()?;
        files::create_dir_all(&mine)?;
        let lock = self.lock()?;
        let path = mine.join("run.json");
        if path.exists() {
            let bytes = files::read_limited(&path, IDENTITY_MAX)?;
            let known: Identity =
                serde_json::from_slice(&bytes).map_err(|_| ClaimError::Other {
                    path: root.to_owned(),
                    difference: "its identity file is damaged".to_owned(),
                })?;
            if let Some(difference) = differs(&known.facts, facts) {
                return Err(ClaimError::Other {
                    path: root.to_owned(),
                    difference,
                });
            }
            if known.run != run {
                let difference = "its data, its first skill or its prompts differ".to_owned();
                return Err(ClaimError::Other {
                    path: root.to_owned(),
                    difference,
                });
            }
        } else {
            let identity = Identity {
                version: 1,
                run: run.to_owned(),
                facts: facts.clone(),
            };
            let bytes = serde_json::to_vec_pretty(&identity)
                .map_err(|e| FileError::new("write", &path, e.into()))?;
            files::write_atomic(&path, &bytes)?;
        }
        Ok(Claim { _lock: lock })
    }

    /// Refuses a folder that holds other things than a run. Ask before loading a benchmark, which
    /// may write the split that it draws into the folder.
    ///
    /// # Errors
    /// See [`ClaimError::Foreign`]; nothing was changed.
    pub fn check_is_ours(&self) -> Result<(), ClaimError> {
        let root = self.root();
        if !self.private().exists() && root.exists() && !is_empty(root)? {
            return Err(ClaimError::Foreign(root.to_owned()));
        }
        Ok(())
    }

    /// Returns the scope of a run that shares answers with nobody: the run's name with a mark made
    /// once for this folder, so that going on here finds its own answers and another folder none.
    ///
    /// # Errors
    /// The mark cannot be read or written.
    pub fn fresh_scope(&self, run: &str) -> Result<String, FileError> {
        let path = self.private().join("fresh");
        if !path.exists() {
            static MADE: AtomicU64 = AtomicU64::new(0);
            let count = MADE.fetch_add(1, Ordering::Relaxed);
            let mark = format!("{:x}-{:x}-{count:x}", unix_ms(), std::process::id());
            files::write_atomic(&path, mark.as_bytes())?;
        }
        let mark = files::read_limited(&path, 64)?;
        Ok(format!("{run}-{}", String::from_utf8_lossy(&mark)))
    }

    /// Returns the name of the run's log: the run's own, or for a run that shares with nobody one
    /// of this folder alone, since its answers may differ from those of an equal run.
    ///
    /// # Errors
    /// The mark of the folder cannot be read.
    pub fn log_name(&self, run: &str) -> Result<String, FileError> {
        if self.private().join("fresh").exists() {
            self.fresh_scope(run)
        } else {
            Ok(run.to_owned())
        }
    }

    fn lock(&self) -> Result<File, ClaimError> {
        let path = self.private().join("lock");
        let error = |e| FileError::new("lock", &path, e);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(error)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(ClaimError::Busy(self.root().to_owned())),
            Err(TryLockError::Error(e)) => Err(error(e).into()),
        }
    }
}

/// Tells whether a folder holds nothing, or only the split that a benchmark drew for the run that
/// is about to take the folder.
fn is_empty(path: &std::path::Path) -> Result<bool, FileError> {
    let error = |e| FileError::new("read", path, e);
    for entry in std::fs::read_dir(path).map_err(error)? {
        if entry.map_err(error)?.file_name() != DRAWN_SPLITS {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(seed: i64) -> Map<String, Value> {
        [("seed".to_owned(), Value::from(seed))]
            .into_iter()
            .collect()
    }

    fn differs(a: &Map<String, Value>, b: &Map<String, Value>) -> Option<String> {
        (a != b).then(|| "`seed` differs".to_owned())
    }

    #[test]
    fn a_folder_belongs_to_one_run_and_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path().join("run"));
        let first = folder.claim("r", &facts(1), differs).unwrap();
        assert!(matches!(
            folder.claim("r", &facts(1), differs),
            Err(ClaimError::Busy(_))
        ));
        drop(first);
        drop(folder.claim("r", &facts(1), differs).unwrap());
        assert!(matches!(
            folder.claim("r", &facts(2), differs),
            Err(ClaimError::Other { .. })
        ));
        assert!(matches!(
            folder.claim("s", &facts(1), differs),
            Err(ClaimError::Other { .. })
        ));
    }

    #[test]
    fn a_fresh_scope_is_kept_by_its_folder_and_shared_with_none() {
        let dir = tempfile::tempdir().unwrap();
        let folders = ["a", "b"].map(|name| RunFolder::new(dir.path().join(name)));
        let scopes = folders
            .each_ref()
            .map(|folder| folder.fresh_scope("r").unwrap());
        assert_eq!(folders[0].fresh_scope("r").unwrap(), scopes[0]);
        let other = RunFolder::new(dir.path().join("a"))
            .fresh_scope("s")
            .unwrap();
        assert_ne!(other, scopes[0]);
        assert_ne!(scopes[0], scopes[1]);
    }

    #[test]
    fn a_folder_with_other_things_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine.txt"), "x").unwrap();
        let refused = RunFolder::new(dir.path()).claim("r", &facts(1), differs);
        assert!(matches!(refused, Err(ClaimError::Foreign(_))));
        assert!(!dir.path().join(PRIVATE).exists());
    }

    #[test]
    fn a_folder_with_a_drawn_split_can_be_taken() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(DRAWN_SPLITS)).unwrap();
        drop(
            RunFolder::new(dir.path())
                .claim("r", &facts(1), differs)
                .unwrap(),
        );
    }
}
