//! Reads what a user names: the skill to start from, prompt overrides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use skillopt_benchmarks::{AnalystPrompts, registry};
use skillopt_core::skill::Folder;
use skillopt_core::skill::folder::{DOCUMENT, FolderError};
use skillopt_core::stages::prompts;
use skillopt_core::text;
use skillopt_core::update_mode::UnknownName;
use skillopt_runtime::files::{self, FileError};

/// Largest `SKILL.md`, in bytes. A skill is read by a model in every call; a hundredth of this is
/// a long one.
pub const SKILL_BYTES_MAX: u64 = 1 << 20;
/// Largest skill folder, in bytes, all files together.
pub const FOLDER_BYTES_MAX: u64 = 16 << 20;
/// Most files of a skill folder.
pub const FOLDER_FILES_MAX: usize = 1_000;

/// Why an input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no such skill.
    #[error("the skill `{}` does not exist; check `env.skill_init`, or set `env.allow_missing_skill_init: true` to start blank", .0.display())]
    MissingSkill(PathBuf),
    /// A folder without a document.
    #[error("the skill folder `{}` has no `{DOCUMENT}`", .0.display())]
    NoDocument(PathBuf),
    /// Not text.
    #[error("`{}` is not UTF-8 text (byte {at}); a skill is a Markdown file", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Too large.
    #[error("`{}` is too large: {what}", path.display())]
    TooLarge {
        /// The file or folder.
        path: PathBuf,
        /// Size and limit.
        what: String,
    },
    /// A link inside a skill folder, which could lead anywhere.
    #[error("`{}` is a link; copy the file into the skill folder", .0.display())]
    Link(PathBuf),
    /// A file name that is no text.
    #[error("the name of `{}` is not UTF-8; rename the file", .0.display())]
    Unnamed(PathBuf),
    /// A name inside a skill folder that could not be written back everywhere.
    #[error(transparent)]
    Name(#[from] FolderError),
    /// A prompt file that replaces nothing.
    #[error("`{}`: {source}", path.display())]
    Prompt {
        /// The file.
        path: PathBuf,
        /// The nearest name.
        source: UnknownName,
    },
}

/// Reads a skill: a Markdown file, or a folder with `SKILL.md` and what it brings. An empty path
/// is the blank skill; a missing one is an error unless `allow_missing` (D1).
///
/// # Errors
/// See [`InputError`].
pub fn skill(path: &str, allow_missing: bool) -> Result<Folder, InputError> {
    if path.trim().is_empty() {
        return Ok(Folder::default());
    }
    let path = Path::new(path);
    if !path.exists() {
        if allow_missing {
            return Ok(Folder::default());
        }
        return Err(InputError::MissingSkill(path.to_owned()));
    }
    if path.is_dir() {
        folder(path)
    } else {
        Ok(Folder::of_document(document(path)?))
    }
}

fn document(path: &Path) -> Result<String, InputError> {
    let size = std::fs::metadata(path)
        .map_err(|e| FileError::new("read", path, e))?
        .len();
    if size > SKILL_BYTES_MAX {
        let what = format!("{size} bytes, the limit for a skill is {SKILL_BYTES_MAX}");
        return Err(InputError::TooLarge {
            path: path.to_owned(),
            what,
        });
    }
    let bytes = files::read_limited(path, SKILL_BYTES_MAX)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let not_text = |at| InputError::NotText {
        path: path.to_owned(),
        at,
    };
    let document = std::str::from_utf8(bytes).map_err(|e| not_text(e.valid_up_to()))?;
    if let Some(at) = document.find('\0') {
        return Err(not_text(at));
    }
    Ok(text::universal_newlines(document))
}

fn folder(root: &Path) -> Result<Folder, InputError> {
    let path = root.join(DOCUMENT);
    if !path.is_file() {
        return Err(InputError::NoDocument(root.to_owned()));
    }
    let mut folder = Folder::of_document(document(&path)?);
    let mut total = 0;
    for path in list(root)? {
        if path == root.join(DOCUMENT) {
            continue;
        }
        let bytes = files::read_limited(&path, FOLDER_BYTES_MAX)?;
        total += bytes.len() as u64;
        if total > FOLDER_BYTES_MAX {
            let what = format!("more than {FOLDER_BYTES_MAX} bytes in all");
            return Err(InputError::TooLarge {
                path: root.to_owned(),
                what,
            });
        }
        let name = path.strip_prefix(root).unwrap_or(&path);
        let parts: Vec<String> = name
            .components()
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect();
        folder.insert(&parts.join("/"), bytes)?;
    }
    Ok(folder)
}

/// Lists the files below a folder in name order; hidden ones (`.git`, `.DS_Store`) are left out.
fn list(root: &Path) -> Result<Vec<PathBuf>, InputError> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let error = |e| FileError::new("read", &folder, e);
        for entry in std::fs::read_dir(&folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let kind = entry.file_type().map_err(error)?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_symlink() {
                return Err(InputError::Link(entry.path()));
            }
            if entry.file_name().to_str().is_none() {
                return Err(InputError::Unnamed(entry.path()));
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
            if files.len() > FOLDER_FILES_MAX {
                let what = format!("more than {FOLDER_FILES_MAX} files");
                return Err(InputError::TooLarge {
                    path: root.to_owned(),
                    what,
                });
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Gathers prompt overrides, the later winning: the benchmark's own analyst prompts,
/// `DIR/<name>.md`, `DIR/<benchmark>/<name>.md`. An empty path means no folder.
///
/// # Errors
/// See [`InputError`]; a file that replaces nothing and a folder that is no benchmark's are errors
/// that name the nearest.
pub fn prompts(
    dir: &str,
    benchmark: &str,
    own: &AnalystPrompts,
) -> Result<prompts::Set, InputError> {
    let mut texts = BTreeMap::new();
    let analysts = [
        ("analyst_error", &own.error),
        ("analyst_success", &own.success),
    ];
    for (name, text) in analysts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.as_ref()?)))
    {
        texts.insert(name.to_owned(), text.clone());
    }
    let dir = dir.trim();
    if !dir.is_empty() {
        let mut benchmarks = registry::names();
        benchmarks.extend(registry::LATER);
        texts.extend(templates(Path::new(dir), &benchmarks)?);
        let narrower = Path::new(dir).join(benchmark);
        if narrower.is_dir() {
            texts.extend(templates(&narrower, &[])?);
        }
    }
    prompts::Set::with_overrides(&texts, &BTreeMap::new()).map_err(|source| InputError::Prompt {
        path: dir.into(),
        source,
    })
}

