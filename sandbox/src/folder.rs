//! Folders that a hostile program writes into: looked at without following anything it laid out.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};

/// What an entry uses at least: an empty file costs a name and an inode, too.
const ENTRY_BYTES: u64 = 1024;

/// An open folder of a run; paths below it cannot leave it.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
}

/// What [`Folder::walk`] tells of each entry.
pub(crate) struct Entry<'a> {
    /// Path below the folder.
    pub(crate) path: &'a Path,
    pub(crate) stat: FileStat,
}

impl Entry<'_> {
    pub(crate) fn kind(&self) -> SFlag {
        SFlag::from_bits_truncate(self.stat.st_mode) & SFlag::S_IFMT
    }
}

/// Why a file was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is none that is taken.
    Refused(String),
    /// This machine could not read it.
    Fault(Errno),
}

impl Unread {
    fn of(errno: Errno) -> Self {
        match is_programs(errno) {
            true => Self::Refused(errno.desc().to_owned()),
            false => Self::Fault(errno),
        }
    }
}

/// Returns whether a program can bring an error about by what it lays out. All others are faults of
/// this machine: no more open files, no memory, a disk that fails.
pub(crate) const fn is_programs(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EACCES
            | Errno::EPERM
            | Errno::ENAMETOOLONG
            | Errno::ELOOP
            | Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::EISDIR
            | Errno::EXDEV
            | Errno::ENXIO
            | Errno::ENODEV
            | Errno::EINVAL
            | Errno::EOPNOTSUPP
            | Errno::ETXTBSY
            | Errno::EBUSY
    )
}

impl Folder {
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self { fd: file.into() })
    }

    /// Returns the number of the file system it lies on.
    pub(crate) fn device(&self) -> Option<u64> {
        #[allow(
            clippy::useless_conversion,
            reason = "the type differs from system to system"
        )]
        nix::sys::stat::fstat(&self.fd)
            .ok()
            .map(|stat| u64::from(stat.st_dev))
    }

    /// Opens below the folder, through no symbolic link and no mount that leads elsewhere.
    pub(crate) fn open_below(&self, path: &Path, flags: OFlag, mode: Mode) -> Result<File, Errno> {
        let how = OpenHow::new()
            // A pipe without a writer must not hold us up.
            .flags(flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK)
            .mode(mode)
            .resolve(
                ResolveFlag::RESOLVE_BENEATH
                    | ResolveFlag::RESOLVE_NO_SYMLINKS
                    | ResolveFlag::RESOLVE_NO_MAGICLINKS,
            );
        loop {
            match openat2(&self.fd, path, how) {
                // The kernel could not be sure for a moment, because something was renamed.
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                done => return done.map(File::from),
            }
        }
    }

    /// Shows every entry to `see`, which says whether to go on.
    ///
    /// # Errors
    /// The walk was given up: a folder cannot be read, or lies deeper than a path can say.
    pub(crate) fn walk(&self, see: &mut dyn FnMut(&Entry<'_>) -> bool) -> Result<(), Errno> {
        let mut waiting = vec![PathBuf::from(".")];
        while let Some(at) = waiting.pop() {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
            let file = match self.open_below(&at, flags, Mode::empty()) {
                Ok(file) => file,
                // It was removed, or became something else, meanwhile.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => continue,
                Err(errno) => return Err(errno),
            };
            let mut dir = Dir::from_fd(file.into())?;
            let mut names = Vec::new();
            for entry in dir.iter() {
                match entry {
                    Ok(entry) => names.push(entry.file_name().to_owned()),
                    Err(errno) if is_programs(errno) => {}
                    Err(errno) => return Err(errno),
                }
            }
            names.retain(|name| !matches!(name.to_bytes(), b"." | b".."));
            for name in names {
                let stat = match fstatat(&dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                    Ok(stat) => stat,
                    Err(errno) if is_programs(errno) => continue,
                    Err(errno) => return Err(errno),
                };
                let name = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
                let path = match at.as_os_str() == "." {
                    true => name.to_path_buf(),
                    false => at.join(name),
                };
                let entry = Entry { path: &path, stat };
                let is_folder = entry.kind() == SFlag::S_IFDIR;
                if !see(&entry) {
                    return Ok(());
                }
                if is_folder {
                    waiting.push(path);
                }
            }
        }
        Ok(())
    }

    /// Returns how much lies in the folder, but not much more than `enough`.
    pub(crate) fn size(&self, enough: u64) -> Result<u64, Errno> {
        let mut total = 0u64;
        self.walk(&mut |entry| {
            let blocks = u64::try_from(entry.stat.st_blocks).unwrap_or(0);
            total = total.saturating_add((blocks * 512).max(ENTRY_BYTES));
            total <= enough
        })?;
        Ok(total)
    }

    /// Writes a file, making its folders.
    pub(crate) fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        is_executable: bool,
    ) -> Result<(), Errno> {
        use std::io::Write as _;
        let mut at = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            let above = self.open_below(
                if at.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    &at
                },
                OFlag::O_RDONLY | OFlag::O_DIRECTORY,
                Mode::empty(),
            )?;
            at.push(part);
            match nix::sys::stat::mkdirat(above, part.as_os_str(), Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(other) => return Err(other),
            }
        }
        let mode = if is_executable { 0o700 } else { 0o600 };
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC;
        let mut file = self.open_below(path, flags, Mode::from_bits_truncate(mode))?;
        let wrote = file.write_all(bytes);
        // The file may have been there with another mode.
        let wrote =
            wrote.and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(mode)));
        wrote.map_err(|e| errno(&e))
    }

    /// Reads a regular file that has no other name, up to `max` bytes.
    ///
    /// # Errors
    /// Why it is refused, or that this machine cannot read it.
    pub(crate) fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, Unread> {
        let refused = |why: String| Err(Unread::Refused(why));
        let broken = |e: std::io::Error| Unread::of(errno(&e));
        let file = match self.open_below(path, OFlag::O_RDONLY, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::ELOOP) => return refused("a symbolic link".to_owned()),
            Err(errno) => return Err(Unread::of(errno)),
        };
        let about = file.metadata().map_err(broken)?;
        if !about.is_file() {
            return refused("not a regular file".to_owned());
        }
        if about.nlink() > 1 {
            return refused("it has another name elsewhere (a hard link)".to_owned());
        }
        let mut bytes = Vec::new();
        let read = file.take(max.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(broken)?;
        match u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
            true => refused(format!("larger than the {max} bytes that were left")),
            false => Ok(bytes),
        }
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or_default())
}

