//! Reading a configuration file and the files it builds on.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::flat::Flat;
use crate::node::{Data, Mapping, Node};
use crate::yaml::{self, YamlError};

/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Longest chain of `_base_` files.
pub const MAX_BASES: usize = 32;
/// The key that names the file to build on.
pub const BASE_KEY: &str = "_base_";

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is missing or unreadable.
    #[error("cannot read the configuration `{path}`: {source}")]
    Read {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// It is no configuration.
    #[error("`{path}` is larger than {MAX_FILE_BYTES} bytes; is it really a configuration?")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// It is not UTF-8, or binary.
    #[error("`{path}` is not UTF-8 text (line {line}): {reason}")]
    NotText {
        /// The file.
        path: String,
        /// 1-based line of the first fault.
        line: usize,
        /// What was found.
        reason: &'static str,
    },
    /// It is not YAML.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// Its `_base_` is not one path.
    #[error("{at}: `_base_` takes one path as text, not {value}")]
    BaseKind {
        /// File, line and column.
        at: String,
        /// What stands there.
        value: String,
    },
    /// The file named by `_base_` is missing or unreadable.
    #[error("{at}: cannot read `_base_: {base}` (looked for `{path}`): {source}")]
    Base {
        /// File, line and column of the key.
        at: String,
        /// As written.
        base: String,
        /// As understood: relative to the file's folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A configuration that another file names is missing or unreadable.
    #[error("{at}: cannot read the configuration `{path}`: {source}")]
    Named {
        /// File, line and column of the name.
        at: String,
        /// As understood: relative to the file's folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A file builds on itself.
    #[error("`_base_` goes in a circle: {}", chain.join(" -> "))]
    Cycle {
        /// The files, the repeated one last.
        chain: Vec<String>,
    },
    /// Too many files build on each other.
    #[error("more than {MAX_BASES} files build on each other, the last one is `{path}`")]
    TooDeep {
        /// The file that was one too many.
        path: String,
    },
}

/// Reads a file with all it builds on.
///
/// # Errors
/// See [`LoadError`]. Unknown keys are no error here; see [`Flat::unknown`].
pub fn load(path: &Path) -> Result<Flat, LoadError> {
    let mut layers = Vec::new();
    let mut seen: Vec<(PathBuf, String)> = Vec::new();
    let mut next = Some((path.to_path_buf(), None::<Node>));
    while let Some((path, named_by)) = next.take() {
        let shown = path.display().to_string();
        let identity = std::fs::canonicalize(&path)
            .map_err(|source| missing(&shown, named_by.as_ref(), source))?;
        let again = seen.iter().any(|(id, _)| *id == identity);
        seen.push((identity, shown.clone()));
        if again {
            let chain = seen.into_iter().map(|(_, shown)| shown).collect();
            return Err(LoadError::Cycle { chain });
        }
        if seen.len() > MAX_BASES {
            return Err(LoadError::TooDeep { path: shown });
        }
        let mut layer = read_layer(&path, &shown)?;
        if let Some(base) = layer.remove(BASE_KEY) {
            let folder = path.parent().unwrap_or_else(|| Path::new(""));
            let target = base_path(&base)?;
            next = Some((tidy(&folder.join(target)), Some(base)));
        }
        layers.push(layer);
    }
    Ok(layers
        .into_iter()
        .rev()
        .map(Flat::from_layer)
        .reduce(Flat::overlaid)
        .unwrap_or_default())
}

fn missing(shown: &str, named_by: Option<&Node>, source: std::io::Error) -> LoadError {
    match named_by {
        None => LoadError::Read {
            path: shown.to_owned(),
            source,
        },
        Some(node) => LoadError::Base {
            at: node.origin.to_string(),
            base: node.as_text().unwrap_or_default().to_owned(),
            path: shown.to_owned(),
            source,
        },
    }
}

fn base_path(node: &Node) -> Result<&str, LoadError> {
    match &node.data {
        Data::Text(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(LoadError::BaseKind {
            at: node.origin.to_string(),
            value: node.show(),
        }),
    }
}

/// Removes `.` and resolves `..` after a name, so that messages show a readable path.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_)))
                    && !out.is_symlink() =>
            {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Reads one file without what it builds on.
pub(crate) fn read_layer(path: &Path, shown: &str) -> Result<Mapping, LoadError> {
    let read_error = |source| LoadError::Read {
        path: shown.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(read_error)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge {
            path: shown.to_owned(),
        });
    }
    let text = as_text(&bytes).map_err(|(at, reason)| LoadError::NotText {
        path: shown.to_owned(),
        line: 1 + bytes.iter().take(at).filter(|b| **b == b'\n').count(),
        reason,
    })?;
    Ok(yaml::parse(text, shown)?)
}

/// Returns the text, or where it stops being text and why.
fn as_text(bytes: &[u8]) -> Result<&str, (usize, &'static str)> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err((0, "it looks like UTF-16; save it as UTF-8"));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|e| (e.valid_up_to(), "a byte that is not part of a character"))?;
    match text.find('\0') {
        Some(at) => Err((at, "a NUL character, as in a binary file")),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temporary folder");
        for (name, content) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, content).expect("file");
        }
        dir
    }

    #[test]
    fn faults() {
        let big = vec![b'#'; MAX_FILE_BYTES as usize + 1];
        for (files, want) in [
            (vec![], "cannot read"),
            (vec![("a.yaml", b"_base_: a.yaml".as_slice())], "circle"),
            (
                vec![("a.yaml", b"\n_base_: no.yaml".as_slice())],
                "a.yaml:2:9",
            ),
            (vec![("a.yaml", b"_base_: [x]".as_slice())], "one path"),
            (vec![("a.yaml", b"_base_:".as_slice())], "one path"),
            (vec![("a.yaml", b"a: 1\nb: \xff\xfe".as_slice())], "line 2"),
            (vec![("a.yaml", b"\xff\xfea\0".as_slice())], "UTF-16"),
            (vec![("a.yaml", b"a: \0".as_slice())], "NUL"),
            (vec![("a.yaml", b"a: [".as_slice())], "not valid YAML"),
            (vec![("a.yaml", big.as_slice())], "larger"),
            (vec![("a.yaml/x", b"".as_slice())], "cannot read"),
        ] {
            let dir = folder(&files);
            let error = load(&dir.path().join("a.yaml"))
                .expect_err(want)
                .to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn the_env_section_survives_inheritance() {
        let dir = folder(&[
            (
                "b/base.yaml",
                b"train: {seed: 1}\nenv: {name: x, workers: 8, own: {p: 1, q: 2}}\n",
            ),
            (
                "a.yaml",
                b"_base_: b/base.yaml\nenv: {name: y, own: {q: 3}}\n",
            ),
        ]);
        let flat = load(&dir.path().join("a.yaml")).expect("loads");
        assert_eq!(
            serde_json::Value::Object(flat.to_json_unredacted()),
            serde_json::json!({"seed": 1, "env": "y", "workers": 8, "own": {"p": 1, "q": 3}})
        );
    }
}
