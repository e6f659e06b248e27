//! The folder in which an agent does its task, put together file by file.
//!
//! Nothing is linked and nothing is mounted: what an agent may read lies in its folder, and what it
//! changes there changes nothing else. Paths of the machine are told to nobody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use skillopt_backends::Workspace;

use super::{TASK_FILE, skill_document};

/// Folder of the pictures and other files that come with a task.
const ATTACHMENTS: &str = "attachments";
/// Lists them.
const ATTACHMENTS_LIST: &str = "ATTACHMENTS.md";
/// Most bytes of a folder that is copied.
const FOLDER_MAX: u64 = 256 * 1024 * 1024;

/// A file that cannot be put into the folder.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`, which belongs to the task, {why}")]
pub struct DeskError {
    path: String,
    why: String,
}

/// A folder in the making.
#[derive(Clone, Debug)]
pub struct Desk(Workspace);

impl Desk {
    /// Begins a folder with a skill; `about` says in one line what the skill is for.
    #[must_use]
    pub fn new(skill: &str, about: &str, skill_files: &BTreeMap<String, String>) -> Self {
        Self(Workspace {
            skill: skill_document(skill, about),
            skill_files: skill_files.clone(),
            ..Workspace::default()
        })
    }

    /// Puts the task down, unless it is blank.
    #[must_use]
    pub fn task(self, text: &str) -> Self {
        if text.trim().is_empty() {
            return self;
        }
        self.file(TASK_FILE, text)
    }

    /// Adds a file.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.0.files.insert(path.to_owned(), content.into());
        self
    }

    /// Adds a copy of a file of this machine.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn copy(self, from: &Path, to: &str) -> Result<Self, DeskError> {
        let bytes = std::fs::read(from).map_err(|e| unread(from, &e))?;
        Ok(self.file(to, bytes))
    }

    /// Adds a copy of a folder of this machine, without what its links lead to.
    ///
    /// # Errors
    /// It cannot be read, or is too large to be copied.
    pub fn copy_folder(mut self, from: &Path, to: &str) -> Result<Self, DeskError> {
        let mut left = FOLDER_MAX;
        let mut open = vec![(from.to_path_buf(), to.to_owned())];
        while let Some((folder, below)) = open.pop() {
            let listed = std::fs::read_dir(&folder).map_err(|e| unread(&folder, &e))?;
            for entry in listed {
                let entry = entry.map_err(|e| unread(&folder, &e))?;
                let kind = entry.file_type().map_err(|e| unread(&entry.path(), &e))?;
                let to = format!("{below}/{}", entry.file_name().to_string_lossy());
                if kind.is_dir() {
                    open.push((entry.path(), to));
                } else if kind.is_file() {
                    let bytes = entry.metadata().map_or(0, |meta| meta.len());
                    left = left.checked_sub(bytes).ok_or_else(|| DeskError {
                        path: from.display().to_string(),
                        why: format!("has more than {FOLDER_MAX} bytes"),
                    })?;
                    self = self.copy(&entry.path(), &to)?;
                }
            }
        }
        Ok(self)
    }

    /// Adds pictures and the like, and a list of them. They are numbered, for names may be equal.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn attach(mut self, files: &[PathBuf]) -> Result<Self, DeskError> {
        if files.is_empty() {
            return Ok(self);
        }
        let mut list =
            "# Files of the task\n\nWhere the task speaks of a picture, a page or an attached \
                        file, it is one of these:\n\n"
                .to_owned();
        for (at, file) in files.iter().enumerate() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{ATTACHMENTS}/{:02}_{name}", at + 1);
            list.push_str(&format!("- `{path}`\n"));
            self = self.copy(file, &path)?;
        }
        Ok(self.file(ATTACHMENTS_LIST, list))
    }

    /// Names files that are wanted back.
    #[must_use]
    pub fn wants(mut self, patterns: &[&str]) -> Self {
        let patterns = patterns.iter().map(|pattern| (*pattern).to_owned());
        self.0.collect.extend(patterns);
        self
    }

    /// Returns the folder.
    #[must_use]
    pub fn into_workspace(self) -> Workspace {
        self.0
    }
}

fn unread(path: &Path, error: &std::io::Error) -> DeskError {
    DeskError {
        path: path.display().to_string(),
        why: format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_are_numbered_and_do_not_say_where_they_come_from() {
        let dir = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = ["i", "j"]
            .iter()
            .map(|folder| {
                let folder = dir.path().join(folder);
                std::fs::create_dir(&folder).unwrap();
                std::fs::write(folder.join("a.png"), folder.to_str().unwrap()).unwrap();
                folder.join("a.png")
            })
            .collect();
        let desk = Desk::new("S", "about", &BTreeMap::new()).task("T");
        let made = desk.clone().attach(&files).unwrap().into_workspace();
        let list = String::from_utf8_lossy(&made.files[ATTACHMENTS_LIST]).into_owned();
        for path in ["attachments/01_a.png", "attachments/02_a.png"] {
            assert!(
                made.files.contains_key(path) && list.contains(path),
                "{list}"
            );
        }
        assert!(!list.contains(dir.path().to_str().unwrap()), "{list}");
        let missing = [dir.path().join("none.png")];
        let error = desk.clone().attach(&missing).unwrap_err().to_string();
        assert!(error.contains("none.png"), "{error}");
        let whole = desk
            .copy_folder(dir.path(), "docs")
            .unwrap()
            .into_workspace();
        assert!(whole.files.contains_key("docs/i/a.png"));
        assert!(whole.files.contains_key(TASK_FILE));
    }
}
