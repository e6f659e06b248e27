//! Takes the wanted files out of a folder that a hostile program filled.

use std::path::PathBuf;

use nix::sys::stat::SFlag;

use crate::folder::{Folder, Unread, is_programs};
use crate::pattern;
use crate::report::{File, Refused};

/// Entries that are looked at; who makes more hides only files of its own.
const ENTRIES: usize = 200_000;
/// Files that are taken or refused by name.
const FILES: usize = 10_000;

/// Returns the files that match, by path, and what matched and was not taken.
///
/// # Errors
/// This machine could not read them: what the program left is not known.
pub(crate) fn collect(
    folder: &Folder,
    patterns: &[String],
    mut bytes_left: u64,
) -> Result<(Vec<File>, Vec<Refused>), String> {
    let mut found: Vec<(PathBuf, SFlag)> = Vec::new();
    let mut seen = 0;
    if patterns.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let walked = folder.walk(&mut |entry| {
        seen += 1;
        let name = entry.path.to_string_lossy();
        let is_wanted = patterns
            .iter()
            .any(|pattern| pattern::matches(pattern, &name));
        if is_wanted && entry.kind() != SFlag::S_IFDIR {
            found.push((entry.path.to_path_buf(), entry.kind()));
        }
        seen < ENTRIES && found.len() < FILES
    });
    found.sort();
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    for (path, kind) in found {
        match take(folder, &path, kind, bytes_left) {
            Ok(bytes) => {
                bytes_left -= u64::try_from(bytes.len()).unwrap_or(bytes_left);
                files.push(File { path, bytes });
            }
            Err(Unread::Refused(why)) => refused.push(Refused { path, why }),
            Err(Unread::Fault(errno)) => {
                let path = path.display();
                return Err(format!("the worker cannot read `{path}`: {errno}"));
            }
        }
    }
    let mut all = |why: &str| {
        let path = PathBuf::from(".");
        let why = why.to_owned();
        refused.push(Refused { path, why });
    };
    match walked {
        Ok(()) => {}
        Err(errno) if is_programs(errno) => {
            all("some of its folders cannot be read; files may be missing");
        }
        Err(errno) => {
            return Err(format!(
                "the worker cannot read the program's files: {errno}"
            ));
        }
    }
    if seen >= ENTRIES || files.len() >= FILES {
        all("too many entries; files may be missing");
    }
    Ok((files, refused))
}

fn take(folder: &Folder, path: &std::path::Path, kind: SFlag, max: u64) -> Result<Vec<u8>, Unread> {
    // Said by name where it is known; the opening below refuses by itself.
    let special = match kind {
        SFlag::S_IFREG => None,
        SFlag::S_IFLNK => Some("a symbolic link"),
        SFlag::S_IFIFO => Some("a named pipe"),
        SFlag::S_IFSOCK => Some("a socket"),
        SFlag::S_IFCHR | SFlag::S_IFBLK => Some("a device"),
        _ => Some("not a regular file"),
    };
    match special {
        Some(what) => Err(Unread::Refused(what.to_owned())),
        None => folder.read(path, max),
    }
}
