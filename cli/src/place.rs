//! Where a run goes if nobody said so: on where the same run was stopped, or to a new folder.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use skillopt_config::RunConfig;
use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::prepare::Prepared;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::found;
use crate::output::Out;
use crate::process;

/// Folder of run folders that nobody named.
const BELOW: &str = "outputs";
/// Folders with one time stamp.
const SAME_STAMP_MAX: u32 = 1_000;

/// A run that knows its folder.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) prepared: Prepared,
    /// What a later command must add to find the folder again.
    pub(crate) extra: Vec<String>,
    /// Taken away again if nothing was begun in it.
    _new: Option<Taken>,
}

impl Placed {
    /// A run without a folder on this machine.
    pub(crate) const fn nowhere(prepared: Prepared) -> Self {
        Self {
            prepared,
            extra: Vec::new(),
            _new: None,
        }
    }
}

/// A new folder, which goes when it is still empty at the end.
#[derive(Debug)]
struct Taken(PathBuf);

impl Drop for Taken {
    fn drop(&mut self) {
        // Refused for a folder with something in it, as is wanted.
        drop(std::fs::remove_dir(&self.0));
    }
}

/// Prepares a run in the folder that was named, or chooses one: the newest of its `name` in which
/// this very run is not over, or else a new one.
///
/// # Errors
/// The run cannot be prepared, or the folder is not ours.
pub(crate) fn place(
    config: &mut RunConfig,
    name: &str,
    out: &Out,
    prepare: impl Fn(&RunConfig) -> Result<Prepared, Failure>,
) -> Result<Placed, Failure> {
    if !config.out_root.trim().is_empty() {
        RunFolder::new(&config.out_root).check_is_ours()?;
        return Ok(Placed {
            prepared: prepare(config)?,
            extra: Vec::new(),
            _new: None,
        });
    }
    let prefix = format!("{}_", name.replace('/', "-"));
    let first = format!("{prefix}{}", process::stamp());
    config.out_root = format!("{BELOW}/{first}");
    let mut prepared = prepare(config)?;
    let run = prepared.common.run.as_str();
    let new = match unfinished(Path::new(BELOW), &prefix, run) {
        Some(dir) => {
            out.chat(format!(
                "going on with `{}`; use --out for a new run",
                dir.display()
            ));
            config.out_root = dir.display().to_string();
            None
        }
        None => {
            let dir = take(Path::new(BELOW), &first)?;
            config.out_root = dir.display().to_string();
            Some(Taken(dir))
        }
    };
    if config.out_root != format!("{BELOW}/{first}") {
        // A split that is drawn is written below the run folder.
        prepared = prepare(config)?;
    }
    Ok(Placed {
        prepared,
        extra: vec!["--out".to_owned(), config.out_root.clone()],
        _new: new,
    })
}

/// Makes the first folder of `name`, `name-2`, … that is free; two programs never get the same.
fn take(below: &Path, name: &str) -> Result<PathBuf, Failure> {
    let cannot = |path: &Path, e: std::io::Error| {
        Failure::usage(format!("cannot create `{}`: {e}", path.display()))
            .hint("choose a folder with --out")
    };
    std::fs::create_dir_all(below).map_err(|e| cannot(below, e))?;
    for n in 1..=SAME_STAMP_MAX {
        let path = match n {
            1 => below.join(name),
            n => below.join(format!("{name}-{n}")),
        };
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(cannot(&path, e)),
        }
    }
    let words = format!("`{}` is full of runs", below.display());
    Err(Failure::new(Exit::Usage, words).hint("choose a folder with --out"))
}

/// Returns the newest folder `prefix…` in which `run` was begun, is not over, and nobody works.
fn unfinished(below: &Path, prefix: &str, run: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(below).ok()?;
    let mut dirs: Vec<((String, u32), PathBuf)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name();
            let stamp = stamped(name.to_str()?.strip_prefix(prefix)?)?;
            Some((stamp, below.join(name)))
        })
        .collect();
    dirs.sort_unstable();
    let mut newest_first = dirs.into_iter().rev().map(|(_, dir)| dir);
    newest_first.find(|dir| found::can_go_on(&RunFolder::new(dir), run))
}

/// Reads `YYYYmmdd_HHMMSS` and `YYYYmmdd_HHMMSS-N`; other names are none of ours.
fn stamped(rest: &str) -> Option<(String, u32)> {
    let (stamp, n) = match rest.split_once('-') {
        Some((stamp, n)) => (stamp, n.parse().ok()?),
        None => (rest, 1),
    };
    let is_stamp = stamp.len() == 15
        && stamp.char_indices().all(|(i, c)| match i {
            8 => c == '_',
            _ => c.is_ascii_digit(),
        });
    is_stamp.then(|| (stamp.to_owned(), n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        for (rest, want) in [
            ("20260102_030405", Some(("20260102_030405", 1))),
            ("20260102_030405-12", Some(("20260102_030405", 12))),
            ("20260102_030405-x", None),
            ("mini_20260102_030405", None),
            ("20260102-030405", None),
            ("", None),
        ] {
            let want = want.map(|(stamp, n)| (stamp.to_owned(), n));
            assert_eq!(stamped(rest), want, "{rest}");
        }
    }

    #[test]
    fn folders_of_one_second_are_numbered() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("outputs");
        for want in ["a_1", "a_1-2", "a_1-3"] {
            assert_eq!(take(&below, "a_1").unwrap(), below.join(want));
        }
        drop(Taken(below.join("a_1-2")));
        assert!(!below.join("a_1-2").exists(), "it was empty");
        std::fs::write(below.join("a_1/x"), "").unwrap();
        drop(Taken(below.join("a_1")));
        assert!(below.join("a_1").exists());
    }
}
