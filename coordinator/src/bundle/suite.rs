//! The suite of a bundle: what a benchmark loaded. Runs on the same data share one.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillopt_benchmarks::splits::Generated;
use skillopt_benchmarks::{Item, registry};
use skillopt_core::Hash;
use skillopt_core::skill::Folder;
use skillopt_core::stages::prompts;
use skillopt_queue::Store;
use tokio::sync::Mutex;

use super::root::Root;
use super::{UnpackError, code};
use crate::prepare::{Inputs, PrepareError};
use crate::sample::{Sample, Samples};

/// Largest suite once it is unpacked, in bytes.
const BYTES_MAX: u64 = 512 << 20;
/// Largest suite that stays in memory when no run uses it, in bytes as it travels.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// Files of a drawn split.
const FILES_MAX: usize = 64;
/// Bytes of these files together.
const FILE_BYTES_MAX: usize = 256 << 20;

/// What travels.
#[derive(Serialize, Deserialize)]
struct Wire {
    benchmark: String,
    benchmark_version: String,
    title: String,
    train: Vec<Value>,
    val: Vec<Value>,
    test: Vec<Value>,
    settings: Value,
    task_types: Vec<String>,
    failure_types: Vec<String>,
    generated: Option<Vec<File>>,
}

/// A file of a split that was drawn.
#[derive(Serialize, Deserialize)]
struct File {
    /// Below the run folder, or anywhere.
    is_below: bool,
    path: PathBuf,
    text: String,
}

/// A drawn file below the run folder, with its bytes.
type Drawn = (PathBuf, Arc<[u8]>);

/// A suite in memory.
#[derive(Debug)]
pub(super) struct Suite {
    benchmark: String,
    benchmark_version: String,
    title: String,
    samples: Samples,
    settings: Arc<Value>,
    task_types: Vec<String>,
    failure_types: Vec<String>,
    /// Files of a drawn split below the run folder.
    generated: Option<Vec<Drawn>>,
}

/// Writes the suite of a run whose folder is `out_root`.
pub(super) fn encode(inputs: &Inputs, out_root: &str) -> Result<Bytes, PrepareError> {
    let values = |samples: &[Sample]| -> Vec<Value> {
        samples.iter().map(|s| s.item.value.clone()).collect()
    };
    let file = |(path, bytes): &(PathBuf, Arc<[u8]>)| {
        let below = path.strip_prefix(Path::new(out_root)).ok();
        let below = below.filter(|_| !out_root.is_empty());
        File {
            is_below: below.is_some(),
            path: below.unwrap_or(path).to_owned(),
            text: String::from_utf8_lossy(bytes).into_owned(),
        }
    };
    let generated = inputs.generated.as_ref();
    let bytes = code::encode(&Wire {
        benchmark: inputs.benchmark.clone(),
        benchmark_version: inputs.benchmark_version.clone(),
        title: inputs.title.clone(),
        train: values(&inputs.samples.train),
        val: values(&inputs.samples.val),
        test: values(&inputs.samples.test),
        settings: inputs.settings.as_ref().clone(),
        task_types: inputs.task_types.clone(),
        failure_types: inputs.failure_types.clone(),
        generated: generated.map(|split| split.files().iter().map(file).collect()),
    })?;
    let again = decode(&bytes).map_err(|_| PrepareError::Unportable)?;
    let is_same =
        again.samples.hash() == inputs.samples.hash() && again.settings == inputs.settings;
    if is_same {
        Ok(bytes)
    } else {
        Err(PrepareError::Unportable)
    }
}

fn decode(bytes: &[u8]) -> Result<Suite, UnpackError> {
    let wire: Wire = code::decode("its suite", bytes, BYTES_MAX)?;
    Ok(Suite {
        benchmark: wire.benchmark,
        benchmark_version: wire.benchmark_version,
        title: wire.title,
        samples: Samples {
            train: samples(wire.train)?,
            val: samples(wire.val)?,
            test: samples(wire.test)?,
        },
        settings: Arc::new(wire.settings),
        task_types: wire.task_types,
        failure_types: wire.failure_types,
        generated: wire.generated.map(files).transpose()?,
    })
}

