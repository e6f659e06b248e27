//! Why jobs wait: for every waiting job exactly one reason, the first that holds, so that the
//! counts add up. `docs/why.md` describes them for people.
//!
//! Start at [`explain`].

mod code;
mod facts;
mod reason;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use skillopt_queue::Timestamp;

use self::reason::Reason;

pub use code::Code;
pub use facts::{Facts, JobFacts, Place, RunFacts, RunState};

/// Why jobs wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// By reason, in the order of the codes, then the largest first.
    pub rows: Vec<Row>,
    /// Waiting jobs: the sum of the rows.
    pub waiting: u64,
    /// Jobs that a worker runs.
    pub running: u64,
}

/// Jobs that wait for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The reason.
    pub code: Code,
    /// The reason in words, e.g. with the account or the worker.
    pub words: String,
    /// How many wait for it.
    pub count: u64,
    /// Age of the oldest, in milliseconds.
    pub oldest_ms: u64,
    /// What helps.
    pub help: String,
}

/// Most rows of one code; the smaller ones are one row.
const ROWS_PER_CODE_MAX: usize = 8;

/// Jobs of one reason while they are counted.
struct Count {
    help: String,
    count: u64,
    oldest: Timestamp,
    until: Option<Timestamp>,
}

/// Finds the reason of every waiting job.
#[must_use]
pub fn explain(facts: &Facts) -> Waits {
    let mut found: BTreeMap<(Code, String), Count> = BTreeMap::new();
    let mut add = |reason: Reason, count: u64, oldest: Timestamp| {
        let entry = found.entry((reason.code, reason.words));
        let sum = entry.or_insert(Count {
            help: reason.help,
            count: 0,
            oldest,
            until: reason.until,
        });
        sum.count += count;
        sum.oldest = oldest.min(sum.oldest);
        sum.until = sum.until.into_iter().chain(reason.until).min();
    };
    for line in facts.lines.iter().filter(|line| line.waiting > 0) {
        let count = u64::try_from(line.waiting).unwrap_or(u64::MAX);
        add(reason::of_line(facts, line), count, line.oldest);
    }
    let mut running = 0;
    for job in &facts.released {
        match reason::of_job(facts, job) {
            Some(reason) => add(reason, 1, job.since),
            None => running += 1,
        }
    }
    for left in &facts.left {
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        if left.waiting > 0 {
            let reason = reason::of_left(facts, left);
            add(reason, size(left.waiting), left.oldest);
        }
        running += size(left.leased);
    }
    let rows = found.into_iter().map(|((code, words), sum)| {
        let oldest = facts.now.since(sum.oldest).as_millis();
        let help = match sum.until {
            Some(until) => format!(
                "{}; it goes on {}",
                sum.help,
                reason::soon(facts.now, until)
            ),
            None => sum.help,
        };
        Row {
            code,
            words,
            count: sum.count,
            oldest_ms: u64::try_from(oldest).unwrap_or(u64::MAX),
            help,
        }
    });
    let rows = shorten(rows.collect());
    Waits {
        waiting: rows.iter().map(|row| row.count).sum(),
        rows,
        running,
    }
}

/// Puts the smallest rows of a code together if it has too many.
fn shorten(rows: Vec<Row>) -> Vec<Row> {
    let mut short = Vec::with_capacity(rows.len());
    for of_code in rows.chunk_by(|a, b| a.code == b.code) {
        let mut of_code = of_code.to_vec();
        of_code.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.words.cmp(&b.words)));
        let rest = of_code.split_off(of_code.len().min(ROWS_PER_CODE_MAX));
        short.append(&mut of_code);
        if let Some(first) = rest.first() {
            short.push(Row {
                words: reason::in_general(first.code).to_owned(),
                count: rest.iter().map(|row| row.count).sum(),
                oldest_ms: rest.iter().map(|row| row.oldest_ms).max().unwrap_or(0),
                ..first.clone()
            });
        }
    }
    short
}

/// Says in sentences why something (`run ab12`, `job 34cd`, `the cluster`) is not moving; the first
/// line is the answer.
#[must_use]
pub fn sentences(what: &str, waits: &Waits) -> String {
    let mut largest: Vec<&Row> = waits.rows.iter().collect();
    largest.sort_by_key(|row| std::cmp::Reverse(row.count));
    let running = match waits.running {
        0 => "no job runs".to_owned(),
        1 => "1 job runs".to_owned(),
        n => format!("{n} jobs run"),
    };
    let Some(first) = largest.first() else {
        return match waits.running {
            0 => format!("{what}: no job is on its way."),
            _ => format!("{what}: {running} and none waits."),
        };
    };
    let jobs = if waits.waiting == 1 {
        "job waits"
    } else {
        "jobs wait"
    };
    let mut text = format!("{what}: {} {jobs} and {running}; ", waits.waiting);
    if largest.len() == 1 {
        text.push_str(&format!("{}.", first.words));
    } else {
        text.push_str(&format!("most ({}): {}.", first.count, first.words));
    }
    for row in largest {
        let age = row.oldest_ms.div_ceil(1_000);
        let line = format!(
            "\n  {} {}, oldest {age} s: {}. What helps: {}.",
            row.count, row.code, row.words, row.help
        );
        text.push_str(&line);
    }
    text
}
