//! Running steps one after the other and saying at the end how each went.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A list of steps that have run.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<(String, bool, Duration)>,
}

impl Steps {
    /// Runs a command; its failure is kept for the end, so that one call shows every failure.
    #[expect(
        clippy::disallowed_methods,
        reason = "shown to people, decides nothing"
    )]
    pub(crate) fn run(&mut self, name: &str, mut command: Command) {
        println!("── {name}");
        let start = Instant::now();
        let passed = match command.status() {
            Ok(status) => status.success(),
            Err(error) => {
                eprintln!("error: `{command:?}` cannot be started: {error}");
                false
            }
        };
        self.done.push((name.to_owned(), passed, start.elapsed()));
    }

    /// Prints a line for each step and returns the code of all: 0 if every one passed, else 1.
    pub(crate) fn finish(&self) -> ExitCode {
        println!();
        for (name, passed, took) in &self.done {
            let mark = if *passed { "ok    " } else { "FAILED" };
            println!("{mark} {name} ({:.1} s)", took.as_secs_f64());
        }
        let failed = self.done.iter().filter(|(_, passed, _)| !passed).count();
        println!("{} passed, {failed} failed", self.done.len() - failed);
        if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
