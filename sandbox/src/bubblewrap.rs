//! The command line of bubblewrap.
//!
//! Order matters: a later mount covers an earlier one, and the root can be made read-only only after
//! everything is in its place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::facility::{Bubblewrap, ProcMount};

/// Where the program's home is, inside.
pub(crate) const HOME: &str = "/sandbox/home";
/// Where it works.
pub(crate) const WORK: &str = "/sandbox/work";
const INIT: &str = "/run/sandbox/init";
/// The worker's socket for init.
pub(crate) const CONTROL: &str = "/run/sandbox/control";

/// Parts of the system besides `/usr`; links stay links, and what is missing is left out.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Returns whether every sandbox shows what lies at `path`, for it is part of the system.
#[must_use]
pub fn shows(path: &Path) -> bool {
    path.starts_with("/usr") || SYSTEM.iter().any(|part| path.starts_with(part))
}

/// Parts of `/etc` that programs do not work without. None of them holds a secret, not even one that
/// only the superuser may read: private keys lie beside the certificates.
pub(crate) const ETC: [&str; 13] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];
/// Files of `/etc` that the sandbox has of its own.
pub(crate) const OWN_ETC: [(&str, &str); 4] = [
    ("passwd", "agent:x:1000:1000:agent:/sandbox/home:/bin/sh\n"),
    ("group", "agent:x:1000:\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    (
        "nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files\n",
    ),
];

/// What differs from run to run.
#[derive(Debug)]
pub(crate) struct Mounts<'a> {
    /// What becomes `/etc` (`etc::lay`).
    pub(crate) etc: &'a Path,
    /// Our own program.
    pub(crate) init: &'a Path,
    pub(crate) tmp_bytes: u64,
    /// Home and working folder, if there are any.
    pub(crate) folders: Option<(&'a Path, &'a Path)>,
    /// Read-only, at the same place.
    pub(crate) read_only: &'a [PathBuf],
    /// Sockets, each with its place inside.
    pub(crate) sockets: Vec<(PathBuf, String)>,
}

/// Returns the whole command, which ends with init and its arguments.
pub(crate) fn command(
    bwrap: &Bubblewrap,
    mounts: &Mounts<'_>,
    init_args: &[OsString],
) -> Vec<OsString> {
    let mut line = Words(vec![bwrap.program.clone().into_os_string()]);
    line.add("--unshare-user --uid 1000 --gid 1000 --unshare-pid --unshare-ipc --unshare-uts");
    line.add("--unshare-net --unshare-cgroup-try --hostname sandbox");
    line.add("--die-with-parent --new-session --as-pid-1 --cap-drop ALL --clearenv");
    if bwrap.forbids_user_namespaces {
        line.add("--disable-userns");
    }
    line.add("--ro-bind /usr /usr");
    for path in SYSTEM.map(Path::new) {
        match std::fs::read_link(path) {
            Ok(target) => line.mount("--symlink", &target, path),
            Err(_) => line.mount("--ro-bind-try", path, path),
        }
    }
    line.mount("--ro-bind", mounts.etc, Path::new("/etc"));
    match bwrap.proc {
        // Started by the superuser, the program would own the kernel's settings in there.
        ProcMount::New => line.add("--proc /proc --remount-ro /proc"),
        ProcMount::Shared => line.add("--ro-bind /proc /proc"),
    }
    let size = mounts.tmp_bytes.max(1024 * 1024);
    // The devices lie in a folder that could be written without end.
    line.add("--dev /dev --remount-ro /dev");
    line.add(&format!(
        "--size {size} --tmpfs /dev/shm --size {size} --tmpfs /tmp"
    ));
    line.add("--dir /run --dir /var/tmp");
    for path in mounts.read_only {
        line.mount("--ro-bind", path, path);
    }
    if let Some((home, work)) = mounts.folders {
        line.mount("--bind", home, Path::new(HOME));
        line.mount("--bind", work, Path::new(WORK));
        line.add("--chdir");
        line.add(WORK);
    }
    line.mount("--ro-bind", mounts.init, Path::new(INIT));
    for (socket, place) in &mounts.sockets {
        line.mount("--ro-bind", socket, Path::new(place));
    }
    line.add("--remount-ro /");
    line.add("--");
    line.add(INIT);
    line.0.extend_from_slice(init_args);
    line.0
}

struct Words(Vec<OsString>);

impl Words {
    fn add(&mut self, words: &str) {
        self.0.extend(words.split(' ').map(OsString::from));
    }

    fn mount(&mut self, how: &str, from: &Path, to: &Path) {
        self.0.extend([how.into(), from.into(), to.into()]);
    }
}
