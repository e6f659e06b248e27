//! The `/etc` of every sandbox of a host: a folder with files of its own, and with copies of what
//! programs do not work without.
//!
//! Each mount of a sandbox costs its start; one folder is one mount, where its parts were seventeen. So
//! a sandbox sees those parts as they were when its worker started.

use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::Error;
use crate::bubblewrap::{ETC, OWN_ETC};
use crate::shared::make;

/// Folders lie no deeper in there.
const DEEPEST: usize = 8;

/// Makes it at `to`.
///
/// # Errors
/// A file cannot be written. What cannot be read is left out, as is what is not there.
pub(crate) fn lay(to: &Path) -> Result<(), Error> {
    make(to, false)?;
    for path in ETC.map(Path::new) {
        let inside = path.strip_prefix("/etc").unwrap_or(path);
        // Whatever it is a link to is meant, as for a mount.
        if let Ok(from) = path.canonicalize() {
            copy(&from, &to.join(inside), 0).map_err(Error::io("copy", path))?;
        }
    }
    for (name, text) in OWN_ETC {
        let path = to.join(name);
        std::fs::write(&path, text).map_err(Error::io("write", &path))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    let Ok(found) = from.symlink_metadata() else {
        return Ok(());
    };
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if found.is_symlink() {
        return match std::fs::read_link(from) {
            Ok(target) => symlink(target, to),
            Err(_) => Ok(()),
        };
    }
    if found.is_file() {
        // Read and written apart, for only the second is an error of this place.
        let Ok(bytes) = std::fs::read(from) else {
            return Ok(());
        };
        return std::fs::write(to, bytes);
    }
    let Ok(entries) = std::fs::read_dir(from) else {
        return Ok(());
    };
    if !found.is_dir() || depth == DEEPEST {
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    for entry in entries.flatten() {
        copy(&entry.path(), &to.join(entry.file_name()), depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_a_file_or_a_link_is_copied_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        std::fs::create_dir_all(from.join("below")).unwrap();
        std::fs::write(from.join("below/file"), "text").unwrap();
        symlink("/usr/share/x", from.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
        copy(&from, &to, 0).unwrap();
        assert_eq!(std::fs::read(to.join("below/file")).unwrap(), b"text");
        let target = std::fs::read_link(to.join("link")).unwrap();
        assert_eq!(target, Path::new("/usr/share/x"));
        assert!(to.join("socket").symlink_metadata().is_err());
        copy(&root.path().join("missing"), &to.join("none"), 0).unwrap();
        assert!(to.join("none").symlink_metadata().is_err());
    }

    #[test]
    fn the_folder_holds_what_is_listed_and_what_is_its_own() {
        let root = tempfile::tempdir().unwrap();
        let to = root.path().join("etc");
        lay(&to).unwrap();
        for (name, text) in OWN_ETC {
            assert_eq!(std::fs::read_to_string(to.join(name)).unwrap(), text);
        }
        for path in ETC.map(Path::new) {
            let inside = to.join(path.strip_prefix("/etc").unwrap());
            assert_eq!(inside.exists(), path.exists(), "{}", path.display());
        }
        for secret in ["shadow", "ssl/private"] {
            assert!(to.join(secret).symlink_metadata().is_err(), "{secret}");
        }
        let mode = to.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others cannot enter");
    }
}
