//! The frame of one run.

use ratatui::text::Line;
use skillopt_coordinator::read_model::{
    NoticeRow, RunRow, RunView, StepRow, Verdict, WaitReason, about, amount, count, is_over, money,
    points, share, span, time_of_day,
};
use skillopt_coordinator::read_model::{evaluation_headline, headline};

use super::Size;
use super::chart::chart;
use super::line::Row;
use super::look::{Look, Role};

/// Columns at which the second part of a line begins, where there is room.
const SECOND: usize = 52;
/// Columns from which on there is.
const WIDE: usize = 100;
/// Least and most rows of the chart.
const CHART: (usize, usize) = (7, 22);

/// What stands below the chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    /// The steps, latest first.
    #[default]
    Steps,
    /// Lines about one step: why, its diff, or its tasks.
    Text {
        /// What it is.
        title: String,
        /// The lines.
        lines: Vec<String>,
    },
}

/// Something that a person is asked before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Whether to pause the run.
    Pause,
}

/// All that a frame of a run shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen {
    pub(crate) view: RunView,
    /// What people call the run.
    pub(crate) name: String,
    /// Why it is not going on.
    pub(crate) notice: Option<NoticeRow>,
    /// What is kept, in words.
    pub(crate) kept: String,
    /// The stage under way: its words, rollouts that are in, rollouts.
    pub(crate) stage: Option<(String, u64, u64)>,
    /// Why jobs wait, if somebody knows.
    pub(crate) waits: Option<Vec<WaitReason>>,
    /// When this was so, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// What is wrong with the connection; the numbers keep their time.
    pub(crate) link: Option<String>,
    /// New rows wait until the person lets them.
    pub(crate) is_held: bool,
    /// Place of the selected row, 0 for the latest.
    pub(crate) selected: usize,
    pub(crate) pane: Pane,
    pub(crate) ask: Option<Ask>,
    /// What became of the last key.
    pub(crate) message: String,
    /// Whether the run can be paused from here.
    pub(crate) can_pause: bool,
}

/// Draws a run: pure, the same rows give the same lines.
pub(crate) fn frame_run(screen: &Screen, size: Size, look: Look) -> Vec<Line<'static>> {
    let (columns, rows) = (usize::from(size.columns), usize::from(size.rows));
    let mut lines = top(screen, columns);
    if size.is_enough() {
        let bottom = bottom(screen);
        let room = rows.saturating_sub(lines.len() + bottom.len());
        lines.extend(middle(screen, columns, room));
        // The last lines stand at the edge.
        lines.resize(rows.saturating_sub(bottom.len()), Row::default());
        lines.extend(bottom);
    } else {
        lines.truncate(3);
    }
    lines.truncate(rows);
    lines
        .into_iter()
        .map(|row| row.drawn(columns, look))
        .collect()
}

fn top(screen: &Screen, columns: usize) -> Vec<Row> {
    let run = &screen.view.run;
    let mut lines = vec![title(screen, columns)];
    if let Some(link) = &screen.link {
        lines.push(Row::of(Role::Warn, link));
    }
    if let Some(notice) = &screen.notice {
        lines.extend(notice_rows(notice, &screen.kept));
    }
    if let Some(row) = &screen.view.evaluation {
        let said = evaluation_headline(row);
        lines.push(Row::of(Role::Strong, &said.first));
        lines.push(Row::of(Role::Ink, &said.second));
        return lines;
    }
    let said = headline(run);
    let first = Row::of(Role::Strong, &said.first);
    let near = first.width() + 3;
    let second = if columns >= WIDE {
        SECOND.max(near)
    } else {
        near
    };
    lines.push(first.to(second).put(Role::Faint, &said.second));
    lines.push(figures(run, &screen.view.steps));
    lines
}

fn title(screen: &Screen, columns: usize) -> Row {
    let run = &screen.view.run;
    let mut state = run.state.clone();
    if screen.view.evaluation.is_none() && (!is_over(&state) || run.steps_done > 0) {
        let step = if is_over(&state) || screen.notice.is_some() {
            run.steps_done
        } else {
            // The step that is under way.
            (run.steps_done + 1).min(run.steps_total.unwrap_or(u64::MAX))
        };
        let total = run.steps_total.map_or_else(|| "—".to_owned(), count);
        state.push_str(&format!(" · step {} of {total}", count(step)));
    }
    if let Some((stage, done, of)) = &screen.stage {
        state.push_str(&format!(" · {stage}, {} of {}", count(*done), count(*of)));
    }
    let mut clock = time_of_day(screen.at_ms);
    if screen.is_held {
        clock = format!("held by you · {clock}");
    }
    let name = Row::of(Role::Strong, &screen.name);
    let at = (columns * 3 / 8).max(name.width() + 3);
    let role = match run.state.as_str() {
        "improved" => Role::Better,
        "failed" | "worse at the end" => Role::Worse,
        state if state.starts_with("paused") || state == "stopped" => Role::Warn,
        _ => Role::Ink,
    };
    name.to(at)
        .put(role, &state)
        .right(Role::Faint, &clock, columns)
}

