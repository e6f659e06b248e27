//! What the relay between an agent and its model costs, against a scripted model on this machine.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Figure, Goal};
use crate::cargo::cargo;

pub(super) fn figures() -> Result<Vec<Figure>> {
    let mut command = cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "skillopt-agents",
        "--example",
        "relay_bench",
    ]);
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
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
    let (small, large) = (number("small_us")?, number("large_us")?);
    Ok(vec![
        Figure::new(
            "a request of 1 KiB and its answer",
            small,
            "us CPU",
            Goal::AtMost(100.0),
        ),
        Figure::new(
            "  with the answer as a stream of 20 events",
            number("stream_us")?,
            "us CPU",
            Goal::AtMost(100.0),
        ),
        Figure::new(
            "  translated to Chat Completions, streaming",
            number("translated_us")?,
            "us CPU",
            Goal::None,
        ),
        Figure::new(
            "  each further KiB of the request",
            (large - small) / 199.0,
            "us CPU",
            Goal::None,
        ),
    ])
}
