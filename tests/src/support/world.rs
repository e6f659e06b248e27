//! A folder with data and a configuration, and runs in it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use skillopt_sim::{Sizes, generate};
use tempfile::TempDir;

use super::folder;
use super::program::{Ended, command, run};

/// Items of each split: small, so that a run takes less than a second.
pub const SIZES: Sizes = Sizes {
    train: 24,
    val: 12,
    test: 12,
};

/// Two epochs of three steps, every optional stage on, waits short.
const CONFIG: &str = "\
model:
  backend: openai_compatible
  optimizer: sim-optimizer
  target: sim-target
  retry_attempts: 4
  retry_base_ms: 1
  retry_cap_ms: 10
train:
  num_epochs: 2
  batch_size: 8
gradient:
  minibatch_size: 4
  merge_batch_size: 2
optimizer:
  use_slow_update: true
  slow_update_samples: 6
  use_meta_skill: true
env:
  name: searchqa
  split_mode: split_dir
  split_dir: data
";

/// A folder with data and a configuration; gone when the test ends.
#[derive(Debug)]
pub struct World {
    dir: TempDir,
}

impl World {
    /// Makes data of the made-up world and a configuration for it.
    ///
    /// # Panics
    /// The temporary folder cannot be written.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        generate(&dir.path().join("data"), 42, SIZES).expect("data are written");
        let world = Self { dir };
        world.write("config.yaml", CONFIG);
        world
    }

    /// Returns the path of something in this folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file in this folder, with the folders above it.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        let folder = path.parent().expect("it is in this folder");
        std::fs::create_dir_all(folder).expect("a folder is made");
        std::fs::write(&path, content).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }

    /// Writes a program in this folder, with the folders above it, and returns its path: one of the
    /// shell, unless its first line says another.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn program(&self, name: &str, script: &str) -> PathBuf {
        let head = if script.starts_with("#!") {
            ""
        } else {
            "#!/bin/bash\n"
        };
        self.write(name, format!("{head}{script}\n"));
        let path = self.path(name);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        path
    }

    /// Reads a text file of this folder.
    ///
    /// # Panics
    /// It cannot be read.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"))
    }

    /// Reads a JSON file of this folder.
    ///
    /// # Panics
    /// It cannot be read, or is no JSON.
    #[must_use]
    pub fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Makes the call `skillopt train` with models at `url`, started in this folder.
    #[must_use]
    pub fn train(&self, out: &str, url: &str, more: &[&str]) -> Command {
        let url = format!("model.openai_compatible_base_url={url}");
        let args = ["train", "config.yaml", "--out", out, "--set", &url];
        let mut command = command(args.iter().chain(more));
        command.current_dir(self.dir.path());
        command
    }

    /// Makes the call `skillopt eval` of the skill `skill.md` on the val split, started in this folder;
    /// `settings` come after `--set`, and whatever else.
    #[must_use]
    pub fn eval(&self, out: &str, settings: &[&str]) -> Command {
        let head = ["eval", "config.yaml", "--skill", "skill.md"];
        let tail = ["--split", "val", "--out", out, "--set"];
        let mut command = command(head.iter().chain(&tail).chain(settings));
        command.current_dir(self.dir.path());
        command
    }

    /// Trains to the end and returns the run folder.
    ///
    /// # Panics
    /// The exit code is not 0.
    #[track_caller]
    pub fn trained(&self, out: &str, url: &str, more: &[&str]) -> PathBuf {
        self.ended(out, url, more).code(0);
        self.path(out)
    }

    /// Trains until the program ends.
    ///
    /// # Panics
    /// It does not end.
    #[track_caller]
    pub fn ended(&self, out: &str, url: &str, more: &[&str]) -> Ended {
        run(&mut self.train(out, url, more))
    }

    /// Checks that two runs came to the same.
    ///
    /// # Panics
    /// They did not.
    #[track_caller]
    pub fn same(&self, left: &str, right: &str) {
        folder::same(&self.path(left), &self.path(right));
    }

    /// Returns the store of a run.
    #[must_use]
    pub fn store(&self, out: &str) -> PathBuf {
        self.path(out).join(".skillopt/store.sqlite")
    }

    /// Returns what a run folder says of itself, as `state: cause`.
    ///
    /// # Panics
    /// It says nothing.
    #[must_use]
    pub fn status(&self, out: &str) -> String {
        let value = self.json(&format!("{out}/.skillopt/status.json"));
        let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", word("state"), word("cause"))
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}
