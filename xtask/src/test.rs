//! `cargo xtask test`: every test of the workspace.

use std::process::ExitCode;

use crate::cargo::{cargo, target};
use crate::prerequisites;
use crate::steps::Steps;

const NEXTEST: &[&str] = &["nextest", "run", "--workspace", "--no-fail-fast"];
/// Libraries, programs and test files, but not the examples in the documentation: those come next,
/// in both cases in the same way.
const CARGO_TEST: &[&str] = &[
    "test",
    "--workspace",
    "--no-fail-fast",
    "--lib",
    "--bins",
    "--tests",
];

/// Runs all tests, with cargo-nextest where it is installed.
///
/// # Errors
/// Something that the build needs is missing.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    prerequisites::c_compiler()?;
    prerequisites::servers()?;
    let valkey = prerequisites::valkey()?;
    let clients = prerequisites::clients()?;
    let clis = prerequisites::clis()?;
    let object_servers = prerequisites::object_servers()?;
    let mut steps = Steps::default();
    let (name, words) = if prerequisites::has_nextest() {
        ("tests (nextest)", NEXTEST)
    } else {
        ("tests", CARGO_TEST)
    };
    let mut tests = cargo(words);
    tests.env("SKILLOPT_VALKEY", valkey);
    tests.env("SKILLOPT_PYTHON_CLIENTS", clients);
    tests.env("SKILLOPT_CLIS", clis);
    tests.env("SKILLOPT_OBJECT_SERVERS", object_servers);
    // The command line's own tests have it built before the first test begins. A build in the midst
    // of a test would take the time that the test has.
    if std::env::var_os("SKILLOPT_BIN").is_none() {
        let program = std::path::absolute(target().join("debug/skillopt"))?;
        tests.env("SKILLOPT_BIN", program);
    }
    steps.run(name, tests);
    steps.run(
        "examples in the documentation",
        cargo(&["test", "--workspace", "--doc", "--quiet"]),
    );
    Ok(steps.finish())
}
