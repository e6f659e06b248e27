//! The chart "validation score by step" in characters (dashboard spec, chapter 6.1).

use skillopt_coordinator::read_model::{RunView, StepRow, Verdict, count, is_over};

use super::line::Row;
use super::look::Role;

/// Least span of the scores that are shown, in percent, so that noise does not look like a cliff.
const SPAN_MIN: f64 = 10.0;
/// Distances between labels of scores, in percent.
const TICKS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
/// Columns left of the plot: a label and the axis.
const LEFT: usize = 5;
/// Columns right of the plot: the score of the kept skill.
const RIGHT: usize = 7;

/// Where a step's mark stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) verdict: Verdict,
    pub(crate) column: usize,
    /// Row of its score, from above; none if it has no score, so that it stands on the axis.
    pub(crate) row: Option<usize>,
}

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// What is drawn, row by row from above.
    cells: Vec<Vec<(char, Role)>>,
    /// One for each step and slow update, whether it is seen or lies in a range.
    pub(crate) marks: Vec<Mark>,
    scale: Scale,
    /// Row of the first score, where the axis has its crossing.
    start: Option<usize>,
    /// Score that is written beside a row.
    ends: Vec<(usize, String)>,
    /// Marks without a score.
    floor: Vec<(char, Role)>,
    labels: String,
    /// What to say instead, if there is nothing to draw.
    instead: Option<String>,
}

/// How scores become rows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
    tick: f64,
    rows: usize,
}

impl Scale {
    fn of(scores: impl Iterator<Item = f64>, rows: usize) -> Self {
        let percent = scores.filter(|s| s.is_finite()).map(|s| s * 100.0);
        let (low, high) = percent.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), s| {
            (low.min(s), high.max(s))
        });
        let (mut low, mut high) = if low > high {
            (0.0, 100.0)
        } else {
            (low, high)
        };
        let missing = (SPAN_MIN - (high - low)).max(0.0);
        // Half above, half below, as far as scores can go.
        high = (high + missing / 2.0).min(100.0_f64.max(high));
        low = (high - SPAN_MIN.max(high - low)).max(0.0_f64.min(low));
        high = high.max(low + SPAN_MIN);
        let fits = |tick: &&f64| {
            let (low, high) = outer(low, high, **tick);
            (high - low) / **tick <= real(rows.saturating_sub(1))
        };
        let tick = TICKS.iter().find(fits).copied().unwrap_or(100.0);
        let (low, high) = outer(low, high, tick);
        Self {
            low,
            high,
            tick,
            rows,
        }
    }

    /// Returns the row of a score, from above.
    fn row(self, score: f64) -> usize {
        let part = (self.high - score * 100.0) / (self.high - self.low);
        rounded(part * real(self.rows - 1)).min(self.rows - 1)
    }

    /// Returns the label of a row, if one belongs there.
    fn label(self, row: usize) -> Option<String> {
        let ticks = rounded((self.high - self.low) / self.tick);
        (0..=ticks)
            .map(|i| self.low + real(i) * self.tick)
            .find(|percent| self.row(percent / 100.0) == row)
            .map(|percent| format!("{percent:.0}"))
    }
}

fn outer(low: f64, high: f64, tick: f64) -> (f64, f64) {
    let high = (high / tick).ceil() * tick;
    ((low / tick).floor() * tick, high)
}

/// How steps become columns.
#[derive(Clone, Copy, Debug)]
struct Steps {
    /// The last step that has a column.
    end: u64,
    columns: usize,
}

impl Steps {
    fn of(view: &RunView, columns: usize) -> Self {
        let done = view.run.steps_done;
        let total = view.run.steps_total.unwrap_or(done);
        // The part that is done fills at least 60 % of the width.
        let end = total.min((done * 16).div_ceil(10).max(10));
        Self {
            end: end.max(done).max(1),
            columns,
        }
    }

    fn column(self, step: u64) -> usize {
        let last = self.columns.saturating_sub(1) as u64;
        // Rounded to the nearest.
        let column = (step.min(self.end) * last * 2 + self.end) / (self.end * 2);
        usize::try_from(column).unwrap_or(0)
    }

    /// Whether two steps may have to share a column.
    const fn is_crowded(self) -> bool {
        self.end as usize >= self.columns
    }
}

