//! Limits of the process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the number of files and sockets this process may open to what the system allows, and
/// returns it: thousands of calls in flight need a socket each.
#[must_use]
pub fn raise_open_files() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1024;
    };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        hard
    } else {
        soft
    }
}
