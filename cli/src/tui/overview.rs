//! The frame of the cluster at a glance.

use ratatui::text::Line;
use skillopt_coordinator::read_model::{
    Overview, ProviderRow, RunLine, SweepLine, Verdict, WaitReason, WorkerRow, amount, count,
    number, plural, points, span, time_of_day,
};

use super::Size;
use super::line::Row;
use super::look::{Look, Role};

/// Columns of the names of sections.
const NAMES: usize = 16;

/// Draws the cluster: pure, the same row gives the same lines. `link` says what is wrong with the
/// connection.
pub(crate) fn frame_overview(
    seen: &Overview,
    title: &str,
    link: Option<&str>,
    size: Size,
    look: Look,
) -> Vec<Line<'static>> {
    let (columns, rows) = (usize::from(size.columns), usize::from(size.rows));
    let mut lines = vec![head(seen, title, columns)];
    if let Some(link) = link {
        lines.push(Row::of(Role::Warn, link));
    }
    if seen.slots.is_some() {
        lines.push(figures(seen));
    }
    if !seen.headline.second.is_empty() {
        lines.push(Row::of(Role::Faint, &seen.headline.second));
    }
    if size.is_enough() {
        let room = rows.saturating_sub(lines.len() + 1);
        lines.extend(begun(sections(seen, room), room));
        lines.resize(rows - 1, Row::default());
        lines.push(Row::of(Role::Faint, ". hold · q leave"));
    } else {
        lines.truncate(3);
    }
    lines.truncate(rows);
    lines
        .into_iter()
        .map(|row| row.drawn(columns, look))
        .collect()
}

fn head(seen: &Overview, title: &str, columns: usize) -> Row {
    let said = seen.headline.first.trim_end_matches('.');
    let mut said: Vec<char> = said.chars().collect();
    if let Some(first) = said.first_mut() {
        *first = first.to_ascii_lowercase();
    }
    let said: String = said.into_iter().collect();
    Row::of(Role::Strong, title)
        .also(Role::Strong, &said)
        .right(Role::Faint, &time_of_day(seen.at_unix_ms), columns)
}

fn figures(seen: &Overview) -> Row {
    let mut pace = format!("{} a minute", number(seen.finished_a_minute));
    if let Some(before) = seen.finished_a_minute_before {
        pace.push_str(&format!(" ({before:.0} before)"));
    }
    let cost = seen.cost_usd_an_hour.map_or_else(
        || "price unknown".to_owned(),
        |usd| format!("${usd:.2} an hour"),
    );
    Row::of(Role::Ink, &pace)
        .also(
            Role::Ink,
            &format!("{} of {} slots", number(seen.running), number(seen.slots)),
        )
        .also(Role::Ink, &format!("{} waiting", number(seen.waiting)))
        .also(Role::Ink, &cost)
}

/// Returns the first rows, as many as there is room for, and says how many are missing.
fn begun(mut rows: Vec<Row>, room: usize) -> Vec<Row> {
    if rows.len() > room {
        let shown = room.saturating_sub(1);
        let more = count((rows.len() - shown) as u64);
        rows.truncate(shown);
        rows.push(Row::of(Role::Faint, &format!("… {more} more")));
    }
    rows
}

/// A part of the frame: its name, and its rows in full and in short.
struct Section {
    name: &'static str,
    full: Vec<Row>,
    short: Vec<Row>,
}

fn sections(seen: &Overview, room: usize) -> Vec<Row> {
    let mut all = Vec::new();
    if seen.slots.is_some() {
        all.push(waits(seen));
        all.push(providers(&seen.providers));
        all.push(workers(&seen.workers));
    }
    all.push(runs(seen));
    // In short, and as many in full as there is room for, the first ones first.
    let height = |rows: &[Row]| rows.len().max(1);
    let mut used: usize = all.iter().map(|section| height(&section.short)).sum();
    let mut parts = Vec::new();
    let count_all = all.len();
    for (i, section) in all.into_iter().enumerate() {
        let least = height(&section.short);
        let free = room.saturating_sub(used) + least;
        let rows = if height(&section.full) <= free {
            section.full
        } else if i + 1 == count_all && free > least {
            // The last one takes what is left.
            begun(section.full, free)
        } else {
            section.short
        };
        used = used - least + height(&rows);
        parts.push((section.name, rows));
    }
    let has_gaps = used + parts.len() <= room;
    let mut lines = Vec::new();
    for (name, rows) in parts {
        if has_gaps {
            lines.push(Row::default());
        }
        if rows.is_empty() {
            lines.push(named(name).put(Role::Faint, "none"));
        }
        for (i, row) in rows.into_iter().enumerate() {
            let start = if i == 0 { named(name) } else { named("") };
            lines.push(start.join(row));
        }
    }
    lines
}

fn named(name: &str) -> Row {
    Row::of(Role::Faint, name).to(NAMES)
}

fn waits(seen: &Overview) -> Section {
    let full = seen.waits.iter().map(|wait| {
        let row = wait_row(wait).put(Role::Faint, &format!("   oldest {}", span(wait.oldest_ms)));
        row.also(Role::Faint, &wait.help)
    });
    let mut short: Vec<Row> = seen.waits.iter().take(1).map(wait_row).collect();
    let rest: Vec<String> = seen
        .waits
        .iter()
        .skip(1)
        .map(|wait| format!("{} {}", count(wait.count), wait.code.replace('_', " ")))
        .collect();
    if !rest.is_empty() {
        short.push(Row::of(Role::Ink, &format!("     {}", rest.join(" · "))));
    }
    Section {
        name: "why jobs wait",
        full: full.collect(),
        short,
    }
}

