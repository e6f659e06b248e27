//! Files that are either whole or absent: written aside, then renamed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file operation that failed, with the thing it happened to and what to do.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {}{}", path.display(), source, hint(source))]
pub struct FileError {
    /// What was tried: `write`, `read`, `create folder`, …
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

impl FileError {
    /// Names the thing an I/O error happened to.
    pub fn new(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self {
            action,
            path: path.into(),
            source,
        }
    }

    /// Returns whether the disk (or a quota) is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and run the same command again"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; choose a folder that you may write to"
        }
        _ => "",
    }
}

/// Writes `bytes` to `path` so that a reader sees the old file or the new one, never a part.
///
/// The file is synced before it is renamed; missing folders are created.
///
/// # Errors
/// Any step that the file system refuses; the old file then stands unchanged.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_aside(path, bytes, true)
}

/// Like [`write_atomic`], without the sync: whole after a crash of the process, though not of the
/// machine. For files that can be derived again.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_derived(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_aside(path, bytes, false)
}

fn write_aside(path: &Path, bytes: &[u8], sync: bool) -> Result<(), FileError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    let aside = folder.join(name);
    let mut file = match std::fs::File::create(&aside) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create_dir_all(folder)?;
            std::fs::File::create(&aside)
        }
        other => other,
    }
    .map_err(|e| FileError::new("write", path, e))?;
    let written = file
        .write_all(bytes)
        .and_then(|()| if sync { file.sync_data() } else { Ok(()) });
    if let Err(e) = written.and_then(|()| std::fs::rename(&aside, path)) {
        // Best effort: the error below is what matters.
        drop(std::fs::remove_file(&aside));
        return Err(FileError::new("write", path, e));
    }
    Ok(())
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// It cannot be read, or is larger.
pub fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let error = |e| FileError::new("read", path, e);
    let size = std::fs::metadata(path).map_err(error)?.len();
    if size > limit {
        let text = format!("it has {size} bytes, the limit is {limit}");
        return Err(error(io::Error::new(io::ErrorKind::InvalidInput, text)));
    }
    std::fs::read(path).map_err(error)
}

/// Creates a folder and those above it.
///
/// # Errors
/// The file system refuses.
pub fn create_dir_all(path: &Path) -> Result<(), FileError> {
    std::fs::create_dir_all(path).map_err(|e| FileError::new("create folder", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/file.txt");
        write_atomic(&path, b"old").unwrap();
        std::fs::create_dir(dir.path().join("deep/er/.file.txt.tmp")).unwrap();
        let error = write_atomic(&path, b"new").unwrap_err();
        assert!(error.to_string().contains("file.txt"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_file_over_the_limit_is_refused_by_size() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        write_derived(&path, &[0; 11]).unwrap();
        assert!(
            read_limited(&path, 10)
                .unwrap_err()
                .to_string()
                .contains("11 bytes")
        );
        assert_eq!(read_limited(&path, 11).unwrap().len(), 11);
    }
}
