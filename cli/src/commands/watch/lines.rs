//! A run as lines, for logs and programs: one for each thing that happened.

use std::time::Duration;

use serde_json::json;
use skillopt_coordinator::read_model::{
    RunRow, evaluation_headline, harmless, headline, is_over, share,
};
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::Stopwatch;

use super::{Source, ending};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::progress::step_line;
use crate::output::{Out, Tone};
use crate::tui::Screen;

/// Time after which it is said again that nobody answers.
const AGAIN: Duration = Duration::from_secs(30);

/// What was told.
#[derive(Default)]
struct Told {
    run: Option<RunRow>,
    steps: usize,
    /// Since it was last said that nobody answers.
    away: Option<Stopwatch>,
}

/// Tells what happens until the run is over, or waits for a person.
///
/// # Errors
/// The run cannot be read any more.
pub(super) async fn follow(
    source: &mut Source,
    mut screen: Screen,
    out: &Out,
    shutdown: &Shutdown,
) -> Result<Exit, Failure> {
    let mut told = Told::default();
    loop {
        told.tell(&screen, out);
        if out.is_broken() {
            return Ok(Exit::Done);
        }
        if Source::is_at_rest(&screen) {
            end(&screen, out);
            return Ok(ending(&screen));
        }
        let next = async {
            tokio::time::sleep(source.pause()).await;
            source.look(&mut screen).await
        };
        match shutdown.drain.run_until_cancelled(next).await {
            Some(looked) => looked?,
            None => return Ok(Exit::Interrupted),
        }
    }
}

/// Tells all rows as they are now.
pub(super) fn tell_all(screen: &Screen, out: &Out) {
    run_row(screen, out);
    for row in &screen.view.steps {
        out.object("step", json!(row));
    }
}

impl Told {
    fn tell(&mut self, screen: &Screen, out: &Out) {
        let run = &screen.view.run;
        match (&screen.link, &self.away) {
            (Some(words), told) if told.as_ref().is_none_or(|at| at.elapsed() >= AGAIN) => {
                out.chat(words);
                self.away = Some(Stopwatch::start());
            }
            (None, Some(_)) => {
                out.chat("The coordinator answers again.");
                self.away = None;
            }
            _ => {}
        }
        let before = self.run.replace(run.clone());
        if out.json {
            let is_new = before.as_ref().is_none_or(|before| {
                (before.baseline, &before.state, &before.test)
                    != (run.baseline, &run.state, &run.test)
            });
            if is_new {
                run_row(screen, out);
            }
        } else if run.baseline.is_some() && before.is_none_or(|before| before.baseline.is_none()) {
            out.line(format!(
                "start      {} on the val split",
                share(run.baseline)
            ));
        }
        for row in screen.view.steps.iter().skip(self.steps) {
            if out.json {
                out.object("step", json!(row));
            } else {
                out.line(step_line(row, run.steps_total, out.paint));
            }
        }
        self.steps = screen.view.steps.len();
    }
}

fn run_row(screen: &Screen, out: &Out) {
    match &screen.view.evaluation {
        Some(row) => out.object(
            "evaluation",
            json!({"headline": evaluation_headline(row), "evaluation": row, "notice": screen.notice}),
        ),
        None => out.object(
            "run",
            json!({"headline": headline(&screen.view.run), "run": screen.view.run, "notice": screen.notice}),
        ),
    }
}

/// Says how the run stands at the end.
fn end(screen: &Screen, out: &Out) {
    if out.json {
        return;
    }
    let said = match &screen.view.evaluation {
        Some(row) => evaluation_headline(row),
        None => headline(&screen.view.run),
    };
    let state = &screen.view.run.state;
    let tone = if is_over(state) {
        Tone::Strong
    } else {
        Tone::Warn
    };
    let cause = screen.notice.as_ref().and_then(|n| n.cause.as_deref());
    match cause.filter(|cause| *cause != "interrupted") {
        Some(cause) => out.line(format!(
            "{}: {}",
            out.paint.of(tone, state),
            harmless(cause)
        )),
        None => out.line(out.paint.of(tone, state)),
    }
    out.line(said.first);
    out.line(said.second);
    if let Some(fix) = screen.notice.as_ref().and_then(|n| n.fix.as_deref()) {
        out.line(format!("fix: {fix}"));
    }
}
