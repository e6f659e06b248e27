//! Whether a program failed for want of room on the machine's disk.

use std::path::Path;

use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;

use crate::report::{Ending, File, Output};

/// A disk with less than this is full, in bytes: hardly a file can be written.
const FULL_BYTES: u64 = 1024 * 1024;
/// What programs say that could not write.
const WORDS: [&str; 2] = ["No space left on device", "ENOSPC"];

/// Returns whether a run looks as if something could not be written: the program failed, said
/// nothing, left none of the files that were wanted, or said so.
pub(crate) fn is_starved(
    ending: &Ending,
    outputs: [&Output; 2],
    wants_files: bool,
    files: &[File],
) -> bool {
    let [stdout, _] = outputs;
    let says_so = || {
        outputs.iter().any(|output| {
            let text = output.text();
            WORDS.iter().any(|words| text.contains(words))
        })
    };
    match ending {
        Ending::Signalled(_) => true,
        Ending::Exited(code) => {
            *code != 0 || stdout.total == 0 || (wants_files && files.is_empty()) || says_so()
        }
        Ending::TimedOut | Ending::Limit(_) | Ending::Lost(_) => false,
    }
}

/// Returns whether the disk below a folder has room for nothing more, or for no more files.
pub(crate) fn is_full(folder: &Path) -> bool {
    let Ok(about) = statvfs(folder) else {
        return false;
    };
    // Some blocks are kept for the superuser.
    let (blocks, files) = match geteuid().is_root() {
        true => (about.blocks_free(), about.files_free()),
        false => (about.blocks_available(), about.files_available()),
    };
    let bytes = blocks.saturating_mul(about.fragment_size());
    // A file system that counts no files has 0 of them in all.
    bytes < FULL_BYTES || (about.files() > 0 && files == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_may_have_failed_to_write_is_starved() {
        let said = |text: &str| Output {
            head: text.as_bytes().to_vec(),
            tail: Vec::new(),
            total: text.len().try_into().unwrap(),
        };
        let nothing = Output::default();
        for (ending, out, err, wants_files, want) in [
            (Ending::Exited(0), "42", "", false, false),
            (Ending::Exited(0), "42", "", true, true),
            (Ending::Exited(0), "", "", false, true),
            (Ending::Exited(1), "42", "", false, true),
            (Ending::Exited(0), "42", "write: ENOSPC", false, true),
            (Ending::Signalled(7), "42", "", false, true),
            (Ending::TimedOut, "", "", true, false),
        ] {
            let seen = is_starved(&ending, [&said(out), &said(err)], wants_files, &[]);
            assert_eq!(seen, want, "{ending:?}, {out:?}, {err:?}");
        }
        let file = File {
            path: "answer.txt".into(),
            bytes: b"42".to_vec(),
        };
        let outputs = [&said("42"), &nothing];
        assert!(!is_starved(&Ending::Exited(0), outputs, true, &[file]));
    }

    #[test]
    fn the_disk_of_the_tests_is_not_full() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_full(dir.path()));
    }
}
