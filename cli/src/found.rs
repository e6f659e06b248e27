//! A run in a folder, as others left it.

use std::fs::TryLockError;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use skillopt_coordinator::events::{self, Event};
use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::halt::wants_new_run;
use skillopt_coordinator::read_model::{EvaluationRow, RunView, is_over};
use skillopt_queue::RunId;
use skillopt_queue::sqlite::SqlitePeek;
use skillopt_runtime::files;

use crate::advice::{Roles, advice};
use crate::failure::Failure;
use crate::marker::Marker;
use crate::status::{FILE_MAX, Status};

/// Why a run is not going on (dashboard spec, chapter 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Notice {
    /// A pause, `stopped` or `failed`.
    pub(crate) state: String,
    /// What happened.
    pub(crate) cause: Option<String>,
    /// When, in milliseconds since 1970; absent if nobody could write it down.
    pub(crate) at_unix_ms: Option<u64>,
    /// What to do about it.
    pub(crate) fix: Option<String>,
}

impl Notice {
    /// Says why a run is not going on; nothing if a program is at work.
    fn of(status: &Status, is_busy: bool, roles: &Roles) -> Option<Self> {
        let is_running = matches!(status.state.as_str(), "running" | "");
        match (is_running, is_busy) {
            (_, true) => None,
            // Its log has no end, whatever the program wanted to write down.
            (true, false) => Some(Self {
                state: "stopped".to_owned(),
                cause: None,
                at_unix_ms: None,
                fix: None,
            }),
            (false, false) => {
                let told = status.cause.as_deref().unwrap_or_default();
                let own = told.strip_prefix(&format!("{}: ", status.state));
                Some(Self {
                    state: status.state.clone(),
                    cause: own.or(status.cause.as_deref()).map(str::to_owned),
                    at_unix_ms: Some(status.at_unix_ms).filter(|ms| *ms > 0),
                    fix: advice(told, roles),
                })
            }
        }
    }

    /// Returns whether the same command goes on from here.
    pub(crate) fn can_go_on(&self) -> bool {
        !is_over(&self.state) && !self.cause.as_deref().is_some_and(wants_new_run)
    }
}

/// A run folder with its log.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) folder: RunFolder,
    pub(crate) run: RunId,
    /// What decided the run's result when it was begun.
    pub(crate) facts: Map<String, Value>,
    /// `train` or `eval`.
    pub(crate) command: String,
    pub(crate) store: PathBuf,
    pub(crate) events: Vec<Event>,
    pub(crate) view: RunView,
    /// Why the run is not going on, if its log does not say so.
    pub(crate) notice: Option<Notice>,
    /// Its id, if it is a run of a cluster.
    pub(crate) cluster_run: Option<String>,
}

/// Returns whether a folder holds a run.
pub(crate) fn is_run(path: &Path) -> bool {
    RunFolder::new(path).private().join("run.json").is_file()
}

impl Found {
    /// Reads the run in `path`; `store` overrides where its answers are.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn read(path: &Path, store: Option<&Path>) -> Result<Self, Failure> {
        let folder = RunFolder::new(path);
        let (run, identity) = identity(path)?;
        let facts = identity.get("facts").and_then(Value::as_object);
        let facts = facts.cloned().unwrap_or_default();
        let command = text(&facts, "command");
        let is_evaluation = command.as_deref() == Some("eval");
        let status = Status::read(&folder).unwrap_or_default();
        let store = match store {
            Some(store) => store.to_owned(),
            None if status.store.is_empty() => folder.store(),
            None => PathBuf::from(&status.store),
        };
        if !store.exists() {
            return Err(no_store(&store, &folder));
        }
        let events = log(&store, &RunId::new(&folder.log_name(run.as_str())?))?;
        let mut view = RunView::of(run.as_str(), &events);
        if is_evaluation && view.evaluation.is_none() {
            view.evaluation = Some(EvaluationRow {
                run: run.as_str().to_owned(),
                split: text(&facts, "split").unwrap_or_default(),
                ..EvaluationRow::default()
            });
        }
        let notice = if is_over(&view.run.state) {
            view.stands(&view.run.state.clone(), None);
            None
        } else {
            let notice = Notice::of(&status, is_busy(&folder), &Roles::of_facts(&facts));
            let state = notice.as_ref().map_or("running", |notice| &notice.state);
            view.stands(state, status.baseline_in);
            notice
        };
        Ok(Self {
            folder,
            run,
            facts,
            command: command.unwrap_or_else(|| "train".to_owned()),
            store,
            events,
            view,
            notice,
            cluster_run: None,
        })
    }

    /// Reads a text file of the folder.
    ///
    /// # Errors
    /// It is not there, or no text.
    pub(crate) fn text(&self, path: &str) -> Result<String, Failure> {
        text_file(&self.folder.root().join(path))
    }
}

