//! Calls of a cluster, made in the folder of a [`World`].

use std::process::Command;

use super::program::{Ended, run};
use super::wait::until;
use super::{Cluster, World};

impl World {
    /// Makes a call to a cluster, started in this folder.
    #[must_use]
    pub fn ask(&self, cluster: &Cluster, args: &[&str]) -> Command {
        let mut command = cluster.command(args);
        command.current_dir(self.path(""));
        command
    }

    /// Makes the call `skillopt submit train --wait` with models at `url`.
    #[must_use]
    pub fn submit(&self, cluster: &Cluster, out: &str, url: &str, more: &[&str]) -> Command {
        let url = format!("model.openai_compatible_base_url={url}");
        let args = [
            "submit",
            "train",
            "config.yaml",
            "--wait",
            "--out",
            out,
            "--set",
            &url,
        ];
        let mut command = self.ask(cluster, &args);
        command.args(more);
        command
    }

    /// Makes the call `skillopt submit eval --wait` of `skill.md` on the val split; `settings` come after
    /// `--set`.
    #[must_use]
    pub fn submit_eval(&self, cluster: &Cluster, out: &str, settings: &[&str]) -> Command {
        let head = [
            "submit",
            "eval",
            "config.yaml",
            "--skill",
            "skill.md",
            "--wait",
        ];
        let tail = ["--split", "val", "--out", out, "--set"];
        let mut command = self.ask(cluster, &[&head[..], &tail].concat());
        command.args(settings);
        command
    }

    /// Trains on a cluster to the end.
    ///
    /// # Panics
    /// The exit code is not 0; the message shows what the processes of the cluster said.
    #[track_caller]
    pub fn trained_on(&self, cluster: &Cluster, out: &str, url: &str, more: &[&str]) -> Ended {
        let ended = run(&mut self.submit(cluster, out, url, more));
        assert!(
            ended.status.success(),
            "{}\n{}\n{}\n{}",
            ended.status,
            ended.stdout,
            ended.stderr,
            cluster.said()
        );
        ended
    }

    /// Returns the id of the run that was submitted for a folder, as soon as there is one: whoever
    /// submits in the background may not have come so far.
    ///
    /// # Panics
    /// None was.
    #[must_use]
    pub fn run_id(&self, out: &str) -> String {
        let marker = format!("{out}/.skillopt/cluster.json");
        let mut id = String::new();
        until("a run is submitted", || {
            // The key is written before the run is known.
            if self.path(&marker).is_file() {
                let marker = self.json(&marker);
                marker["run"]
                    .as_str()
                    .unwrap_or_default()
                    .clone_into(&mut id);
            }
            !id.is_empty()
        });
        id
    }
}
