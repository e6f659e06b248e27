//! Programs shut in: what it costs beside starting them, one after another and fifty at once.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{Figure, Goal, example};

pub(super) fn figures(program: &Path) -> Result<Vec<Figure>> {
    let program = program
        .to_str()
        .context("the path of the program is no text")?;
    let told = example::told("skillopt-sandbox", &[], "sandbox_bench", &[program])?;
    let number = |name: &str| example::number(&told, name);
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