/// Says why a run is not going on, what is kept, and what helps; in one line as far as it goes.
fn notice_rows(notice: &NoticeRow, kept: &str) -> Vec<Row> {
    let mut first = notice.state.clone();
    if let Some(ms) = notice.at_unix_ms {
        first.push_str(&format!(" since {}", time_of_day(ms)));
    }
    match notice.cause.as_deref() {
        Some("interrupted") => {}
        Some(cause) => first.push_str(&format!(": {cause}")),
        None if notice.state == "stopped" => first.push_str(": its process is gone"),
        None => {}
    }
    let mut second = format!("kept: {kept}");
    if let Some(fix) = &notice.fix {
        second.push_str(&format!(" · fix: {fix}"));
    }
    vec![Row::of(Role::Warn, &first), Row::of(Role::Ink, &second)]
}

/// Counts of each verdict, also for the title of other views.
fn counts(steps: &[StepRow]) -> Vec<(Verdict, u64)> {
    let with = |verdict| {
        let n = steps.iter().filter(|row| row.verdict == verdict).count();
        (verdict, n as u64)
    };
    Verdict::ALL
        .into_iter()
        .map(with)
        .filter(|(_, n)| *n > 0)
        .collect()
}

fn figures(run: &RunRow, steps: &[StepRow]) -> Row {
    let mut row = Row::of(Role::Ink, &format!("score {}", share(run.kept)));
    if run.baseline.is_some() {
        row = row.put(Role::Ink, &format!(" from {}", share(run.baseline)));
    }
    for (i, (verdict, n)) in counts(steps).into_iter().enumerate() {
        row = row
            .put(Role::Ink, if i == 0 { "   " } else { "  " })
            .put(Role::of(verdict), &verdict.mark().to_string())
            .put(Role::Ink, &format!(" {}", count(n)));
    }
    let mut cost = money(run.cost_usd);
    if let Some(cap) = run.cap_usd {
        cost.push_str(&format!(" of {}", round_money(cap)));
    }
    let forecast = run.forecast.clone().unwrap_or_default();
    if let Some(usd) = forecast.cost_usd {
        cost.push_str(&format!(" → {}", round_money(usd)));
    }
    let passes = forecast.cost_usd.zip(run.cap_usd);
    let role = match passes {
        Some((usd, cap)) if usd > cap => Role::Strong,
        _ => Role::Ink,
    };
    row = row.also(role, &cost);
    let spent: u64 = steps.iter().map(tokens).sum();
    let all = run
        .tokens
        .map(|t| t.prompt_tokens + t.completion_tokens)
        .unwrap_or(spent);
    if all > 0 && run.cost_usd.is_none() {
        row = row.also(Role::Ink, &format!("{} tokens", amount(all)));
    }
    if let Some(left) = forecast.left_s {
        row = row.also(Role::Ink, &format!("about {} left", about(left)));
    }
    row
}

/// Writes dollars of a cap or an estimate: cents matter only in small sums.
fn round_money(usd: f64) -> String {
    if usd >= 10.0 {
        format!("${usd:.0}")
    } else {
        money(Some(usd))
    }
}

const fn tokens(row: &StepRow) -> u64 {
    row.tokens.prompt_tokens + row.tokens.completion_tokens
}

/// The chart and what stands below it.
fn middle(screen: &Screen, columns: usize, room: usize) -> Vec<Row> {
    if screen.view.evaluation.is_some() {
        return Vec::new();
    }
    let tall = (room * 45 / 100).clamp(CHART.0, CHART.1).min(room);
    let mut lines = chart(&screen.view, columns, tall).lines();
    let room = room.saturating_sub(lines.len());
    match &screen.pane {
        Pane::Steps => lines.extend(step_rows(screen, columns, room)),
        Pane::Text { title, lines: text } => {
            lines.push(Row::of(Role::Strong, title));
            let room = room.saturating_sub(1);
            let shown = if text.len() > room {
                room.saturating_sub(1)
            } else {
                text.len()
            };
            lines.extend(text[..shown].iter().map(|line| text_row(line)));
            if shown < text.len() {
                let more = format!("… {} more lines", count((text.len() - shown) as u64));
                lines.push(Row::of(Role::Faint, &more));
            }
        }
    }
    lines
}

