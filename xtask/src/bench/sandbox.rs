//! Programs shut in: what it costs beside starting them, one after another and fifty at once.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Figure, Goal};
use crate::cargo::cargo;

pub(super) fn figures(program: &Path) -> Result<Vec<Figure>> {
    let mut command = cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "skillopt-sandbox",
        "--example",
        "sandbox_bench",
        "--",
    ]);
    let output = command
        .arg(program)
        .stderr(std::process::Stdio::inherit())
        .output()?;
    ensure!(
        output.status.success(),
        "the bench ended with {}",
        output.status
    );
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| {
        told[name]
            .as_f64()
            .with_context(|| format!("the bench does not tell `{name}`"))
    };
    Ok(vec![
        Figure::new(
            "a program that does nothing, shut in, median",
            number("median_ms")?,
            "ms",
            Goal::AtMost(15.0),
        ),
        Figure::new("  fastest", number("min_ms")?, "ms", Goal::None),
        Figure::new("  90th percentile", number("p90_ms")?, "ms", Goal::None),
        Figure::new(
            "fifty of them at once",
            number("at_once_s")?,
            "s",
            Goal::AtMost(2.0),
        ),
    ])
}