/// Removes a folder that nobody uses any more, however deep and whatever its modes.
///
/// Folders are moved to the top before they are emptied, so that no depth makes a path too long or
/// a recursion too deep.
pub(crate) fn remove(top: &Path) -> std::io::Result<()> {
    if !top.try_exists()? {
        return Ok(());
    }
    let mut waiting = vec![top.to_path_buf()];
    let mut emptied = Vec::new();
    let mut count = 0u64;
    while let Some(folder) = waiting.pop() {
        // The program may have taken its own rights away.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                std::fs::remove_file(entry.path())?;
                continue;
            }
            std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o700))?;
            if folder == top {
                waiting.push(entry.path());
                continue;
            }
            let moved = loop {
                count += 1;
                let moved = top.join(format!(".gone-{count}"));
                if moved.symlink_metadata().is_err() {
                    break moved;
                }
            };
            std::fs::rename(entry.path(), &moved)?;
            waiting.push(moved);
        }
        emptied.push(folder);
    }
    for folder in emptied.iter().rev() {
        std::fs::remove_dir(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_folder_without_rights_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        // Deeper than a path can say, as a program makes it step by step.
        let mut at: OwnedFd = File::open(&top).unwrap().into();
        for _ in 0..1500 {
            nix::sys::stat::mkdirat(&at, "deeeep", Mode::S_IRWXU).unwrap();
            let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            at = nix::fcntl::openat(&at, "deeeep", flags, Mode::empty()).unwrap();
        }
        std::fs::create_dir(top.join("shut")).unwrap();
        std::fs::write(top.join("shut/.gone-1"), "").unwrap();
        std::fs::set_permissions(top.join("shut"), std::fs::Permissions::from_mode(0o0)).unwrap();
        let size = Folder::open(&top).unwrap().size(u64::MAX);
        assert!(size.is_err(), "too deep to be counted: {size:?}");
        remove(&top).unwrap();
        assert!(!top.exists());
        remove(&top).unwrap();
    }

    #[test]
    fn only_what_a_program_can_bring_about_is_its_fault() {
        for errno in [Errno::EACCES, Errno::ENAMETOOLONG, Errno::ELOOP] {
            assert!(matches!(Unread::of(errno), Unread::Refused(_)), "{errno}");
        }
        for errno in [
            Errno::EMFILE,
            Errno::ENFILE,
            Errno::EIO,
            Errno::ENOMEM,
            Errno::ENOSPC,
            Errno::UnknownErrno,
        ] {
            assert_eq!(Unread::of(errno), Unread::Fault(errno));
        }
    }

    #[test]
    fn many_empty_files_have_a_size() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..50 {
            std::fs::write(dir.path().join(name.to_string()), "").unwrap();
        }
        let folder = Folder::open(dir.path()).unwrap();
        assert_eq!(folder.size(u64::MAX).unwrap(), 50 * ENTRY_BYTES);
        assert_eq!(folder.size(5_000).unwrap(), 5 * ENTRY_BYTES);
    }

    #[test]
    fn nothing_is_written_or_read_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("folder")).unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), inside.join("file")).unwrap();
        std::fs::hard_link(outside.join("secret"), inside.join("hard")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        for path in ["folder/new", "file", "../out/new", "/tmp/x"] {
            assert!(
                folder.write(Path::new(path), b"x", false).is_err(),
                "{path}"
            );
        }
        for path in ["folder/secret", "file", "../out/secret", "hard"] {
            assert!(folder.read(Path::new(path), 99).is_err(), "{path}");
        }
        assert_eq!(std::fs::read(outside.join("secret")).unwrap(), b"s");
        folder.write(Path::new("a/b/c"), b"text", true).unwrap();
        assert_eq!(folder.read(Path::new("a/b/c"), 4).unwrap(), b"text");
        let large = folder.read(Path::new("a/b/c"), 3).unwrap_err();
        assert!(
            matches!(&large, Unread::Refused(why) if why.contains("larger")),
            "{large:?}"
        );
    }
}
