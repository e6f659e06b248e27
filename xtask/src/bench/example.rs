//! Benches that stand as an example beside the code that they measure, and print one JSON object.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::cargo::cargo;

/// Runs the example `name` of `package`, optimised, and returns what it prints. `features` are cargo's
/// flags, `args` the example's.
pub(super) fn told(package: &str, features: &[&str], name: &str, args: &[&str]) -> Result<Value> {
    let head = ["run", "--quiet", "--release", "--package", package];
    let words = [&head, features, &["--example", name, "--"], args].concat();
    let output = cargo(&words)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    ensure!(
        output.status.success(),
        "the bench ended with {}",
        output.status
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns a number that a bench told.
pub(super) fn number(told: &Value, name: &str) -> Result<f64> {
    let number = told[name].as_f64();
    number.with_context(|| format!("the bench does not tell `{name}`"))
}
