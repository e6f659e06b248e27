//! How a run is doing: bars on a terminal, plain lines elsewhere, objects with `--json`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use skillopt_coordinator::progress::{Progress, Watcher};
use skillopt_coordinator::read_model::{RunView, StepRow, Verdict, points, share};
use skillopt_runtime::Shutdown;

use super::providers::Change;
use super::words::{number, plural};
use super::{Out, Paint, Tone};

/// Stages below this size are told of only when they are done.
const LONG_STAGE: usize = 200;
/// Folder of the first measurement.
const BASELINE: &str = "selection_eval_baseline";

/// Tells what a run does, and keeps its rows.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<Shared>);

struct Shared {
    out: Out,
    shutdown: Shutdown,
    state: Mutex<State>,
    bars: Option<MultiProgress>,
}

#[derive(Default)]
struct State {
    view: RunView,
    /// The bar of all steps.
    steps: Option<ProgressBar>,
    /// Rollouts that are in, by stage.
    stages: BTreeMap<String, Stage>,
}

#[derive(Default)]
struct Stage {
    done: usize,
    of: usize,
    told: usize,
    bar: Option<ProgressBar>,
}

impl Reporter {
    pub(crate) fn new(out: &Out, run: &str, shutdown: &Shutdown) -> Self {
        let bars = out
            .bars
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)));
        let state = State {
            view: RunView::new(run),
            ..State::default()
        };
        Self(Arc::new(Shared {
            out: out.clone(),
            shutdown: shutdown.clone(),
            state: Mutex::new(state),
            bars,
        }))
    }

    /// Returns the ear that a session and a log are given.
    pub(crate) fn watcher(&self) -> Watcher {
        let me = self.clone();
        Watcher::new(move |news| me.tell(&news))
    }

    /// Returns the rows seen so far.
    pub(crate) fn view(&self) -> RunView {
        self.state().view.clone()
    }

    /// Returns how many rollouts of the initial skill on the val split are in, while it is
    /// measured.
    pub(crate) fn baseline_in(&self) -> Option<u64> {
        self.state().view.run.baseline_in
    }

    /// Tells that `n` calls failed and wait to be tried again.
    pub(crate) fn retrying(&self, n: usize) {
        if self.0.out.json {
            self.0.out.object("retrying", json!({"calls": n}));
        } else {
            let calls = plural(n as u64, "call");
            self.line(&format!(
                "{calls} failed and will be tried again; the run pauses if that does not help"
            ));
        }
    }

    /// Tells that a provider is doing worse, or better.
    pub(crate) fn provider(&self, change: &Change) {
        if self.0.out.json {
            let account = &change.account;
            let row = json!({
                "account": account.name, "state": change.state, "throttled": account.throttled,
                "failed": account.failed,
            });
            self.0.out.object("provider", row);
        } else {
            self.line(&change.words);
        }
    }

    /// Says a line above the bars; programs get none.
    pub(crate) fn say(&self, text: &str) {
        if !self.0.out.json && !self.0.out.quiet {
            self.line(text);
        }
    }

    /// Takes the bars away.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        if let Some(steps) = state.steps.take() {
            steps.finish_and_clear();
        }
        for stage in state.stages.values_mut() {
            if let Some(bar) = stage.bar.take() {
                bar.finish_and_clear();
            }
        }
        if let Some(bars) = &self.0.bars {
            drop(bars.clear());
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Only numbers are kept under this lock: they are whole after a panic, too.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells one piece of news.
    pub(crate) fn tell(&self, news: &Progress<'_>) {
        match news {
            Progress::Rolled { stage, n, of } => self.rolled(stage, *n, *of),
            Progress::Unread { stage, read, of } => self.unread(stage, *read, *of),
            Progress::Asked { .. } | Progress::Answered { .. } => {}
            Progress::Committed(event) => self.committed(event),
        }
        if self.0.out.is_broken() {
            // Nobody reads the output any more: stop as after Ctrl-C.
            self.0.shutdown.drain.cancel();
        }
    }

    fn unread(&self, name: &str, read: usize, of: usize) {
        let words = format!(
            "{}: the skill reached the model in {read} of {of} tasks; the others say nothing about it",
            stage_words(name)
        );
        if self.0.out.json {
            self.0.out.object(
                "warning",
                json!({"message": words, "stage": name, "read": read, "of": of}),
            );
        } else {
            let warning = self.0.out.paint_err.of(Tone::Warn, "warning");
            self.line(&format!("{warning}: {words}"));
        }
    }

    fn rolled(&self, name: &str, n: usize, of: usize) {
        let mut state = self.state();
        // A coordinator may tell of a stage's last answers after what came of them.
        if name == BASELINE && state.view.run.baseline.is_none() {
            let is_in = state.view.run.baseline_in.get_or_insert(0);
            // A stage that is made anew is counted once.
            *is_in = (*is_in + n as u64).min(of as u64);
        }
        let stage = state.stages.entry(name.to_owned()).or_default();
        stage.done += n;
        stage.of = of;
        let done = stage.done;
        if let Some(bars) = &self.0.bars {
            let bar = stage.bar.get_or_insert_with(|| bars.add(bar(name, of)));
            bar.set_position(done as u64);
            if done >= of {
                bar.finish_and_clear();
                stage.bar = None;
            }
            return;
        }
        let quarter = if of >= LONG_STAGE {
            done * 4 / of
        } else {
            usize::from(done >= of)
        };
        if quarter <= stage.told {
            return;
        }
        stage.told = quarter;
        drop(state);
        if self.0.out.json {
            self.0
                .out
                .object("progress", json!({"stage": name, "done": done, "of": of}));
        } else {
            self.line(&format!("{}: {done} of {of}", stage_words(name)));
        }
    }

    fn committed(&self, event: &skillopt_coordinator::events::Event) {
        let mut state = self.state();
        let row = state.view.apply(event).cloned();
        let run = state.view.run.clone();
        if let Some(bars) = &self.0.bars {
            let steps = state.steps.get_or_insert_with(|| {
                let total = run.steps_total.and_then(|n| usize::try_from(n).ok());
                bars.add(bar("steps", total.unwrap_or(0)))
            });
            steps.set_position(run.steps_done);
        }
        drop(state);
        if self.0.out.json {
            match (&row, event.kind.as_str()) {
                (Some(row), _) => self.0.out.object("step", json!(row)),
                (None, "started" | "baseline" | "tested") => self.0.out.object("run", json!(run)),
                _ => {}
            }
            return;
        }
        match (&row, event.kind.as_str()) {
            (Some(row), _) => self.line(&step_line(row, run.steps_total, self.0.out.paint_err)),
            (None, "baseline") => {
                self.line(&format!(
                    "start      {} on the val split",
                    share(run.baseline)
                ));
            }
            _ => {}
        }
    }

    fn line(&self, text: &str) {
        match &self.0.bars {
            Some(bars) => drop(bars.println(text)),
            None => self.0.out.chat(text),
        }
    }
}

