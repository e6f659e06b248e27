//! `cargo xtask test`: every test of the workspace.

use std::process::ExitCode;

use crate::cargo::cargo;
use crate::prerequisites;
use crate::steps::Steps;

/// Runs all tests, with cargo-nextest where it is installed.
///
/// # Errors
/// Something that the build needs is missing.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    prerequisites::c_compiler()?;
    let mut steps = Steps::default();
    if prerequisites::has_nextest() {
        steps.run(
            "tests (nextest)",
            cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]),
        );
    } else {
        // Libraries, programs and test files, but not the examples in the documentation: those
        // come next, in both cases in the same way.
        steps.run(
            "tests",
            cargo(&[
                "test",
                "--workspace",
                "--no-fail-fast",
                "--lib",
                "--bins",
                "--tests",
            ]),
        );
    }
    steps.run(
        "examples in the documentation",
        cargo(&["test", "--workspace", "--doc", "--quiet"]),
    );
    Ok(steps.finish())
}
