//! Fetches the folder of a run or a sweep.

use std::fs::File;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use skillopt_proto::v1::{DownloadRequest, DownloadResponse};
use skillopt_runtime::files::{self, FileError};

use super::link::Remote;
use crate::exit::Exit;
use crate::failure::Failure;

/// Files that get their names together.
const TOGETHER: usize = 2_000;
/// Longest path below a folder, in bytes.
const PATH_MAX: usize = 4_096;

/// Which files of a folder to keep.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Ask for the store with all answers, too.
    pub(crate) store: bool,
    /// Beginnings of the paths that are asked for; empty for all.
    pub(crate) only: &'a [&'a str],
    /// Says which paths are kept.
    pub(crate) keep: &'a dyn Fn(&str) -> bool,
}

/// What came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Writes the files of `id` below `root`. A file is whole or not there; when the connection breaks
/// all is asked for again.
///
/// # Errors
/// Nobody answers, a refusal, or the file system refuses. *Cancel safety*: files that came are kept.
pub(crate) async fn download(
    remote: &Remote,
    id: &str,
    root: &Path,
    wanted: Wanted<'_>,
) -> Result<Fetched, Failure> {
    let mut tries = remote.tries();
    let mut furthest = Furthest::default();
    'again: loop {
        let request = DownloadRequest {
            id: id.to_owned(),
            with_store: wanted.store,
            only: wanted.only.iter().map(|path| (*path).to_owned()).collect(),
        };
        let mut stream = match remote.clients().content().download(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => {
                tries.again(&status).await?;
                continue;
            }
        };
        let mut sink = Sink::new(root, wanted);
        sink.clear_left();
        furthest.begin();
        loop {
            match stream.message().await {
                Ok(Some(part)) => {
                    // A stream that always breaks at the same place is no sign of life.
                    if furthest.is_further(&part) {
                        tries.reset();
                    }
                    sink.take(part)?;
                }
                Ok(None) => return sink.end(),
                Err(status) => {
                    tries.again(&status).await?;
                    continue 'again;
                }
            }
        }
    }
}

/// How far the furthest try came.
#[derive(Default)]
struct Furthest {
    most: u64,
    now: u64,
}

impl Furthest {
    /// Begins the next try.
    fn begin(&mut self) {
        self.now = 0;
    }

    /// Counts a part, and returns whether this try came further than all before.
    fn is_further(&mut self, part: &DownloadResponse) -> bool {
        // An empty file is something, too.
        self.now += 1 + (part.path.len() + part.chunk.len()) as u64;
        let is_further = self.now > self.most;
        self.most = self.most.max(self.now);
        is_further
    }
}

/// Writes what comes.
struct Sink<'a> {
    root: &'a Path,
    wanted: Wanted<'a>,
    /// The file under way.
    open: Option<Part>,
    /// Files that are whole, but do not have their names yet: where they lie, and where they belong.
    whole: Vec<(PathBuf, PathBuf)>,
    /// Files that were begun.
    begun: u64,
    fetched: Fetched,
}

/// Begins the name of the folder in which a process lays files aside; its number ends it.
const ASIDE: &str = "parts-";

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        // A file under way goes before its folder does.
        self.open = None;
        // What came is kept, also when the rest does not come.
        drop(self.name());
        let aside = self.aside();
        // Neither may have been made, or something else may lie there.
        let _ = std::fs::remove_dir(&aside);
        let _ = aside.parent().map(std::fs::remove_dir);
    }
}

/// Waits until files are on the disk.
#[cfg(target_os = "linux")]
fn sync(files: &[&Path]) -> std::io::Result<()> {
    // All that was written at once: thousands of small files one by one take longer than a run.
    match files.last() {
        Some(last) => Ok(nix::unistd::syncfs(File::open(last)?)?),
        None => Ok(()),
    }
}

/// Waits until files are on the disk.
#[cfg(not(target_os = "linux"))]
fn sync(files: &[&Path]) -> std::io::Result<()> {
    files
        .iter()
        .try_for_each(|file| File::open(file)?.sync_all())
}

