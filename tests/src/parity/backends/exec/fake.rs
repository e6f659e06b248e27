//! Fakes of command-line programs: one shell script that keeps what it was started with.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Map, Value};

/// Where the program keeps what it sees, and finds what to say.
const SCRIPT: &str = r#"#!/bin/sh
log='@LOG@'
n=0
while ! mkdir "$log/$n" 2>/dev/null; do n=$((n + 1)); done
at="$log/$n"
printf '%s' "${0##*/}" > "$at/program"
pwd > "$at/cwd"
env -0 > "$at/env"
ls -A > "$at/tree"
for arg in "$@"; do
  printf '%s\0' "$arg" >> "$at/argv"
  if [ -f "$arg" ]; then cp "$arg" "$at/file-${arg##*/}"; fi
done
settings="$CURSOR_CONFIG_DIR/cli-config.json"
if [ -f "$settings" ]; then cp "$settings" "$at/file-cli-config.json"; fi
cat > "$at/stdin"
: > "$at/whole"
say='@SAY@'
while [ ! -d "$say/$n" ]; do n=$((n - 1)); done
say="$say/$n"
flag=
for arg in "$@"; do
  if [ "$flag" = --output-last-message ] && [ -f "$say/last_message" ]; then
    cp "$say/last_message" "$arg"
  fi
  flag=$arg
done
if [ -f "$say/child" ]; then sleep 1000 > '@PIPE@' & fi
cat "$say/stdout"
cat "$say/stderr" >&2
if [ -f "$say/delay" ]; then sleep "$(cat "$say/delay")"; fi
exit "$(cat "$say/code")"
"#;

/// The names that it goes by.
const PROGRAMS: &[&str] = &[
    "claude",
    "myclaude",
    "codex",
    "mycodex",
    "copilot",
    "cursor-agent",
    "opencode",
    "pi",
];

/// A folder with the programs of a case.
pub(super) struct Fake {
    root: tempfile::TempDir,
    pipe: Option<fs::File>,
}