/// Lines of a diff are told apart by their first character, and coloured.
fn text_row(line: &str) -> Row {
    let role = match line.as_bytes().first() {
        Some(b'+') => Role::Better,
        Some(b'-') => Role::Worse,
        Some(b'@') => Role::Faint,
        _ => Role::Ink,
    };
    Row::of(role, line)
}

fn step_rows(screen: &Screen, columns: usize, room: usize) -> Vec<Row> {
    let steps = &screen.view.steps;
    if steps.is_empty() {
        return vec![Row::of(Role::Faint, "no step is finished yet")];
    }
    let selected = screen.selected.min(steps.len() - 1);
    // The selected row is always seen.
    let skipped = (selected + 1).saturating_sub(room);
    let latest = steps.iter().rev().enumerate().skip(skipped).take(room);
    latest
        .map(|(i, row)| step_row(row, i == selected, columns))
        .collect()
}

fn step_row(row: &StepRow, is_selected: bool, columns: usize) -> Row {
    let name = if row.slow {
        "slow".to_owned()
    } else {
        row.step.to_string()
    };
    let change = row.change.map_or_else(|| "—".to_owned(), points);
    let role = Role::of(row.verdict);
    let right = format!(
        "{:>8}  {:>10}",
        row.cost_usd.map_or_else(
            || match tokens(row) {
                0 => "—".to_owned(),
                n => format!("{} tok", amount(n)),
            },
            |usd| money(Some(usd))
        ),
        row.took_s.map_or_else(|| "—".to_owned(), took),
    );
    let said = format!("{}: {}", row.verdict.word(), row.reason());
    Row::of(Role::Strong, if is_selected { "▸" } else { " " })
        .put(Role::Ink, &format!("{name:>5} "))
        .put(role, &row.verdict.mark().to_string())
        .put(role, &format!(" {change:>5}   "))
        .put(Role::Ink, &said)
        .right(Role::Faint, &right, columns)
}

fn took(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time that passed"
    )]
    let ms = (seconds.max(0.0) * 1_000.0) as u64;
    if ms >= 3_600_000 {
        span(ms)
    } else if ms >= 60_000 {
        format!("{} min", ms / 60_000)
    } else if ms >= 10_000 {
        format!("{} s", ms / 1_000)
    } else {
        format!("{:.1} s", seconds.max(0.0))
    }
}

fn bottom(screen: &Screen) -> Vec<Row> {
    let mut lines = Vec::new();
    if let Some(waits) = &screen.waits {
        lines.push(waits_row(waits));
    }
    let keys = match (screen.ask, &screen.pane) {
        (Some(Ask::Pause), _) => {
            "pause this run? jobs under way end, and what is paid for is kept   y yes · n no"
        }
        (None, Pane::Steps) if screen.can_pause => {
            "j/k step · Enter why · d diff · t tasks · p pause · . hold · q leave"
        }
        (None, Pane::Steps) => "j/k step · Enter why · d diff · t tasks · . hold · q leave",
        (None, Pane::Text { .. }) => "j/k step · Enter back · d diff · t tasks · . hold · q leave",
    };
    if !screen.message.is_empty() && screen.ask.is_none() {
        lines.push(Row::of(Role::Warn, &screen.message));
    }
    let role = if screen.ask.is_some() {
        Role::Warn
    } else {
        Role::Faint
    };
    lines.push(Row::of(role, keys));
    lines
}

/// Says in one line why jobs wait.
fn waits_row(waits: &[WaitReason]) -> Row {
    let all: u64 = waits.iter().map(|wait| wait.count).sum();
    if all == 0 {
        return Row::of(Role::Faint, "waits: none");
    }
    let parts: Vec<String> = waits
        .iter()
        .filter(|wait| wait.count > 0)
        .map(|wait| format!("{} {}", count(wait.count), wait.words))
        .collect();
    let oldest = waits.iter().map(|wait| wait.oldest_ms).max().unwrap_or(0);
    let text = format!("waits: {}, oldest {}", parts.join(" · "), span(oldest));
    Row::of(Role::Ink, &text)
}