/// A file that is not whole yet; gone if it never is.
struct Part {
    /// Nothing for a file that nobody wants.
    file: Option<(File, PathBuf, PathBuf)>,
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some((_, aside, _)) = &self.file {
            drop(std::fs::remove_file(aside));
        }
    }
}

impl<'a> Sink<'a> {
    fn new(root: &'a Path, wanted: Wanted<'a>) -> Self {
        Self {
            root,
            wanted,
            open: None,
            whole: Vec::new(),
            begun: 0,
            fetched: Fetched::default(),
        }
    }

    /// Where files lie until they have their names.
    fn aside(&self) -> PathBuf {
        let own = format!("{ASIDE}{}", std::process::id());
        self.root.join(".skillopt").join(own)
    }

    /// Removes what processes laid aside that were killed.
    fn clear_left(&self) {
        let entries = std::fs::read_dir(self.root.join(".skillopt"));
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let of = name.to_str().and_then(|name| name.strip_prefix(ASIDE));
            let of = of.and_then(|pid| pid.parse().ok());
            let is_gone = |pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH);
            if of.is_some_and(is_gone) {
                // Whoever is faster has removed it.
                drop(std::fs::remove_dir_all(entry.path()));
            }
        }
    }

    fn take(&mut self, part: DownloadResponse) -> Result<(), Failure> {
        if !part.path.is_empty() {
            if self.open.is_some() {
                return Err(nonsense("began a file before the last one ended"));
            }
            self.open = Some(self.begin(&part.path)?);
        }
        let open = self
            .open
            .as_mut()
            .ok_or_else(|| nonsense("sent a part of no file"))?;
        if let Some((file, aside, _)) = &mut open.file {
            file.write_all(&part.chunk)
                .map_err(|e| FileError::new("write", aside.clone(), e))?;
            self.fetched.bytes += part.chunk.len() as u64;
        }
        if !part.last {
            return Ok(());
        }
        if let Some((file, aside, path)) = self.open.take().and_then(|mut open| open.file.take()) {
            drop(file);
            self.whole.push((aside, path));
            self.fetched.files += 1;
            if self.whole.len() >= TOGETHER {
                self.name()?;
            }
        }
        Ok(())
    }

    /// Gives the files that are whole their names.
    fn name(&mut self) -> Result<(), Failure> {
        let whole = std::mem::take(&mut self.whole);
        // Else a power cut may leave an empty file under the name of a whole one.
        let written: Vec<&Path> = whole.iter().map(|(aside, _)| aside.as_path()).collect();
        let mut named = sync(&written).map_err(|e| FileError::new("write", self.root, e).into());
        let is_written = named.is_ok();
        for (aside, path) in whole {
            let renamed = match is_written {
                true => std::fs::rename(&aside, &path),
                false => std::fs::remove_file(&aside),
            };
            if let Err(e) = renamed {
                // One that cannot have its name keeps no other from having its own.
                drop(std::fs::remove_file(&aside));
                named = named.and(Err(FileError::new("write", path, e).into()));
            }
        }
        named
    }

    fn begin(&mut self, name: &str) -> Result<Part, Failure> {
        let below = safe(name).ok_or_else(|| nonsense("named a file outside of the folder"))?;
        if !(self.wanted.keep)(name) {
            return Ok(Part { file: None });
        }
        let path = self.root.join(below);
        if let Some(parent) = path.parent() {
            files::create_dir_all(parent)?;
        }
        let folder = self.aside();
        if self.begun == 0 {
            files::create_dir_all(&folder)?;
        }
        self.begun += 1;
        let aside = folder.join(self.begun.to_string());
        let file = File::create(&aside).map_err(|e| FileError::new("write", aside.clone(), e))?;
        Ok(Part {
            file: Some((file, aside, path)),
        })
    }

    fn end(mut self) -> Result<Fetched, Failure> {
        if self.open.is_some() {
            return Err(nonsense("ended in the middle of a file"));
        }
        self.name()?;
        Ok(self.fetched)
    }
}

/// Returns a path that cannot leave the folder it is joined to.
fn safe(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let is_safe = !name.is_empty()
        && name.len() <= PATH_MAX
        && !name.contains(['\\', '\0'])
        && path.components().all(is_plain);
    is_safe.then(|| path.to_owned())
}