/// What one start of a program looked like.
pub(in super::super) struct Started {
    pub(super) program: String,
    pub(super) argv: Vec<String>,
    pub(super) stdin: String,
    pub(super) cwd: String,
    /// What lay in its folder.
    pub(super) tree: String,
    pub(super) env: BTreeMap<String, String>,
    /// Whether it came to keep all of this.
    pub(super) is_whole: bool,
    /// Content of the files that its arguments name, by their names.
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

impl Fake {
    pub(super) fn new(case: &Value) -> io::Result<Self> {
        let mut fake = Self {
            root: tempfile::tempdir()?,
            pipe: None,
        };
        for folder in ["bin", "log", "say", "home", "tmp", "work"] {
            fs::create_dir(fake.path(folder))?;
        }
        fake.speak(case)?;
        let pipe = fake.path("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU)?;
        // Without a reader the program could not open its end.
        let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let mut open = fs::OpenOptions::new();
        fake.pipe = Some(open.read(true).custom_flags(nonblocking).open(&pipe)?);
        let text = |path: PathBuf| path.display().to_string();
        let script = SCRIPT
            .replace("@LOG@", &text(fake.path("log")))
            .replace("@SAY@", &text(fake.path("say")))
            .replace("@PIPE@", &text(pipe));
        for name in PROGRAMS {
            let path = fake.path("bin").join(name);
            fs::write(&path, &script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(fake)
    }

    /// Writes down what the program says at each start; the last repeats.
    fn speak(&self, case: &Value) -> io::Result<()> {
        let script = case["response"]["script"].as_array();
        for (at, step) in script.into_iter().flatten().enumerate() {
            let say = self.path("say").join(at.to_string());
            fs::create_dir(&say)?;
            let text = |key: &str| step[key].as_str().unwrap_or_default();
            fs::write(say.join("stdout"), text("stdout"))?;
            fs::write(say.join("stderr"), text("stderr"))?;
            let code = step["exit_code"].as_i64().unwrap_or(0);
            fs::write(say.join("code"), code.to_string())?;
            if let Some(seconds) = step["stays_s"].as_f64() {
                fs::write(say.join("delay"), seconds.to_string())?;
            }
            if let Some(last) = step["write_flag"]["--output-last-message"].as_str() {
                fs::write(say.join("last_message"), last)?;
            }
            if !step["spawn_grandchild"].is_null() {
                fs::write(say.join("child"), "")?;
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(super) fn home(&self) -> String {
        self.path("home").display().to_string()
    }

    /// The environment of the worker, beside what a case says.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.path("bin");
        vec![
            ("PATH", format!("{}:{path}", bin.display())),
            ("HOME", self.home()),
            ("AWS_SECRET_ACCESS_KEY", "canary-aws".to_owned()),
            ("GITHUB_TOKEN", "canary-github".to_owned()),
            ("CANARY_PLAIN", "canary-plain".to_owned()),
        ]
    }

    /// Fills in what stands for a place.
    pub(super) fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let places = [("bin", "bin"), ("work", "work"), ("home", "home")];
                let filled = places.iter().fold(text.clone(), |text, (name, folder)| {
                    let path = self.path(folder).display().to_string();
                    text.replace(&format!("{{{{{name}}}}}"), &path)
                });
                filled.into()
            }
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(map) => {
                let pairs = map.iter();
                pairs
                    .map(|(name, value)| (name.clone(), self.fill(value)))
                    .collect::<Map<_, _>>()
                    .into()
            }
            other => other.clone(),
        }
    }

    /// Returns what was kept of each start.
    pub(super) fn started(&self) -> io::Result<Vec<Started>> {
        let log = self.path("log");
        let folders = (0..).map(|n| log.join(n.to_string()));
        folders
            .take_while(|folder| folder.is_dir())
            .map(|folder| Started::read(&folder))
            .collect()
    }

    pub(super) fn leaves_a_process(&self) -> bool {
        self.path("say").join("0").join("child").is_file()
    }

    /// Checks that what the program started is gone: it held one end of a pipe.
    pub(super) fn wait_until_gone(mut self) -> Result<(), String> {
        let Some(mut pipe) = self.pipe.take() else {
            return Ok(());
        };
        let nonblocking = nix::fcntl::OFlag::O_NONBLOCK;
        let flags = nix::fcntl::fcntl(&pipe, nix::fcntl::FcntlArg::F_GETFL);
        let flags = flags.map_err(|e| e.to_string())?;
        let blocking = nix::fcntl::OFlag::from_bits_truncate(flags) - nonblocking;
        nix::fcntl::fcntl(&pipe, nix::fcntl::FcntlArg::F_SETFL(blocking))
            .map_err(|e| e.to_string())?;
        let (ended, ends) = mpsc::channel();
        std::thread::spawn(move || ended.send(pipe.read_to_end(&mut Vec::new()).is_ok()));
        match ends.recv_timeout(Duration::from_secs(20)) {
            Ok(true) => Ok(()),
            other => Err(format!("a process that it started lives on: {other:?}")),
        }
    }
}

impl Started {
    /// Returns a file that was kept.
    pub(in super::super) fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    fn read(folder: &Path) -> io::Result<Self> {
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let list = |name: &str| {
            let text = text(name);
            let parts = text.split_terminator('\0');
            parts.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if let Some(name) = name.strip_prefix("file-") {
                files.insert(name.to_owned(), fs::read(&path)?);
            }
        }
        let env = list("env");
        let pairs = env.iter().filter_map(|pair| pair.split_once('='));
        Ok(Self {
            program: text("program"),
            argv: list("argv"),
            stdin: text("stdin"),
            cwd: text("cwd").trim().to_owned(),
            tree: text("tree"),
            env: pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            is_whole: folder.join("whole").is_file(),
            files,
        })
    }
}
