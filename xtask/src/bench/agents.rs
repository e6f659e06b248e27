//! What agent CLIs need, alone and many at once, against a scripted model on this machine.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{Figure, Goal, example};
use crate::prerequisites;

/// What the bench tells: backend, name, tasks at once.
const CASES: [(&str, &str, &[u32]); 6] = [
    ("codex_exec", "Codex", &[1, 4, 12]),
    ("claude_code_exec", "Claude Code", &[1, 4, 12]),
    ("copilot_exec", "Copilot", &[1, 4]),
    ("opencode_exec", "opencode", &[1, 4]),
    ("gemini_exec", "Gemini CLI", &[1, 4]),
    ("qwen_code_exec", "Qwen Code", &[1, 4]),
];

pub(super) fn figures(program: &Path) -> Result<Vec<Figure>> {
    let program = program
        .to_str()
        .context("the path of the program is no text")?;
    let clis = prerequisites::clis()?.join("node_modules/.bin");
    let rest = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{rest}", clis.display());
    let told = example::told("skillopt-agents", &[], "agents_bench", &[program, &path])?;
    let mut figures = Vec::new();
    for (backend, name, at_once) in CASES {
        for n in at_once {
            let number = |what: &str| example::number(&told, &format!("{backend}_{n}_{what}"));
            let mut figure = |what: &str, value: f64, unit: &'static str| {
                let name = format!("{name}, {n} at once: {what}");
                figures.push(Figure::new(name, value, unit, Goal::None));
            };
            figure("memory of all", number("memory_mib")?, "MiB");
            figure("processor time of each", number("cpu_s")?, "s");
            figure("until all were done", number("wall_s")?, "s");
        }
    }
    Ok(figures)
}