/// One line about a finished step.
pub(crate) fn step_line(row: &StepRow, of: Option<u64>, paint: Paint) -> String {
    let tone = match row.verdict {
        Verdict::Accepted => Tone::Good,
        Verdict::Refused => Tone::Bad,
        Verdict::CannotTell => Tone::Warn,
        Verdict::Skipped | Verdict::TakenWithoutGate => Tone::Faint,
    };
    let name = if row.slow {
        format!("epoch {} slow update", row.epoch)
    } else {
        format!("step {}/{}", row.step, number(of))
    };
    let verdict = format!("{} {}", row.verdict.mark(), row.verdict.word());
    let change = row
        .change
        .map_or_else(String::new, |c| format!(" {}", points(c)));
    format!(
        "{name:<10} {}{change}  {}",
        paint.of(tone, &verdict),
        paint.of(Tone::Faint, &row.reason())
    )
}

/// Says what a stage's folder means.
pub(crate) fn stage_words(folder: &str) -> String {
    match folder {
        BASELINE => "val split, initial skill".to_owned(),
        "test_eval_baseline" => "test split, initial skill".to_owned(),
        "test_eval" => "test split, best skill".to_owned(),
        "test_eval_final" => "test split, last skill".to_owned(),
        "final_selection_eval" => "val split, last skill".to_owned(),
        other => other
            .split('/')
            .filter(|part| *part != "steps")
            .map(plain)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Writes `step_0012` as `step 12`.
fn plain(part: &str) -> String {
    match part.rsplit_once('_') {
        Some((word, number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
            let number = number.trim_start_matches('0');
            format!("{word} {}", if number.is_empty() { "0" } else { number })
        }
        _ => part.replace('_', " "),
    }
}

fn bar(name: &str, of: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:32!} {wide_bar} {pos}/{len} {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(of as u64)
        .with_style(style)
        .with_message(stage_words(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_in_words() {
        for (folder, want) in [
            ("steps/step_0012/rollout", "step 12, rollout"),
            (
                "steps/step_0001/batch_0/rollout",
                "step 1, batch 0, rollout",
            ),
            (
                "slow_update/epoch_02/rollout_prev",
                "slow update, epoch 2, rollout prev",
            ),
            ("test_eval", "test split, best skill"),
        ] {
            assert_eq!(stage_words(folder), want);
        }
    }
}
