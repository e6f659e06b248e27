//! The Redis of `skillopt up`.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use skillopt_core::Hash;

use super::Place;
use super::child::Child;
use crate::exit::Exit;
use crate::failure::Failure;

/// Ports that are tried: another program may be quicker.
const TRIES: usize = 5;
/// What Redis says when it can be used.
const READY: &str = "eady to accept connections";

/// Starts Redis on a free port of this machine and returns its address, with the password that only
/// its own processes know.
///
/// # Errors
/// It is not installed, or does not start.
pub(super) async fn start(program: &Path, place: &Place) -> Result<(Child, String), Failure> {
    let program = find(program)?;
    let password = password();
    let mut tried = 0;
    loop {
        tried += 1;
        let port = free_port()?;
        let mut child = Child::start(
            "Redis",
            &program,
            &["-"],
            &[],
            Stdio::piped(),
            &place.log("redis"),
        )?;
        // Through the pipe, so that no list of processes and no file shows the password.
        let settings = settings(port, &password, &place.root.join("redis"));
        if let Some(mut pipe) = child.stdin() {
            // A child that is gone is noticed below.
            drop(pipe.write_all(settings.as_bytes()));
        }
        match child.until(|said| said.contains(READY)).await {
            Ok(()) => return Ok((child, format!("redis://:{password}@127.0.0.1:{port}"))),
            Err(failure) if tried >= TRIES => return Err(failure),
            Err(_) => {}
        }
    }
}

fn settings(port: u16, password: &str, dir: &Path) -> String {
    let dir = dir
        .display()
        .to_string()
        .replace('\\', "\\\\")
        .replace('"', "\\\"");
    format!(
        "bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir \"{dir}\"\nappendonly yes\n\
         appendfsync everysec\nsave \"\"\nmaxmemory-policy noeviction\ndaemonize no\n"
    )
}

/// Finds the program, in the search path if it is a bare name.
fn find(program: &Path) -> Result<PathBuf, Failure> {
    let is_there = |path: &PathBuf| path.is_file();
    let found = if program.components().count() > 1 {
        std::path::absolute(program).ok().filter(is_there)
    } else {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths)
            .map(|dir| dir.join(program))
            .find(is_there)
    };
    found.ok_or_else(|| {
        Failure::usage(format!("`{}` is not installed", program.display())).hint(
            "install Redis 7 or Valkey (`apt-get install redis-server`, `brew install redis`), or name \
             the program with --redis-server",
        )
    })
}

fn free_port() -> Result<u16, Failure> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => Failure::usage("this user may not listen on 127.0.0.1"),
            _ => Failure::new(Exit::Unexpected, e),
        })
}

fn password() -> String {
    // The standard library seeds each of these from the system's randomness.
    let random = || RandomState::new().hash_one(0_u8).to_le_bytes();
    let parts = [random(), random(), random(), random()];
    Hash::of_parts(parts.iter().map(<[u8; 8]>::as_slice)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named_with_what_helps() {
        for program in ["no-such-redis", "./no/such/redis"] {
            let failure = find(Path::new(program)).unwrap_err();
            assert!(failure.errors[0].message.contains(program));
            assert!(failure.hint.unwrap().contains("--redis-server"));
        }
    }

    #[test]
    fn settings_survive_odd_folders() {
        let text = settings(1, "p", Path::new("/tmp/a \"b\""));
        assert!(text.contains("dir \"/tmp/a \\\"b\\\"\""), "{text}");
    }
}
