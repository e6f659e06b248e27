//! `cargo xtask generate`: writes the pages that are made from tables in the code.

use std::process::ExitCode;

use crate::cargo::cargo;
use crate::steps::Steps;

/// Tells the tests that compare a page with its table to write the page instead.
const WRITE: &str = "SKILLOPT_BLESS";

/// Writes every generated page anew.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut steps = Steps::default();
    for package in ["skillopt-config", "skillopt-cli"] {
        let mut command = cargo(&["test", "--package", package, "--quiet", "page_is_fresh"]);
        command.env(WRITE, "1");
        steps.run(package, command);
    }
    Ok(steps.finish())
}
