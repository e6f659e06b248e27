//! The files of a run folder, one after the other.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::Stream;
use skillopt_proto::v1::{DownloadRequest, DownloadResponse};
use tonic::Status;

use super::super::error::Error;
use super::super::folders::{Export, Folders, Shown};
use super::super::live::Live;
use super::super::record::RunRecord;
use super::super::rows::state_words;
use super::Desk;
use crate::folder::PRIVATE;

/// Bytes of one message.
const CHUNK: usize = 1 << 20;
/// Our own files that belong to the run and not to the coordinator.
const OWN: &[&str] = &["run.json", "status.json", "fresh"];

/// A file on its way.
struct Part {
    /// Path below the run folder, with `/`.
    name: String,
    path: PathBuf,
}

struct Files {
    left: VecDeque<Part>,
    open: Option<(Part, File, bool)>,
    /// Whether the run was at work here when its files were listed.
    is_live: bool,
    id: String,
    live: Live,
    _export: Option<Export>,
    _shown: Shown,
}

/// Returns the files of a run's folder, made again if it is not here.
pub(super) async fn files(
    desk: &Desk,
    run: &RunRecord,
    asked: &DownloadRequest,
) -> Result<impl Stream<Item = Result<DownloadResponse, Status>> + Send + use<>, Error> {
    let shown = desk.folders.restore(run, &desk.live).await?;
    let is_live = desk.live.get(&run.id).is_some();
    let folder = shown.folder();
    let words = state_words(run);
    Folders::write_status(folder, &words, &run.cause).map_err(|e| io(&e))?;
    let mut left = VecDeque::new();
    list(folder.root(), &mut left).map_err(|e| io(&e))?;
    let export = if asked.with_store {
        let export = desk.folders.export(run).await?;
        left.extend(stores(&export.path()).map_err(|e| io(&e))?);
        Some(export)
    } else {
        None
    };
    let only = &asked.only;
    left.retain(|part| only.is_empty() || only.iter().any(|begin| part.name.starts_with(begin)));
    let files = Files {
        left,
        open: None,
        is_live,
        id: run.id.clone(),
        live: desk.live.clone(),
        _export: export,
        _shown: shown,
    };
    Ok(futures_util::stream::unfold(Some(files), |files| async {
        let mut files = files?;
        // Disks are slow for an async thread.
        let read = tokio::task::spawn_blocking(move || {
            let part = files.next();
            (part, files)
        });
        match read.await {
            Ok((Ok(Some(part)), files)) => Some((Ok(part), Some(files))),
            Ok((Ok(None), _)) => None,
            Ok((Err(error), _)) => Some((Err(io(&error).into()), None)),
            Err(error) => Some((Err(Error::Internal(error.to_string()).into()), None)),
        }
    }))
}

/// Returns the messages for files that are in memory.
pub(super) fn parts(
    files: Vec<(&'static str, Vec<u8>)>,
    only: &[String],
) -> Vec<Result<DownloadResponse, Status>> {
    let is_asked =
        |name: &str| only.is_empty() || only.iter().any(|begin| name.starts_with(begin.as_str()));
    let mut messages = Vec::new();
    for (name, bytes) in files.into_iter().filter(|(name, _)| is_asked(name)) {
        let bytes = Bytes::from(bytes);
        let mut at = 0;
        loop {
            let end = bytes.len().min(at + CHUNK);
            let last = end == bytes.len();
            messages.push(Ok(DownloadResponse {
                path: if at == 0 {
                    name.to_owned()
                } else {
                    String::new()
                },
                chunk: bytes.slice(at..end).into(),
                last,
            }));
            if last {
                break;
            }
            at = end;
        }
    }
    messages
}

fn io(error: &dyn std::fmt::Display) -> Error {
    Error::Unavailable(format!("the run folder cannot be read: {error}; ask again"))
}

/// Lists the files of a folder in the order of their paths.
fn list(root: &Path, found: &mut VecDeque<Part>) -> std::io::Result<()> {
    let mut parts = Vec::new();
    let mut folders = vec![(root.to_owned(), String::new())];
    while let Some((folder, below)) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let file = entry.file_name().to_string_lossy().into_owned();
            let name = format!("{below}{file}");
            let is_folder = entry.file_type()?.is_dir();
            if name == PRIVATE {
                continue;
            }
            if is_folder {
                folders.push((entry.path(), format!("{name}/")));
            } else {
                let path = entry.path();
                parts.push(Part { name, path });
            }
        }
    }
    for file in OWN {
        let path = root.join(PRIVATE).join(file);
        if path.exists() {
            let name = format!("{PRIVATE}/{file}");
            parts.push(Part { name, path });
        }
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    found.extend(parts);
    Ok(())
}

/// Returns the files of a database.
fn stores(path: &Path) -> std::io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    let (Some(folder), Some(stem)) = (path.parent(), path.file_name()) else {
        return Ok(parts);
    };
    let stem = stem.to_string_lossy().into_owned();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with(&stem) && !file.ends_with("-shm") {
            let name = format!("{PRIVATE}/{file}");
            parts.push(Part {
                name,
                path: path.clone(),
            });
        }
    }
    Ok(parts)
}

impl Files {
    fn is_live(&self) -> bool {
        self.is_live || self.live.get(&self.id).is_some()
    }

    fn next(&mut self) -> std::io::Result<Option<DownloadResponse>> {
        let (part, mut file, is_first) = loop {
            if let Some(open) = self.open.take() {
                break open;
            }
            let Some(part) = self.left.pop_front() else {
                return Ok(None);
            };
            match File::open(&part.path) {
                Ok(file) => break (part, file, true),
                // A folder that is at work changes under our hands.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && self.is_live() => {}
                Err(e) => return Err(e),
            }
        };
        let mut chunk = Vec::new();
        let read = Read::by_ref(&mut file)
            .take(CHUNK as u64)
            .read_to_end(&mut chunk)?;
        let last = read < CHUNK;
        let path = if is_first {
            part.name.clone()
        } else {
            String::new()
        };
        if !last {
            self.open = Some((part, file, false));
        }
        Ok(Some(DownloadResponse {
            path,
            chunk: Bytes::from(chunk).into(),
            last,
        }))
    }
}
