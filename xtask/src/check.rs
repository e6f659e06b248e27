//! `cargo xtask check`: everything that can be said without running the program.

use std::process::{ExitCode, Stdio};

use crate::cargo::cargo;
use crate::prerequisites;
use crate::steps::Steps;

/// Checks format, lints, documentation, structure and generated pages.
///
/// # Errors
/// Something that the checks need is missing.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    prerequisites::c_compiler()?;
    prerequisites::rust_components()?;
    let mut steps = Steps::default();
    let mut lock = cargo(&["metadata", "--locked", "--format-version", "1"]);
    lock.stdout(Stdio::null());
    steps.run("lock file", lock);
    steps.run("format", cargo(&["fmt", "--all", "--check"]));
    steps.run(
        "lints",
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    );
    let mut doc = cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    steps.run("documentation", doc);
    // The whole workspace, though one file is run: so the same build serves `cargo xtask test`.
    steps.run(
        "structure and generated pages",
        cargo(&["test", "--workspace", "--test", "tidy", "--quiet"]),
    );
    Ok(steps.finish())
}
