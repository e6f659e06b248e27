//! Runs the real program in a folder of its own and looks at all that it says.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

pub(crate) mod pty;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder to run the program in.
pub(crate) struct Place {
    dir: TempDir,
}

/// What the program did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A folder with data and a configuration for a short run on the in-process model.
    pub(crate) fn with_data() -> Self {
        let place = Self::new();
        let made = place.run("sim data data --train 16 --val 12 --test 20");
        assert_eq!(made.code, 0, "{made:?}");
        place.write("run.yaml", CONFIG);
        place
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// Prepares the program; nothing of the tester's environment reaches it.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillopt"));
        command
            .current_dir(self.dir.path())
            .env_clear()
            .env("COLUMNS", "100")
            .stdin(Stdio::null())
            .args(args.split_whitespace());
        command
    }

    /// Runs the program with arguments that hold no blanks.
    pub(crate) fn run(&self, args: &str) -> Seen {
        Seen::of(&self.command(args).output().unwrap())
    }

    /// Compares everything the program says with `tests/golden/NAME.txt`. With `GOLDEN=write` in
    /// the environment the file is written instead.
    #[track_caller]
    pub(crate) fn golden(&self, name: &str, args: &str) {
        let seen = self.run(args);
        let text = format!(
            "$ skillopt {args}\nexit code {}\n--- stdout\n{}--- stderr\n{}",
            seen.code,
            masked(&seen.out),
            masked(&seen.err)
        );
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
        if std::env::var("GOLDEN").is_ok_and(|v| v == "write") {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        } else {
            let want = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                text == want,
                "{}\nwanted:\n{want}\nseen:\n{text}",
                path.display()
            );
        }
    }
}

impl Seen {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            out: text(&output.stdout),
            err: text(&output.stderr),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

/// Hides what differs from run to run: ports.
fn masked(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        all.push_str("127.0.0.1:");
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        all.push_str(if rest.len() < part.len() { "PORT" } else { "" });
        all.push_str(rest);
    }
    all
}

const CONFIG: &str = "\
model:
  backend: simulated
  optimizer: sim-optimizer
  target: sim-target
train:
  num_epochs: 2
  batch_size: 8
optimizer:
  learning_rate: 2
  use_slow_update: true
env:
  name: searchqa
  split_mode: split_dir
  split_dir: data
  out_root: outputs/run
  workers: 8
  predictions: none
";