fn nonsense(what: &str) -> Failure {
    Failure::new(Exit::Unexpected, format!("the coordinator {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: &str, chunk: &str, last: bool) -> DownloadResponse {
        DownloadResponse {
            path: path.to_owned(),
            chunk: chunk.as_bytes().to_vec(),
            last,
        }
    }

    #[test]
    fn paths_stay_in_the_folder() {
        for (name, want) in [
            ("a/b.md", true),
            (".skillopt/run.json", true),
            ("../a", false),
            ("a/../../b", false),
            ("/etc/passwd", false),
            ("", false),
            ("a\\b", false),
        ] {
            assert_eq!(safe(name).is_some(), want, "{name}");
        }
    }

    #[test]
    fn only_a_try_that_comes_further_is_a_sign_of_life() {
        let mut furthest = Furthest::default();
        let mut hear = |names: &[&str]| -> Vec<bool> {
            furthest.begin();
            let parts = names.iter().map(|name| part(name, "12", true));
            parts.map(|part| furthest.is_further(&part)).collect()
        };
        assert_eq!(hear(&["a", "b"]), [true, true]);
        assert_eq!(hear(&["a", "b"]), [false, false]);
        assert_eq!(hear(&["a"]), [false]);
        assert_eq!(hear(&["a", "b", "c"]), [false, false, true]);
    }

    #[test]
    fn files_come_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let keep = |name: &str| name != "unwanted";
        let wanted = Wanted {
            store: false,
            only: &[],
            keep: &keep,
        };
        let mut sink = Sink::new(dir.path(), wanted);
        for sent in [
            part("a/b", "12", false),
            part("", "3", true),
            part("unwanted", "x", true),
            part("empty", "", true),
        ] {
            sink.take(sent).unwrap();
        }
        sink.take(part("half", "1", false)).unwrap();
        assert_eq!(sink.fetched, Fetched { files: 2, bytes: 4 });
        assert!(sink.end().is_err());
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).ok();
        assert_eq!(read("a/b").as_deref(), Some("123"));
        assert_eq!(read("empty").as_deref(), Some(""));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_a_killed_process_laid_aside_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join(".skillopt");
        let keep = |_: &str| true;
        let wanted = Wanted {
            store: false,
            only: &[],
            keep: &keep,
        };
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let left = format!("{ASIDE}{}", gone.id());
        let alive = format!("{ASIDE}{}", nix::unistd::getppid());
        for name in [left.as_str(), &alive, "other"] {
            std::fs::create_dir_all(private.join(name)).unwrap();
            std::fs::write(private.join(name).join("1"), "x").unwrap();
        }
        let mut sink = Sink::new(dir.path(), wanted);
        sink.clear_left();
        sink.take(part("a", "x", true)).unwrap();
        sink.end().unwrap();
        let entries = std::fs::read_dir(&private).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["other", alive.as_str()]);
    }

    /// One that cannot have its name keeps no other from having its own.
    #[test]
    fn a_name_that_is_taken_is_told_and_costs_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("b/is a folder")).unwrap();
        let keep = |_: &str| true;
        let wanted = Wanted {
            store: false,
            only: &[],
            keep: &keep,
        };
        let mut sink = Sink::new(dir.path(), wanted);
        for name in ["a", "b", "c"] {
            sink.take(part(name, "x", true)).unwrap();
        }
        assert!(sink.end().is_err());
        for name in ["a", "c"] {
            assert!(dir.path().join(name).is_file(), "{name}");
        }
        assert!(!dir.path().join(".skillopt").exists());
    }

    #[test]
    fn parts_without_sense_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let keep = |_: &str| true;
        for sent in [
            vec![part("", "x", true)],
            vec![part("a", "x", false), part("b", "x", false)],
            vec![part("../a", "x", true)],
        ] {
            let wanted = Wanted {
                store: false,
                only: &[],
                keep: &keep,
            };
            let mut sink = Sink::new(dir.path(), wanted);
            let taken = sent.into_iter().try_for_each(|part| sink.take(part));
            assert!(taken.is_err());
        }
    }
}