/// Takes the files of a drawn split that lie below the run folder, and none that would leave it.
fn files(files: Vec<File>) -> Result<Vec<Drawn>, UnpackError> {
    let damaged = |words: String| Err(UnpackError::Damaged(words));
    if files.len() > FILES_MAX {
        let n = files.len();
        return damaged(format!(
            "it draws {n} files, at most {FILES_MAX} are allowed"
        ));
    }
    if files.iter().map(|file| file.text.len()).sum::<usize>() > FILE_BYTES_MAX {
        return damaged(format!(
            "its drawn files have more than {FILE_BYTES_MAX} bytes"
        ));
    }
    let below: Vec<File> = files.into_iter().filter(|file| file.is_below).collect();
    if let Some(file) = below.iter().find(|file| !is_inside(&file.path)) {
        return damaged(format!(
            "the path `{}` of a drawn file leaves the run folder",
            file.path.display()
        ));
    }
    let parts = |file: File| (file.path, Arc::from(file.text.into_bytes()));
    Ok(below.into_iter().map(parts).collect())
}

/// Returns whether a path stays below any folder that it is put into.
fn is_inside(path: &Path) -> bool {
    let is_normal = |part| matches!(part, Component::Normal(_));
    !path.as_os_str().is_empty() && path.components().all(is_normal)
}

fn samples(values: Vec<Value>) -> Result<Vec<Sample>, UnpackError> {
    let sample = |value: Value| {
        let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = id.ok_or_else(|| UnpackError::Damaged("an item has no `id`".to_owned()))?;
        Ok(Sample::new(Item { id, value }))
    };
    values.into_iter().map(sample).collect()
}

impl Suite {
    /// Returns what a run reads, with files of a drawn split below `out_root`.
    pub(super) fn inputs(
        &self,
        root: &Root,
        initial: Folder,
        out_root: &str,
    ) -> Result<Inputs, UnpackError> {
        let prompts = prompts::Set::with_overrides(&root.prompts, &Default::default())
            .map_err(|e| UnpackError::Damaged(e.to_string()))?;
        let place = |(path, bytes): &(PathBuf, Arc<[u8]>)| {
            (Path::new(out_root).join(path), Arc::clone(bytes))
        };
        let files = self.generated.as_ref();
        Ok(Inputs {
            benchmark: self.benchmark.clone(),
            benchmark_version: self.here().unwrap_or_default().to_owned(),
            title: self.title.clone(),
            samples: self.samples.clone(),
            generated: files.map(|f| Generated::from_files(f.iter().map(place).collect())),
            settings: Arc::clone(&self.settings),
            task_types: self.task_types.clone(),
            failure_types: self.failure_types.clone(),
            initial,
            prompts,
            payers: root.payers.clone(),
        })
    }

    /// Returns the version of the benchmark in this program, if it has it.
    fn here(&self) -> Option<&'static str> {
        let found = registry::find(&self.benchmark).ok()?;
        Some(found.version())
    }

    /// Says why a run of this suite may have another name here.
    pub(super) fn difference(&self) -> String {
        let (name, theirs) = (&self.benchmark, &self.benchmark_version);
        match self.here() {
            None => format!("benchmark `{name}` is not in this release"),
            Some(ours) if ours != theirs => {
                format!("benchmark `{name}` had version {theirs}, and has {ours} here")
            }
            Some(_) => "its settings are read otherwise".to_owned(),
        }
    }
}

/// Suites that some run has in memory, by address: a suite is there once, however many runs use it.
#[derive(Default)]
pub struct Suites {
    // Held while a suite is read, so that no two runs read one at the same time.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    used: HashMap<Hash, Weak<Suite>>,
    /// The last one that was read, unless it is large: a run that has ended is fetched next.
    last: Option<Arc<Suite>>,
}

impl Suites {
    /// Returns a suite, reading it if no run has it.
    pub(super) async fn get(
        &self,
        store: &dyn Store,
        hash: Hash,
    ) -> Result<Arc<Suite>, UnpackError> {
        let mut known = self.known.lock().await;
        if let Some(suite) = known.used.get(&hash).and_then(Weak::upgrade) {
            return Ok(suite);
        }
        known.last = None;
        let bytes = store.blobs(&[hash]).await?.pop().flatten();
        let bytes = bytes.ok_or(UnpackError::Missing(hash))?;
        let packed = bytes.len();
        // Megabytes of JSON would hold up the async threads.
        let read = tokio::task::spawn_blocking(move || decode(&bytes));
        let suite = read
            .await
            .map_err(|e| UnpackError::Damaged(e.to_string()))?;
        let suite = Arc::new(suite?);
        known.last = (packed <= KEPT_BYTES_MAX).then(|| Arc::clone(&suite));
        known.used.retain(|_, suite| suite.strong_count() > 0);
        known.used.insert(hash, Arc::downgrade(&suite));
        Ok(suite)
    }
}