/// Reads the templates of a folder. Everything in it must be one, or a folder named like one of
/// `benchmarks`; hidden files and a `README.md` are nobody's business.
fn templates(dir: &Path, benchmarks: &[&str]) -> Result<BTreeMap<String, String>, InputError> {
    let error = |e| FileError::new("read", dir, e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(error)? {
        paths.push(entry.map_err(error)?.path());
    }
    // So that the first of several wrong ones is always the same.
    paths.sort();
    let mut found = BTreeMap::new();
    for path in paths {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with('.') || file == "README.md" {
            continue;
        }
        let wrong = |what, name: &str, expected: &[&str]| InputError::Prompt {
            path: path.clone(),
            source: UnknownName::new(what, name, expected),
        };
        // A benchmark's own folder has no further ones.
        if path.is_dir() && !benchmarks.is_empty() {
            if !benchmarks.contains(&file.as_ref()) {
                return Err(wrong("folder of a benchmark's prompts", &file, benchmarks));
            }
            continue;
        }
        let names = prompts::Set::names();
        match file.strip_suffix(".md") {
            Some(name) if names.contains(&name) => {
                found.insert(name.to_owned(), document(&path)?);
            }
            Some(name) => return Err(wrong("prompt template", name, &names)),
            None => {
                let files: Vec<String> = names.iter().map(|name| format!("{name}.md")).collect();
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                return Err(wrong("prompt file", &file, &files));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("skill.md");
        std::fs::write(&path, bytes).unwrap();
        let seen = match skill(path.to_str().unwrap(), false) {
            Ok(folder) => folder.document,
            Err(e) => e.to_string(),
        };
        assert!(seen.contains(expected), "{seen}");
    }

    #[test]
    fn a_skill_is_text_of_a_sane_size() {
        check(b"\xef\xbb\xbf# A\r\n\rb\n", "# A\n\nb\n");
        check(b"", "");
        check(b"# A\n\xff\xfe", "byte 4");
        check(b"MZ\0\0", "not UTF-8 text");
        check(&vec![b'a'; (SKILL_BYTES_MAX + 1) as usize], "too large");
    }

    #[test]
    fn a_missing_skill_is_an_error_unless_allowed() {
        assert!(
            skill("no/such/skill.md", false)
                .unwrap_err()
                .to_string()
                .contains("no/such/skill.md")
        );
        assert_eq!(skill("no/such/skill.md", true).unwrap(), Folder::default());
        assert_eq!(skill(" ", false).unwrap(), Folder::default());
    }

    #[test]
    fn a_folder_brings_its_files_and_must_have_a_document() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap().to_owned();
        assert!(matches!(
            skill(&path, false),
            Err(InputError::NoDocument(_))
        ));
        std::fs::write(dir.path().join("SKILL.md"), "# A\n").unwrap();
        std::fs::create_dir(dir.path().join("scripts")).unwrap();
        std::fs::write(dir.path().join("scripts/run.py"), "print(1)\n").unwrap();
        std::fs::write(dir.path().join(".DS_Store"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/hosts", dir.path().join("link")).unwrap();
        assert!(matches!(skill(&path, false), Err(InputError::Link(_))));
        std::fs::remove_file(dir.path().join("link")).unwrap();
        let folder = skill(&path, false).unwrap();
        assert_eq!(folder.document, "# A\n");
        assert_eq!(
            folder.files().keys().collect::<Vec<_>>(),
            ["scripts/run.py"]
        );
    }

    #[test]
    fn prompt_overrides_must_replace_something() {
        for (file, want) in [
            ("ranking.md", ""),
            ("README.md", ""),
            (".DS_Store", ""),
            ("searchqa/ranking.md", ""),
            ("searchqa/README.md", ""),
            // Another benchmark's, also one of a later release.
            ("custom/ranking.md", ""),
            ("alfworld/ranking.md", ""),
            ("rankin.md", "`ranking`?"),
            ("ranking.txt", "`ranking.md`?"),
            ("serchqa/ranking.md", "`searchqa`?"),
            ("searchqa/rankin.md", "`ranking`?"),
            ("searchqa/searchqa/ranking.md", "searchqa/searchqa"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            let dir = dir.path().to_str().unwrap();
            match prompts(dir, "searchqa", &AnalystPrompts::default()) {
                Ok(set) => {
                    assert_eq!(want, "", "{file}");
                    let mine = matches!(file, "ranking.md" | "searchqa/ranking.md");
                    assert_eq!(set.get("ranking") == "x", mine, "{file}");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(!want.is_empty() && text.contains(want), "{file}: {text}");
                }
            }
        }
    }
}
