//! The script that stands in place of a program.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tempfile::TempDir;

/// What a program says, and how it ends.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// What it prints.
    pub stdout: String,
    /// What it says of errors.
    pub stderr: String,
    /// Its exit code.
    pub code: i32,
    /// A flag, and what it writes to the file that is named after it.
    pub file: Option<(&'static str, String)>,
}

/// What a program does.
#[derive(Clone, Debug)]
pub enum Act {
    /// It speaks.
    Says(Said),
    /// It speaks, and a signal ends it.
    Dies(Said),
    /// It says nothing and stays, with a process that it has started.
    Hangs,
}

/// How the program was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, a variable a line.
    pub env: String,
    /// What it was told.
    pub stdin: String,
    /// The content of the files that its arguments name, one after the other.
    pub files: Vec<u8>,
}

impl Started {
    /// Returns whether it was given these bytes, in whichever way.
    #[must_use]
    pub fn was_given(&self, part: &[u8]) -> bool {
        let args = self.args.iter().map(String::as_bytes);
        let mut all = args.chain([self.stdin.as_bytes(), &self.files]);
        all.any(|given| given.windows(part.len()).any(|bytes| bytes == part))
    }
}

const SCRIPT: &str = r#"#!/bin/sh
root='@ROOT@'
if [ -e "$root/first" ] && [ "$1" = "$(cat "$root/first")" ]; then
    exec cat "$root/beforehand"
fi
n=$(ls "$root/starts" | wc -l)
start="$root/starts/$((n))"
mkdir "$start"
env > "$start/env"
cat > "$start/stdin"
for arg in "$@"; do printf '%s\0' "$arg"; done > "$start/args"
for arg in "$@"; do if [ -f "$arg" ]; then cat "$arg"; fi; done > "$start/files"
if [ -e "$root/hangs" ]; then
    (touch "$root/hung"; exec sleep 1000) > "$root/pipe" &
    sleep 1000
fi
before=
for arg in "$@"; do
    if [ -e "$root/flag" ] && [ "$before" = "$(cat "$root/flag")" ]; then
        cat "$root/file" > "$arg"
    fi
    before=$arg
done
cat "$root/stderr" >&2
cat "$root/stdout"
if [ -e "$root/dies" ]; then kill -9 $$; fi
exit "$(cat "$root/code")"
"#;

/// A script in a folder of its own; it ends with the value.
pub struct Script {
    root: TempDir,
    /// Our end of a pipe whose other end is held by what a program that hangs has started.
    pipe: File,
}

impl Script {
    /// Writes a script that does this whenever it is started. With `beforehand`, it prints the second
    /// text where its first argument is the first one, and such a start is not kept.
    ///
    /// # Panics
    /// The temporary folder cannot be written.
    #[must_use]
    pub fn new(act: &Act, beforehand: Option<(&str, &str)>) -> Self {
        let root = TempDir::with_prefix("skillopt-script-").expect("a temporary folder");
        let path = |name: &str| root.path().join(name);
        let write = |name: &str, text: &str| fs::write(path(name), text).expect("a file");
        fs::create_dir(path("starts")).expect("a folder");
        let pipe = pipe(&path("pipe"));
        let said = match act {
            Act::Says(said) => said.clone(),
            Act::Dies(said) => {
                write("dies", "");
                said.clone()
            }
            Act::Hangs => {
                write("hangs", "");
                Said::default()
            }
        };
        write("stdout", &said.stdout);
        write("stderr", &said.stderr);
        write("code", &said.code.to_string());
        if let Some((flag, text)) = &said.file {
            write("flag", flag);
            write("file", text);
        }
        if let Some((first, text)) = beforehand {
            write("first", first);
            write("beforehand", text);
        }
        let place = root.path().display().to_string();
        write("program", &SCRIPT.replace("@ROOT@", &place));
        let mode = Permissions::from_mode(0o755);
        fs::set_permissions(path("program"), mode).expect("a program");
        Self { root, pipe }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns where the program lies.
    #[must_use]
    pub fn program(&self) -> String {
        self.path("program").display().to_string()
    }

    /// Returns how it was started, in order.
    #[must_use]
    pub fn started(&self) -> Vec<Started> {
        let folders = (0..).map(|n| self.path("starts").join(n.to_string()));
        let folders = folders.take_while(|folder| folder.is_dir());
        folders.map(|folder| Started::read(&folder)).collect()
    }

    /// Returns whether it hangs by now.
    #[must_use]
    pub fn has_hung(&self) -> bool {
        self.path("hung").exists()
    }

    /// Waits until the program is gone, and all that it has started.
    ///
    /// # Panics
    /// The system does not let us wait.
    pub fn wait_until_gone(mut self) {
        // It was opened without waiting, before anybody held the other end.
        fcntl(&self.pipe, FcntlArg::F_SETFL(OFlag::empty())).expect("a pipe that waits");
        let mut rest = Vec::new();
        self.pipe.read_to_end(&mut rest).expect("the end of a pipe");
    }
}

impl Started {
    fn read(folder: &Path) -> Self {
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let args = text("args");
        Self {
            args: args.split_terminator('\0').map(str::to_owned).collect(),
            env: text("env"),
            stdin: text("stdin"),
            files: fs::read(folder.join("files")).unwrap_or_default(),
        }
    }
}

fn pipe(path: &Path) -> File {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    options.open(path).expect("our end of the pipe")
}
