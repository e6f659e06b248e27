//! How long a finished run had to take at least: its calls, and which of them must follow one
//! another.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Lower bounds of one run with calls of one second.
pub(super) struct Bounds {
    /// What no program can beat: the longest chain of dependent calls with unlimited slots, or all
    /// calls spread evenly over the slots, whichever is longer. It supposes that every slot can
    /// always be busy.
    pub(super) free_s: f64,
    /// The same chain with each stage taking as many waves as the slots need for it: what is left
    /// when stages that depend on each other cannot fill each other's idle slots.
    pub(super) dependent_s: f64,
}

struct Tally {
    slots: f64,
    optimizer_slots: f64,
    chain: f64,
    dependent: f64,
    target_calls: f64,
    optimizer_calls: f64,
}

impl Tally {
    fn waves(&self, n: f64) -> f64 {
        (n / self.slots).ceil()
    }

    /// A rollout stage on the way to the next decision.
    fn target(&mut self, n: f64) {
        self.target_calls += n;
        if n > 0.0 {
            self.chain += 1.0;
            self.dependent += self.waves(n);
        }
    }

    /// A rollout stage that nothing waits for.
    fn aside(&mut self, n: f64) {
        self.target_calls += n;
    }

    /// Rollouts that nothing waits for, but that wait for the last skill.
    fn late(&mut self, n: f64) {
        self.target_calls += n;
        self.dependent += self.waves(n);
    }

    /// Optimizer calls of which `in_sequence` follow one another.
    fn optimizer(&mut self, n: f64, in_sequence: f64) {
        self.optimizer_calls += n;
        self.chain += in_sequence;
        self.dependent += in_sequence;
    }
}

/// Levels and calls of a merge tree over `patches`.
fn tree(mut patches: usize, size: usize) -> (f64, f64) {
    let (mut levels, mut calls) = (0.0, 0.0);
    while patches > 1 {
        levels += 1.0;
        let rest = patches % size;
        calls += (patches / size) as f64 + f64::from(u8::from(rest > 1));
        patches = patches.div_ceil(size);
    }
    (levels, calls)
}

/// Reads a finished run folder.
pub(super) fn bounds(root: &Path, slots: usize) -> Result<Bounds> {
    let read = |name: &str| -> Result<Value> {
        let bytes = std::fs::read(root.join(name)).with_context(|| name.to_owned())?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    let (config, history) = (read("config.json")?, read("history.json")?);
    let rows = |stage: &str| -> f64 {
        std::fs::read_to_string(root.join(stage).join("results.jsonl"))
            .map_or(0.0, |t| t.lines().count() as f64)
    };
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or(0.0);
    let merge_size = number(&config, "merge_batch_size") as usize;
    let mut tally = Tally {
        slots: slots as f64,
        optimizer_slots: (slots as f64).min(16.0),
        chain: 0.0,
        dependent: 0.0,
        target_calls: 0.0,
        optimizer_calls: 0.0,
    };
    tally.target(rows("selection_eval_baseline"));
    for record in history.as_array().context("history.json is no list")? {
        let step = format!("steps/step_{:04}", number(record, "step"));
        tally.target(number(record, "rollout_n"));
        let analysts = number(record, "rollout_n") / number(&config, "minibatch_size");
        tally.optimizer(analysts.ceil(), 1.0);
        let sides =
            ["n_failure_patches", "n_success_patches"].map(|name| number(record, name) as usize);
        let trees = sides.map(|patches| tree(patches, merge_size));
        tally.optimizer(trees[0].1 + trees[1].1, trees[0].0.max(trees[1].0));
        if sides.iter().all(|patches| *patches > 0) {
            tally.optimizer(1.0, 1.0);
        }
        if number(record, "n_edits_merged") > number(record, "edit_budget") {
            tally.optimizer(1.0, 1.0);
        }
        tally.target(rows(&format!("{step}/selection_eval")));
    }
    for epoch in 2..=number(&config, "num_epochs") as usize {
        let folder = format!("slow_update/epoch_{epoch:02}");
        tally.target(
            rows(&format!("{folder}/rollout_prev")) + rows(&format!("{folder}/rollout_curr")),
        );
        tally.optimizer(2.0, 1.0);
    }
    tally.aside(rows("test_eval_baseline"));
    tally.late(rows("final_selection_eval") + rows("test_eval_final"));
    tally.target(rows("test_eval"));
    let spread =
        (tally.target_calls / tally.slots).max(tally.optimizer_calls / tally.optimizer_slots);
    Ok(Bounds {
        free_s: tally.chain.max(spread),
        dependent_s: tally.dependent.max(spread),
    })
}