fn wait_row(wait: &WaitReason) -> Row {
    Row::of(
        Role::Ink,
        &format!("{:>4} {}", count(wait.count), wait.words),
    )
}

fn providers(rows: &[ProviderRow]) -> Section {
    let full: Vec<Row> = rows.iter().map(provider_row).collect();
    Section {
        name: "providers",
        short: joined(&full),
        full,
    }
}

fn provider_row(row: &ProviderRow) -> Row {
    let is_well = row.state == "well";
    let mut text = format!(
        "{} {}",
        row.account,
        of(row.in_flight, row.in_flight_allowed)
    );
    if row.in_flight_allowed != row.in_flight_limit
        && let Some(limit) = row.in_flight_limit
    {
        text.push_str(&format!(" ({limit})"));
    }
    if row.tokens_a_minute_limit.is_some() {
        let limit = row.tokens_a_minute_limit.map(amount);
        let used = amount(row.tokens_a_minute);
        text.push_str(&format!("  {used} of {} tokens", limit.unwrap_or_default()));
    }
    if row.requests_a_minute_limit.is_some() {
        let used = of(row.requests_a_minute, row.requests_a_minute_limit);
        text.push_str(&format!("  {used} requests"));
    }
    for (word, n) in [("429", row.throttled), ("failed", row.failed)] {
        if n > 0 {
            text.push_str(&format!("  {word}×{n}"));
        }
    }
    if let Some(ms) = row.backoff_until_unix_ms {
        text.push_str(&format!("  {} until {}", row.state, time_of_day(ms)));
    }
    marked(is_well, Role::Worse, &text)
}

fn workers(rows: &[WorkerRow]) -> Section {
    let (well, other): (Vec<&WorkerRow>, Vec<&WorkerRow>) =
        rows.iter().partition(|row| row.state == "well");
    let slots = |rows: &[&WorkerRow]| {
        let sum = |of: fn(&WorkerRow) -> u64| rows.iter().map(|row| of(row)).sum::<u64>();
        format!("{}/{}", sum(WorkerRow::busy_sum), sum(WorkerRow::slots_sum))
    };
    let full = rows.iter().map(|row| {
        let row_slots = format!("  {}", slots(&[row]));
        let done = format!(
            "  {} done, {} failed",
            count(row.jobs_done),
            count(row.jobs_failed)
        );
        worker_row(row)
            .put(Role::Ink, &row_slots)
            .put(Role::Faint, &done)
    });
    let mut brief: Vec<Row> = other.iter().map(|row| worker_row(row)).collect();
    if !well.is_empty() {
        let text = format!("{} well {}", well.len(), slots(&well));
        brief.push(Row::of(Role::Ink, &text));
    }
    Section {
        name: "workers",
        full: full.collect(),
        short: joined(&brief),
    }
}

fn worker_row(row: &WorkerRow) -> Row {
    let text = match (row.state.as_str(), &row.cause) {
        ("well", None) => format!("{} well", row.worker),
        ("lost", _) => format!("{} lost {}", row.worker, span(row.silent_ms)),
        (state, Some(cause)) => format!("{} {state}: {cause}", row.worker),
        (state, None) => format!("{} {state}", row.worker),
    };
    let is_fine = !matches!(row.state.as_str(), "sick" | "lost");
    marked(is_fine, Role::Infra, &text)
}

fn runs(seen: &Overview) -> Section {
    let sweeps = seen.sweeps.iter().map(sweep_row);
    let full: Vec<Row> = sweeps.chain(seen.runs.iter().map(run_row)).collect();
    Section {
        name: "runs",
        short: joined(&full),
        full,
    }
}

fn sweep_row(row: &SweepLine) -> Row {
    let text = format!(
        "{} {}/{} cells",
        shown(&row.name, &row.sweep),
        count(row.cells_done),
        count(row.cells_total)
    );
    match row.cells_in_trouble {
        0 => Row::of(Role::Ink, &text),
        n => marked(
            false,
            Role::Warn,
            &format!("{text}, {} in trouble", plural(n, "cell")),
        ),
    }
}

fn run_row(row: &RunLine) -> Row {
    let mut text = shown(&row.name, &row.run).to_owned();
    // An evaluation has no steps.
    if row.steps_total.is_some() || row.steps_done > 0 {
        let (done, total) = (count(row.steps_done), number(row.steps_total));
        text.push_str(&format!(" {done}/{total}"));
    }
    let is_stopped =
        row.state.starts_with("paused") || matches!(row.state.as_str(), "stopped" | "failed");
    if row.state != "running" {
        text.push_str(&format!(" {}", row.state));
    }
    let line = marked(!is_stopped, Role::Warn, &text);
    match row.lift_points {
        Some(lift) => line
            .put(Role::Better, &format!(" {}", Verdict::Accepted.mark()))
            .put(Role::Ink, &format!(" {}", points(lift / 100.0))),
        None => line,
    }
}

fn shown<'a>(name: &'a str, id: &'a str) -> &'a str {
    if name.is_empty() { id } else { name }
}

/// A row with `!` before it unless all is well: colour never stands alone.
fn marked(is_well: bool, role: Role, text: &str) -> Row {
    if is_well {
        Row::of(Role::Ink, text)
    } else {
        Row::of(role, &format!("! {text}"))
    }
}

fn of(n: u64, limit: Option<u64>) -> String {
    match limit {
        Some(limit) => format!("{n}/{limit}"),
        None => n.to_string(),
    }
}

/// Puts rows beside each other.
fn joined(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.iter().cloned();
    let Some(first) = rows.next() else {
        return Vec::new();
    };
    let line = rows.fold(first, |line, row| line.put(Role::Ink, "   ").join(row));
    vec![line]
}
