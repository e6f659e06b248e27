//! What a run folder says of the program that works in it: `status.json`, no part of a result.

use serde_json::{Map, Value, json};
use skillopt_coordinator::Halt;
use skillopt_coordinator::folder::RunFolder;
use skillopt_core::job::FailureClass;
use skillopt_runtime::clock::unix_ms;
use skillopt_runtime::files::{self, FileError};

/// Largest file of a run that is read whole, in bytes.
pub(crate) const FILE_MAX: u64 = 64 << 20;

/// Name of the file in a run's private folder.
const FILE: &str = "status.json";

/// How a run is doing, or was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    /// A word of the dashboard spec, chapter 4.
    pub(crate) state: String,
    /// Why it is not going on.
    pub(crate) cause: Option<String>,
    /// When that was, in milliseconds since 1970; 0 if unknown.
    pub(crate) at_unix_ms: u64,
    /// Its database; empty for the folder's own.
    pub(crate) store: String,
    /// Rollouts of the initial skill on the val split that are in.
    pub(crate) baseline_in: Option<u64>,
}

impl Status {
    /// Writes it down for now.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn write(&self, folder: &RunFolder) -> Result<(), FileError> {
        let value = json!({
            "state": self.state,
            "cause": self.cause,
            "at_unix_ms": unix_ms(),
            "pid": std::process::id(),
            "store": self.store,
            "baseline_in": self.baseline_in,
        });
        let path = folder.private().join(FILE);
        files::write_atomic(&path, value.to_string().as_bytes())
    }

    /// Reads it; a run that was killed early has none.
    pub(crate) fn read(folder: &RunFolder) -> Option<Self> {
        let bytes = files::read_limited(&folder.private().join(FILE), FILE_MAX).ok()?;
        let map: Map<String, Value> = serde_json::from_slice(&bytes).ok()?;
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let whole = |name: &str| map.get(name).and_then(Value::as_u64);
        Some(Self {
            state: text("state")?,
            cause: text("cause"),
            at_unix_ms: whole("at_unix_ms").unwrap_or(0),
            store: text("store").unwrap_or_default(),
            baseline_in: whole("baseline_in"),
        })
    }
}

/// Returns the state that a run is left in (dashboard spec, chapter 4).
pub(crate) fn word(halt: &Halt) -> &'static str {
    match halt {
        Halt::Paused(FailureClass::Provider, _) => "paused (provider)",
        Halt::Paused(FailureClass::Infrastructure, _) => "paused (infrastructure)",
        Halt::Paused(FailureClass::Budget, _) => "paused (budget)",
        Halt::Interrupted => "paused (by hand)",
        Halt::Paused(FailureClass::Data, _) | Halt::Failed(_) | Halt::NotStored => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::new(dir.path());
        assert_eq!(Status::read(&folder), None);
        std::fs::create_dir(folder.private()).unwrap();
        let status = Status {
            state: word(&Halt::Interrupted).to_owned(),
            cause: Some("interrupted".to_owned()),
            baseline_in: Some(3),
            ..Status::default()
        };
        status.write(&folder).unwrap();
        let seen = Status::read(&folder).unwrap();
        assert!(seen.at_unix_ms > 0);
        assert_eq!(
            seen,
            Status {
                at_unix_ms: seen.at_unix_ms,
                ..status
            }
        );
    }
}