/// Draws the scores of a run on `columns` × `rows` characters, axis and labels included.
pub(crate) fn chart(view: &RunView, columns: usize, rows: usize) -> Chart {
    let has_floor = view.steps.iter().any(|row| row.score.is_none());
    let plot = rows.saturating_sub(1 + usize::from(has_floor)).max(2);
    let width = columns.saturating_sub(LEFT + RIGHT).max(2);
    let scores = view.steps.iter().flat_map(|row| [row.score, row.kept]);
    let scores = scores.chain([view.run.baseline, view.run.best]).flatten();
    let scale = Scale::of(scores, plot);
    let steps = Steps::of(view, width);
    let marks: Vec<Mark> = view
        .steps
        .iter()
        .map(|row| Mark {
            verdict: row.verdict,
            column: steps.column(row.step),
            row: row.score.filter(|s| s.is_finite()).map(|s| scale.row(s)),
        })
        .collect();
    let mut chart = Chart {
        cells: vec![vec![(' ', Role::Ink); width]; plot],
        scale,
        start: view.run.baseline.map(|score| scale.row(score)),
        ends: Vec::new(),
        floor: Vec::new(),
        labels: labels(steps, view.run.steps_total),
        instead: None,
        marks,
    };
    if has_floor {
        chart.floor = vec![(' ', Role::Ink); width];
    }
    let Some(baseline) = view.run.baseline else {
        chart.instead = Some("No score yet: the starting skill is being measured.".to_owned());
        return chart;
    };
    chart.epochs(&view.steps, steps);
    chart.best(view, steps);
    chart.stair(view, baseline, steps);
    chart.marks(steps);
    chart
}

impl Chart {
    fn set(&mut self, row: usize, column: usize, c: char, role: Role) {
        if let Some(cell) = self.cells.get_mut(row).and_then(|r| r.get_mut(column)) {
            *cell = (c, role);
        }
    }

    fn line(&mut self, row: usize, from: usize, to: usize, c: char, role: Role) {
        for column in from..to {
            self.set(row, column, c, role);
        }
    }

    fn epochs(&mut self, rows: &[StepRow], steps: Steps) {
        let pairs = rows.windows(2).filter(|pair| pair[0].epoch < pair[1].epoch);
        let columns: Vec<usize> = pairs.map(|pair| steps.column(pair[0].step)).collect();
        if columns.len() > steps.columns / 8 {
            return;
        }
        for column in columns {
            for row in 0..self.cells.len() {
                self.set(row, column, '┊', Role::Faint);
            }
        }
    }

    /// Draws the best skill where it is not the kept one.
    fn best(&mut self, view: &RunView, steps: Steps) {
        let (Some(best), Some(since)) = (view.run.best, view.run.best_step) else {
            return;
        };
        let row = self.scale.row(best);
        if view.run.kept == Some(best) || view.run.kept.is_none() {
            return;
        }
        let to = steps.column(view.run.steps_done);
        self.line(row, steps.column(since), to + 1, '─', Role::Better);
        self.ends.push((row, format!("{:.1}", best * 100.0)));
    }

    /// Draws the kept skill: a stair, dotted where its text changed without being measured.
    fn stair(&mut self, view: &RunView, baseline: f64, steps: Steps) {
        let (mut column, mut row) = (0, self.scale.row(baseline));
        let mut c = '━';
        for step in &view.steps {
            let to = steps.column(step.step);
            let next = step.kept.map_or(row, |kept| self.scale.row(kept));
            self.line(row, column, to + 1, c, Role::Better);
            if next != row {
                let is_up = next < row;
                self.set(row, to, if is_up { '┛' } else { '┓' }, Role::Better);
                for between in next.min(row) + 1..next.max(row) {
                    self.set(between, to, '┃', Role::Better);
                }
                self.set(next, to, if is_up { '┏' } else { '┗' }, Role::Better);
            }
            (column, row) = (to, next);
            c = if step.stale { '┄' } else { '━' };
        }
        if !is_over(&view.run.state) {
            // The step that is under way, and what is to come.
            let now = steps.column(view.run.steps_done + 1).max(column + 1);
            self.line(row, column + 1, now, c, Role::Better);
            self.line(row, now, steps.columns, '┄', Role::Faint);
            if view.run.state == "running" {
                self.set(row, now.min(steps.columns - 1), '○', Role::Ink);
            }
        }
        let kept = view.run.kept.unwrap_or(baseline);
        self.ends.retain(|(at, _)| *at != row);
        self.ends.push((row, format!("{:.1}", kept * 100.0)));
    }

