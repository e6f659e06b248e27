//! A run on a terminal, and what its keys do. No key destroys anything.

use std::time::Duration;

use skillopt_coordinator::read_model::{StepRow, is_over, plural, share};
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::Stopwatch;

use super::{Source, ending};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::words::amount;
use crate::tui::{Ask, Key, Look, Pane, Screen, Terminal, frame_run};

/// How often keys are looked for.
const TICK: Duration = Duration::from_millis(40);

/// How long the answer to a key may take.
const ANSWER: Duration = Duration::from_secs(10);

/// What is shown about the selected step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Why,
    Diff,
    Tasks,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    Leave,
    Interrupt,
    Pause,
    Show(Option<About>),
}

/// Shows the run until it is over or the person leaves. A run that was over before stays.
///
/// # Errors
/// The run cannot be read any more, or the terminal is gone.
pub(super) async fn follow(
    source: &mut Source,
    mut screen: Screen,
    look: Look,
    shutdown: &Shutdown,
) -> Result<Exit, Failure> {
    let mut terminal = Terminal::take(look)?;
    let was_over = is_over(&screen.view.run.state);
    let mut about = None;
    let mut looked = Stopwatch::start();
    let mut is_new = true;
    loop {
        if looked.elapsed() >= source.pause() && !screen.is_held {
            let before = screen.view.steps.len();
            let next = source.look(&mut screen);
            match shutdown.drain.run_until_cancelled(next).await {
                Some(seen) => seen?,
                None => return Ok(Exit::Interrupted),
            }
            stay(&mut screen, before, about);
            looked = Stopwatch::start();
            is_new = true;
        }
        while let Some(key) = terminal.key()? {
            is_new = true;
            match press(&mut screen, key, about) {
                Wish::Nothing => {}
                Wish::Leave => {
                    return Ok(if Source::is_at_rest(&screen) {
                        ending(&screen)
                    } else {
                        Exit::Done
                    });
                }
                Wish::Interrupt => return Ok(Exit::Interrupted),
                Wish::Pause => screen.message = source.pause_run().await,
                Wish::Show(what) => about = what,
            }
        }
        if is_new {
            screen.pane = source.pane(&screen, about);
            terminal.draw(frame_run(&screen, terminal.size()?, look))?;
            is_new = false;
        }
        if is_over(&screen.view.run.state) && !was_over {
            return Ok(ending(&screen));
        }
        tokio::select! {
            () = shutdown.drain.cancelled() => return Ok(Exit::Interrupted),
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

/// Keeps the person's step selected when new ones come; who looks at the latest sees the new one.
fn stay(screen: &mut Screen, before: usize, about: Option<About>) {
    if screen.selected > 0 || about.is_some() {
        screen.selected += screen.view.steps.len().saturating_sub(before);
    }
}

/// Takes in a key.
fn press(screen: &mut Screen, key: Key, about: Option<About>) -> Wish {
    screen.message.clear();
    if screen.ask.take() == Some(Ask::Pause) {
        return match key {
            Key::Char('y' | 'Y') => Wish::Pause,
            Key::Interrupt => Wish::Interrupt,
            _ => Wish::Nothing,
        };
    }
    let toggled = |what| Wish::Show(Some(what).filter(|what| Some(*what) != about));
    match key {
        Key::Interrupt => Wish::Interrupt,
        Key::Char('q') => Wish::Leave,
        Key::Char('j') | Key::Down => {
            let last = screen.view.steps.len().saturating_sub(1);
            screen.selected = (screen.selected + 1).min(last);
            Wish::Nothing
        }
        Key::Char('k') | Key::Up => {
            screen.selected = screen.selected.saturating_sub(1);
            Wish::Nothing
        }
        Key::Char('.') => {
            screen.is_held = !screen.is_held;
            Wish::Nothing
        }
        Key::Char('d') => toggled(About::Diff),
        Key::Char('t') => toggled(About::Tasks),
        Key::Enter => match about {
            Some(_) => Wish::Show(None),
            None => toggled(About::Why),
        },
        Key::Escape => Wish::Show(None),
        Key::Char('p') if screen.can_pause => {
            screen.ask = Some(Ask::Pause);
            Wish::Nothing
        }
        Key::Char('p') => {
            "a run of this machine is paused with Ctrl-C where it runs"
                .clone_into(&mut screen.message);
            Wish::Nothing
        }
        Key::Char(_) | Key::Resize => Wish::Nothing,
    }
}

impl Source {
    /// Pauses the run; returns what became of it.
    async fn pause_run(&self) -> String {
        match self {
            Self::Local(_) => String::new(),
            // Meanwhile no key is heard.
            Self::Cluster(cluster) => tokio::time::timeout(ANSWER, cluster.pause())
                .await
                .unwrap_or_else(|_| "nobody answered; the run may be paused or not".to_owned()),
        }
    }

    /// Returns what stands below the chart.
    fn pane(&self, screen: &Screen, about: Option<About>) -> Pane {
        let steps = &screen.view.steps;
        let row = steps
            .iter()
            .rev()
            .nth(screen.selected.min(steps.len().saturating_sub(1)));
        let (Some(about), Some(row)) = (about, row) else {
            return Pane::Steps;
        };
        let lines = match (about, self) {
            (About::Why, _) => why(row),
            (About::Diff, Self::Local(local)) => local.diff(row),
            (About::Tasks, Self::Local(local)) => local.tasks(row),
            (_, Self::Cluster(_)) => vec![format!(
                "it is in the run's folder, which `skillopt export {}` fetches",
                screen.view.run.run
            )],
        };
        let slow = if row.slow { ", slow update" } else { "" };
        let what = match about {
            About::Why => "why",
            About::Diff => "what the candidate changes",
            About::Tasks => "tasks of the val split",
        };
        Pane::Text {
            title: format!("step {}{slow} · {} · {what}", row.step, row.verdict.word()),
            lines,
        }
    }
}

fn why(row: &StepRow) -> Vec<String> {
    let mut lines = vec![format!("{}.", row.reason())];
    if let Some(n) = row.rollout_n {
        let of = plural(n, "train rollout");
        lines.push(format!("{} on {of}", share(row.rollout)));
    }
    let budget = row
        .edit_budget
        .map_or_else(String::new, |b| format!(" (at most {b})"));
    if let (Some(patches), Some(edits)) = (row.patches, row.edits) {
        lines.push(format!(
            "{}, {}{budget}",
            plural(patches, "proposal"),
            plural(edits, "edit")
        ));
    }
    if row.tokens.calls > 0 {
        lines.push(format!(
            "{}, {} tokens sent, {} received",
            plural(row.tokens.calls, "call"),
            amount(row.tokens.prompt_tokens),
            amount(row.tokens.completion_tokens)
        ));
    }
    if row.stale {
        lines.push("the kept text changed and was not measured again".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(steps: usize, can_pause: bool) -> Screen {
        let mut screen = Screen {
            can_pause,
            ..Screen::default()
        };
        screen.view.steps = vec![StepRow::default(); steps];
        screen
    }

    #[test]
    fn keys_move_and_stay_within_the_rows() {
        let mut screen = screen(3, false);
        for (key, want) in [('k', 0), ('j', 1), ('j', 2), ('j', 2), ('k', 1), ('x', 1)] {
            assert_eq!(press(&mut screen, Key::Char(key), None), Wish::Nothing);
            assert_eq!(screen.selected, want);
        }
    }

    #[test]
    fn new_steps_do_not_move_the_one_that_is_looked_at() {
        for (selected, about, want) in [(0, None, 0), (1, None, 3), (0, Some(About::Diff), 2)] {
            let mut screen = screen(5, false);
            screen.selected = selected;
            stay(&mut screen, 3, about);
            assert_eq!(screen.selected, want);
        }
    }

    #[test]
    fn a_pause_is_asked_for_first_and_only_where_it_can_be() {
        let mut far = screen(1, true);
        assert_eq!(press(&mut far, Key::Char('p'), None), Wish::Nothing);
        assert_eq!(far.ask, Some(Ask::Pause));
        assert_eq!(press(&mut far, Key::Char('n'), None), Wish::Nothing);
        assert_eq!(far.ask, None);
        press(&mut far, Key::Char('p'), None);
        assert_eq!(press(&mut far, Key::Char('y'), None), Wish::Pause);
        let mut near = screen(1, false);
        assert_eq!(press(&mut near, Key::Char('p'), None), Wish::Nothing);
        assert_eq!(near.ask, None);
        assert!(!near.message.is_empty());
        assert_eq!(press(&mut near, Key::Char('y'), None), Wish::Nothing);
    }

    #[test]
    fn panes_open_and_close() {
        let mut screen = screen(1, false);
        for (key, about, want) in [
            (Key::Enter, None, Some(About::Why)),
            (Key::Enter, Some(About::Diff), None),
            (Key::Char('d'), Some(About::Why), Some(About::Diff)),
            (Key::Char('d'), Some(About::Diff), None),
            (Key::Char('t'), None, Some(About::Tasks)),
            (Key::Escape, Some(About::Tasks), None),
        ] {
            assert_eq!(press(&mut screen, key, about), Wish::Show(want));
        }
        assert_eq!(press(&mut screen, Key::Char('q'), None), Wish::Leave);
        assert_eq!(press(&mut screen, Key::Interrupt, None), Wish::Interrupt);
    }
}
