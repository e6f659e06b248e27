//! What the relay between an agent and its model costs, against a scripted model on this machine.

use anyhow::Result;

use super::{Figure, Goal, example};

pub(super) fn figures() -> Result<Vec<Figure>> {
    let told = example::told("skillopt-agents", &[], "relay_bench", &[])?;
    let number = |name: &str| example::number(&told, name);
    let (small, large) = (number("small_us")?, number("large_us")?);
    let stream = number("stream_us")?;
    Ok(vec![
        Figure::new(
            "a request of 1 KiB and its answer",
            small,
            "us CPU",
            Goal::AtMost(100.0),
        ),
        Figure::new(
            "  with the answer as a stream of 20 events",
            stream,
            "us CPU",
            Goal::AtMost(100.0),
        ),
        Figure::new(
            "  each event of it, handed on by itself",
            (stream - small) / 20.0,
            "us CPU",
            Goal::None,
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