    /// Draws the marks: each by itself, or where they are crowded all but the accepted ones as one
    /// stroke for each column and verdict.
    fn marks(&mut self, steps: Steps) {
        let order = [
            Verdict::Skipped,
            Verdict::TakenWithoutGate,
            Verdict::Refused,
            Verdict::CannotTell,
            Verdict::Accepted,
        ];
        for verdict in order {
            let marks: Vec<Mark> = self
                .marks
                .iter()
                .filter(|m| m.verdict == verdict)
                .copied()
                .collect();
            let is_range = steps.is_crowded() && verdict != Verdict::Accepted;
            for (i, mark) in marks.iter().enumerate() {
                let Some(row) = mark.row else {
                    if let Some(cell) = self.floor.get_mut(mark.column) {
                        *cell = (verdict.mark(), Role::of(verdict));
                    }
                    continue;
                };
                self.set(row, mark.column, verdict.mark(), Role::of(verdict));
                // Marks are in the order of steps, so those of a column follow each other.
                let before = i.checked_sub(1).and_then(|i| marks.get(i));
                let before = before.filter(|b| is_range && b.column == mark.column);
                if let Some(other) = before.and_then(|b| b.row) {
                    for between in other.min(row) + 1..other.max(row) {
                        self.set(between, mark.column, '│', Role::of(verdict));
                    }
                }
            }
        }
        if steps.is_crowded() {
            let drawn = self.marks.iter().filter(|m| m.verdict == Verdict::Refused);
            let caption = format!(" {} refused drawn as ranges", count(drawn.count() as u64));
            let (width, note) = (self.labels.chars().count(), caption.chars().count());
            if width > note + 24 {
                let kept: String = self.labels.chars().take(8).collect();
                let tail: String = self.labels.chars().skip(8 + note).collect();
                self.labels = kept + &caption + &tail;
            }
        }
    }

    /// Returns it as lines.
    pub(crate) fn lines(&self) -> Vec<Row> {
        let middle = self.cells.len() / 2;
        let mut lines: Vec<Row> = Vec::new();
        for (i, cells) in self.cells.iter().enumerate() {
            let label = self.scale.label(i).unwrap_or_default();
            let axis = if self.start == Some(i) { '┼' } else { '┤' };
            let mut row = Row::of(Role::Faint, &format!("{label:>3} {axis}"));
            match &self.instead {
                Some(text) if i == middle => row = row.put(Role::Ink, &format!("  {text}")),
                _ => row = pieces(row, cells),
            }
            let end = self.ends.iter().find(|(at, _)| *at == i);
            if let Some((_, score)) = end {
                row = row.put(Role::Strong, &format!("  {score}"));
            }
            lines.push(row);
        }
        if !self.floor.is_empty() {
            let row = Row::of(Role::Ink, &" ".repeat(LEFT));
            lines.push(pieces(row, &self.floor));
        }
        let indent = " ".repeat(LEFT - 1);
        lines.push(Row::of(Role::Faint, &format!("{indent}{}", self.labels)));
        lines
    }

    /// Returns what is drawn in a cell.
    #[cfg(test)]
    pub(crate) fn seen(&self, row: usize, column: usize) -> char {
        self.cells[row][column].0
    }
}

/// Puts cells of one role together.
fn pieces(mut row: Row, cells: &[(char, Role)]) -> Row {
    for run in cells.chunk_by(|a, b| a.1 == b.1) {
        let text: String = run.iter().map(|(c, _)| *c).collect();
        row = row.put(run[0].1, &text);
    }
    row
}

/// Writes the names of steps below the plot, none over another.
fn labels(steps: Steps, total: Option<u64>) -> String {
    let last = match total {
        Some(total) if total > steps.end => format!("to {total}"),
        _ => steps.end.to_string(),
    };
    let width = steps.columns + RIGHT;
    let mut text: Vec<char> = vec![' '; width];
    let mut put = |at: usize, word: &str| {
        let word: Vec<char> = word.chars().collect();
        let near = at.saturating_sub(1)..(at + word.len() + 1).min(width);
        if at + word.len() <= width && text[near].iter().all(|c| *c == ' ') {
            text[at..at + word.len()].copy_from_slice(&word);
        }
    };
    put(0, "start");
    // One column right of the plot's first, since the labels begin under the axis.
    let place = |step: u64, word: &str| (steps.column(step) + 1).saturating_sub(word.len() / 2);
    match total {
        Some(total) if total > steps.end => put(steps.columns + 1, &last),
        _ => put(place(steps.end, &last), &last),
    }
    let room = (steps.columns / 8).max(1) as u64;
    let tick = [1, 2, 5]
        .iter()
        .flat_map(|n| (0..7).map(move |power| n * 10_u64.pow(power)))
        .filter(|tick| steps.end / tick <= room)
        .min()
        .unwrap_or(steps.end);
    for step in (1..).map(|i| i * tick).take_while(|step| *step < steps.end) {
        let word = step.to_string();
        put(place(step, &word), &word);
    }
    let text: String = text.into_iter().collect();
    text.trim_end().to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "rows of a terminal")]
const fn real(n: usize) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place on a terminal, which is not negative"
)]
fn rounded(x: f64) -> usize {
    x.round().max(0.0) as usize
}
