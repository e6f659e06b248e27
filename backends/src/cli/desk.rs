//! The folder in which a program works: gone when the exchange is over.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::CallError;

/// A folder of its own for one exchange.
pub(crate) struct Desk {
    root: TempDir,
}

impl Desk {
    /// Makes the folder.
    pub(crate) fn new(endpoint: &str) -> Result<Self, CallError> {
        let made = TempDir::with_prefix("skillopt-").and_then(|root| {
            for folder in ["home", "work", "tmp", "files"] {
                std::fs::create_dir(root.path().join(folder))?;
            }
            Ok(Self { root })
        });
        made.map_err(|e| unusable(endpoint, &e))
    }

    /// The program's home.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The folder it runs in; empty.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The folder for what it does not keep.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    /// A file that goes along with the prompt.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.path().join("files").join(name)
    }

    /// Writes a file that goes along with the prompt.
    pub(crate) fn write(
        &self,
        name: &str,
        content: impl AsRef<[u8]>,
        endpoint: &str,
    ) -> Result<PathBuf, CallError> {
        let path = self.file(name);
        std::fs::write(&path, content).map_err(|e| unusable(endpoint, &e))?;
        Ok(path)
    }

    /// Writes a file in the home.
    pub(crate) fn write_home(
        &self,
        path: &str,
        content: impl AsRef<[u8]>,
        endpoint: &str,
    ) -> Result<PathBuf, CallError> {
        let path = self.home().join(path);
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = folder.and_then(|()| std::fs::write(&path, content));
        written.map_err(|e| unusable(endpoint, &e))?;
        Ok(path)
    }

    /// Returns the environment of a program: what it may see of ours, its folders, and what it is told
    /// of its own settings.
    pub(crate) fn env<'a>(
        &self,
        general: &[(String, String)],
        own: impl IntoIterator<Item = (&'a str, OsString)>,
    ) -> Vec<(String, OsString)> {
        let general = general.iter();
        let general = general.map(|(name, value)| (name.clone(), OsString::from(value)));
        let folders = [
            ("HOME", self.home().into()),
            ("TMPDIR", self.temporary().into()),
        ];
        let own = folders.into_iter().chain(own);
        let own = own.map(|(name, value)| (name.to_owned(), value));
        general.chain(own).collect()
    }

    /// Makes a folder in the home.
    pub(crate) fn home_folder(&self, name: &str, endpoint: &str) -> Result<PathBuf, CallError> {
        let path = self.home().join(name);
        std::fs::create_dir_all(&path).map_err(|e| unusable(endpoint, &e))?;
        Ok(path)
    }

    /// Lets the program see one file of the machine's user, a login: a link, since programs renew
    /// what stands in it.
    pub(crate) fn link(
        &self,
        file: Option<&Path>,
        place: &Path,
        endpoint: &str,
    ) -> Result<(), CallError> {
        match file.filter(|file| file.is_file()) {
            Some(file) => {
                std::os::unix::fs::symlink(file, place).map_err(|e| unusable(endpoint, &e))
            }
            None => Ok(()),
        }
    }
}

fn unusable(endpoint: &str, error: &io::Error) -> CallError {
    CallError::Connection {
        endpoint: endpoint.to_owned(),
        detail: format!("client error (Connect): no folder for the program: {error}"),
    }
}