/// Returns the run in `path`, and all that its identity file says.
///
/// # Errors
/// There is none, or the file is damaged.
pub(crate) fn identity(path: &Path) -> Result<(RunId, Map<String, Value>), Failure> {
    if !is_run(path) {
        return Err(no_run(path));
    }
    let identity = json(&RunFolder::new(path).private().join("run.json"))?;
    let run = text(&identity, "run").ok_or_else(|| {
        Failure::usage(format!(
            "the identity file of `{}` is damaged",
            path.display()
        ))
    })?;
    Ok((RunId::new(&run), identity))
}

/// Reads a text file.
///
/// # Errors
/// It is not there, too large, or no text.
pub(crate) fn text_file(path: &Path) -> Result<String, Failure> {
    let bytes = files::read_limited(path, FILE_MAX)?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("`{}` is not UTF-8 text", path.display())))
}

/// Returns whether `run` was begun in the folder, is not over, and no process works on it.
pub(crate) fn can_go_on(folder: &RunFolder, run: &str) -> bool {
    let identity = json(&folder.private().join("run.json")).unwrap_or_default();
    let status = Status::read(folder).unwrap_or_default();
    text(&identity, "run").is_some_and(|known| known == run)
        && !is_over(&status.state)
        && !is_busy(folder)
}

/// Returns whether a process is at work in the folder; it holds the lock then.
fn is_busy(folder: &RunFolder) -> bool {
    let lock = std::fs::File::open(folder.private().join("lock"));
    lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn no_run(path: &Path) -> Failure {
    let failure = Failure::usage(format!("`{}` holds no run", path.display()));
    let inside = path.join("run");
    if is_run(&inside) {
        return failure.hint(format!("did you mean `{}`?", inside.display()));
    }
    failure.hint("`skillopt runs` lists the runs below `outputs`")
}

fn json(path: &Path) -> Result<Map<String, Value>, Failure> {
    let bytes = files::read_limited(path, FILE_MAX)?;
    serde_json::from_slice(&bytes)
        .map_err(|e| Failure::usage(format!("`{}` is damaged: {e}", path.display())))
}

fn text(map: &Map<String, Value>, name: &str) -> Option<String> {
    map.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// Says that a run's answers are not here, and where they may be.
fn no_store(store: &Path, folder: &RunFolder) -> Failure {
    let failure = Failure::usage(format!(
        "the run's database `{}` is not there",
        store.display()
    ));
    match Marker::read(folder).filter(|marker| !marker.run.is_empty()) {
        Some(marker) => failure.hint(format!(
            "it is run {id} of the cluster at {place}: look at it there with `skillopt show {id}`, or \
             wait for it with the command that submitted it",
            id = marker.run,
            place = marker.coordinator
        )),
        None => failure,
    }
}

fn log(store: &Path, run: &RunId) -> Result<Vec<Event>, Failure> {
    let bytes = SqlitePeek::open(store)?.log(run)?;
    bytes
        .iter()
        .map(|b| events::decode(b).map_err(Failure::from))
        .collect()
}
