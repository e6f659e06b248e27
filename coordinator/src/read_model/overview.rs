//! From what the parts of the cluster say of themselves to [`Overview`]. Pure.

use skillopt_queue::fleet::WorkerRecord;
use skillopt_queue::ledger::{Amount, Balance};
use skillopt_queue::rates::Account;

use super::cluster::{LedgerRow, Overview, ProviderRow, RunLine, SweepLine, WaitReason, WorkerRow};
use super::numbers::{count, plural};
use super::words::Headline;
use crate::waits;

/// States of workers, worst first.
const WORST_FIRST: &[&str] = &["sick", "lost", "draining", "old", "well"];
/// States of accounts, worst first.
const TROUBLE_FIRST: &[&str] = &["down", "throttled", "well"];
/// Reasons that are no fault: a job waits for its turn, or because somebody wants it to.
const HARMLESS: &[&str] = &["paused", "budget", "barrier", "fair_share", "slots_busy"];
/// A pace below this part of the one before is called slower.
const SLOWER: f64 = 0.9;

/// What an [`Overview`] is made of.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Now, by the clock that the records were written with, in milliseconds since 1970.
    pub now_ms: u64,
    /// Version of our own program; a worker of another one is old.
    pub program: String,
    /// What workers say of themselves.
    pub workers: Vec<WorkerRecord>,
    /// Accounts with limits, or in trouble lately.
    pub accounts: Vec<Account>,
    /// Why jobs wait; each waiting job is counted once.
    pub waits: Vec<WaitReason>,
    /// Jobs finished in the last minute; nothing if nobody counted for so long.
    pub finished_a_minute: Option<u64>,
    /// Jobs finished a minute before that, on average.
    pub finished_a_minute_before: Option<f64>,
    /// What the last minutes cost, as dollars an hour.
    pub cost_usd_an_hour: Option<f64>,
    /// What is reserved and not settled, over all tenants.
    pub reserved: Amount,
    /// Runs that are not over and belong to no sweep.
    pub runs: Vec<RunLine>,
    /// Sweeps that are not over.
    pub sweeps: Vec<SweepLine>,
}

/// Shows the cluster at a glance.
#[must_use]
pub fn overview(inputs: Inputs) -> Overview {
    let mut waits = inputs.waits;
    waits.retain(|wait| wait.count > 0);
    waits.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.code.cmp(&b.code)));
    let mut workers: Vec<WorkerRow> = inputs
        .workers
        .iter()
        .map(|record| WorkerRow::of(record, inputs.now_ms, &inputs.program))
        .collect();
    workers.sort_by_key(|row| (place(WORST_FIRST, &row.state), row.worker.clone()));
    let mut providers: Vec<ProviderRow> = inputs
        .accounts
        .iter()
        .map(|account| ProviderRow::of(account, inputs.now_ms))
        .collect();
    providers.sort_by_key(|row| (place(TROUBLE_FIRST, &row.state), row.account.clone()));
    let alive = || workers.iter().filter(|row| row.state != "lost");
    let mut seen = Overview {
        at_unix_ms: inputs.now_ms,
        headline: Headline::default(),
        finished_a_minute: inputs.finished_a_minute,
        finished_a_minute_before: inputs.finished_a_minute_before,
        running: Some(alive().map(WorkerRow::busy_sum).sum()),
        slots: Some(alive().map(WorkerRow::slots_sum).sum()),
        waiting: Some(waits.iter().map(|wait| wait.count).sum()),
        cost_usd_an_hour: inputs.cost_usd_an_hour,
        cost_usd_an_hour_missing_reason: inputs
            .cost_usd_an_hour
            .is_none()
            .then(|| "the price of some model is unknown".to_owned()),
        reserved_usd: Some(dollars(inputs.reserved.micro_usd)),
        waits,
        providers,
        workers,
        runs: inputs.runs,
        sweeps: inputs.sweeps,
    };
    seen.headline = headline(&seen);
    seen
}

/// Says how the cluster goes, and the largest cause of what is not right.
fn headline(seen: &Overview) -> Headline {
    let cause = seen
        .waits
        .iter()
        .find(|wait| !HARMLESS.contains(&wait.code.as_str()));
    let sick = seen.workers.iter().find(|row| row.state == "sick");
    let waiting = seen.waiting.unwrap_or(0);
    let running = seen.running.unwrap_or(0);
    let first = if waiting == 0 && running == 0 {
        "There is nothing to do.".to_owned()
    } else if running == 0 && seen.finished_a_minute.unwrap_or(0) == 0 {
        "Work is standing still.".to_owned()
    } else if cause.is_some() || sick.is_some() {
        format!("Work is moving, {} than it could.", slower(seen))
    } else {
        "Work is moving.".to_owned()
    };
    // Standing still has a cause even if it is nobody's fault.
    let shown = cause.or_else(|| seen.waits.first());
    let mut second: Vec<String> = Vec::new();
    match shown {
        Some(wait) => second.push(format!(
            "{} of {}: {}.",
            count(wait.count),
            plural(waiting, "waiting job"),
            wait.words.trim_end_matches('.')
        )),
        None if running > 0 => second.push("No job waits.".to_owned()),
        None => {}
    }
    if let Some(row) = sick {
        second.push(format!(
            "Worker {} is sick and gets no new work.",
            row.worker
        ));
    }
    Headline {
        first,
        second: second.join(" "),
    }
}

/// Says how much slower than before, as far as that is known.
fn slower(seen: &Overview) -> &'static str {
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = seen
        .finished_a_minute_before
        .filter(|before| *before > 0.0)
        .zip(seen.finished_a_minute)
        .map_or(1.0, |(before, now)| now as f64 / before);
    match share {
        _ if share >= SLOWER => "slower",
        0.8.. => "a little slower",
        0.7.. => "a quarter slower",
        0.6.. => "a third slower",
        0.4.. => "half as fast, slower",
        _ => "much slower",
    }
}

fn place(order: &[&str], state: &str) -> usize {
    order.iter().position(|known| *known == state).unwrap_or(0)
}

/// Turns millionths of a dollar into dollars.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact below nine thousand million dollars"
)]
fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

impl WorkerRow {
    /// Makes the row of a worker; `program` is the version that is not old.
    #[must_use]
    pub fn of(record: &WorkerRecord, now_ms: u64, program: &str) -> Self {
        let silent_ms = now_ms.saturating_sub(record.seen_ms);
        let said = record.state_at(now_ms);
        let is_old = said == "well" && record.program != program;
        let (state, cause) = match said {
            _ if is_old => ("old", Some(format!("version {}", record.program))),
            "lost" => (
                "lost",
                Some(format!(
                    "no sign of life for {}",
                    super::numbers::span(silent_ms)
                )),
            ),
            said => (said, Some(record.cause.clone())),
        };
        Self {
            worker: record.id.clone(),
            state: state.to_owned(),
            cause: cause.filter(|c| !c.is_empty()),
            version: record.program.clone(),
            started_unix_ms: record.started_ms,
            silent_ms,
            slots: record.slots.clone(),
            busy: record.busy.clone(),
            lanes: record.lanes.clone(),
            jobs_done: record.jobs_done,
            jobs_failed: record.jobs_failed,
            jobs: record.jobs.clone(),
        }
    }

    /// Returns its slots of all kinds.
    #[must_use]
    pub fn slots_sum(&self) -> u64 {
        self.slots.values().map(|n| u64::from(*n)).sum()
    }

    /// Returns its jobs under way of all kinds.
    #[must_use]
    pub fn busy_sum(&self) -> u64 {
        self.busy.values().map(|n| u64::from(*n)).sum()
    }
}

impl ProviderRow {
    /// Makes the row of an account.
    #[must_use]
    pub fn of(account: &Account, now_ms: u64) -> Self {
        let is_paused = account.paused_until_ms > now_ms;
        let is_slowed = match (account.allowed, account.limits.concurrency) {
            (Some(allowed), Some(limit)) => allowed < limit,
            (Some(_), None) => account.throttled > 0,
            (None, _) => false,
        };
        let state = match (is_paused, account.throttled > 0) {
            (true, false) => "down",
            (true, true) => "throttled",
            (false, _) if is_slowed => "throttled",
            (false, _) => "well",
        };
        Self {
            account: account.name.clone(),
            state: state.to_owned(),
            in_flight: account.in_flight,
            in_flight_allowed: account.allowed.or(account.limits.concurrency),
            in_flight_limit: account.limits.concurrency,
            requests_a_minute: account.requests,
            requests_a_minute_limit: account.limits.requests_per_minute,
            tokens_a_minute: account.tokens,
            tokens_a_minute_limit: account.limits.tokens_per_minute,
            throttled: account.throttled,
            failed: account.failed,
            backoff_until_unix_ms: is_paused.then_some(account.paused_until_ms),
        }
    }
}

impl From<&waits::Row> for WaitReason {
    fn from(row: &waits::Row) -> Self {
        Self {
            code: row.code.as_str().to_owned(),
            words: row.words.clone(),
            help: row.help.clone(),
            count: row.count,
            oldest_ms: row.oldest_ms,
        }
    }
}

impl LedgerRow {
    /// Makes the row of a purse.
    #[must_use]
    pub fn of(purse: &str, balance: &Balance) -> Self {
        let spent = &balance.spent;
        Self {
            purse: purse.to_owned(),
            requests: spent.requests,
            prompt_tokens: spent.prompt_tokens,
            completion_tokens: spent.completion_tokens,
            cost_usd: (!balance.has_unpriced).then(|| dollars(spent.micro_usd)),
            cost_usd_missing_reason: balance
                .has_unpriced
                .then(|| "the price of some model is unknown".to_owned()),
            reserved_requests: balance.reserved.requests,
            reserved_tokens: balance.reserved.tokens(),
            reserved_usd: dollars(balance.reserved.micro_usd),
            cap_requests: balance.caps.requests,
            cap_tokens: balance.caps.tokens,
            cap_usd: balance.caps.micro_usd.map(dollars),
        }
    }
}

#[cfg(test)]
mod tests {
    use skillopt_queue::ledger::Caps;
    use skillopt_queue::rates::Limits;

    use super::*;

    fn worker(id: &str, state: &str, seen_ms: u64, busy: u32) -> WorkerRecord {
        WorkerRecord {
            id: id.to_owned(),
            state: state.to_owned(),
            cause: if state == "sick" { "disk 98% full" } else { "" }.to_owned(),
            program: "1.0".to_owned(),
            seen_ms,
            slots: [("chat".to_owned(), 12)].into(),
            busy: [("chat".to_owned(), busy)].into(),
            ..WorkerRecord::default()
        }
    }

    fn wait(code: &str, n: u64) -> WaitReason {
        WaitReason {
            code: code.to_owned(),
            words: format!("words of {code}"),
            count: n,
            ..WaitReason::default()
        }
    }

    fn inputs(busy: u32, waits: Vec<WaitReason>) -> Inputs {
        Inputs {
            now_ms: 100_000,
            program: "1.0".to_owned(),
            workers: vec![worker("w-1", "well", 99_000, busy)],
            waits,
            finished_a_minute: Some(u64::from(busy)),
            ..Inputs::default()
        }
    }

    #[test]
    fn the_headline_says_how_it_goes_and_why() {
        let slow = Inputs {
            finished_a_minute: Some(35),
            finished_a_minute_before: Some(52.0),
            ..inputs(5, vec![wait("fair_share", 31), wait("rate_limited", 212)])
        };
        for (inputs, first, second) in [
            (inputs(0, vec![]), "There is nothing to do.", ""),
            (inputs(3, vec![]), "Work is moving.", "No job waits."),
            (
                inputs(12, vec![wait("slots_busy", 7)]),
                "Work is moving.",
                "7 of 7 waiting jobs: words of slots_busy.",
            ),
            (
                inputs(0, vec![wait("no_capability", 1), wait("paused", 0)]),
                "Work is standing still.",
                "1 of 1 waiting job: words of no_capability.",
            ),
            (
                slow,
                "Work is moving, a third slower than it could.",
                "212 of 243 waiting jobs: words of rate_limited.",
            ),
        ] {
            let seen = overview(inputs).headline;
            assert_eq!((seen.first.as_str(), seen.second.as_str()), (first, second));
        }
    }

    #[test]
    fn workers_come_worst_first_and_the_dead_have_no_slots() {
        let mut old = worker("e", "well", 99_000, 1);
        old.program = "0.9".to_owned();
        let seen = overview(Inputs {
            workers: vec![
                worker("a", "well", 99_000, 4),
                worker("b", "draining", 99_000, 2),
                worker("c", "well", 50_000, 9),
                worker("d", "sick", 99_000, 0),
                old,
            ],
            ..inputs(0, vec![])
        });
        let states: Vec<(&str, &str, Option<&str>)> = seen
            .workers
            .iter()
            .map(|row| {
                (
                    row.worker.as_str(),
                    row.state.as_str(),
                    row.cause.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            states,
            [
                ("d", "sick", Some("disk 98% full")),
                ("c", "lost", Some("no sign of life for 50 s")),
                ("b", "draining", None),
                ("e", "old", Some("version 0.9")),
                ("a", "well", None),
            ]
        );
        assert_eq!((seen.running, seen.slots), (Some(7), Some(48)));
    }

    #[test]
    fn harmless_reasons_are_codes() {
        let known = |code: &str| waits::Code::ALL.iter().any(|c| c.as_str() == code);
        assert!(HARMLESS.iter().all(|code| known(code)));
    }

    #[test]
    fn waits_add_up() {
        let waits = vec![
            wait("barrier", 5),
            wait("fair_share", 31),
            wait("budget", 0),
        ];
        let seen = overview(inputs(1, waits));
        assert_eq!(seen.waiting, Some(36));
        let codes: Vec<&str> = seen.waits.iter().map(|w| w.code.as_str()).collect();
        assert_eq!(codes, ["fair_share", "barrier"]);
    }

    #[test]
    fn accounts_are_told_by_what_holds_them() {
        let account = |allowed, throttled, failed, paused_until_ms| Account {
            limits: Limits {
                concurrency: Some(32),
                ..Limits::default()
            },
            allowed,
            throttled,
            failed,
            paused_until_ms,
            ..Account::default()
        };
        for (account, state, allowed, until) in [
            (account(None, 0, 0, 0), "well", Some(32), None),
            (account(Some(32), 74, 0, 0), "well", Some(32), None),
            (account(Some(8), 74, 0, 0), "throttled", Some(8), None),
            (
                account(Some(32), 1, 0, 101),
                "throttled",
                Some(32),
                Some(101),
            ),
            (account(None, 0, 9, 101), "down", Some(32), Some(101)),
            (account(None, 0, 9, 100), "well", Some(32), None),
        ] {
            let row = ProviderRow::of(&account, 100);
            assert_eq!(
                (
                    row.state.as_str(),
                    row.in_flight_allowed,
                    row.backoff_until_unix_ms
                ),
                (state, allowed, until)
            );
        }
    }

    #[test]
    fn an_unknown_price_is_no_cost_of_nothing() {
        let balance = |has_unpriced| Balance {
            spent: Amount {
                micro_usd: 1_500_000,
                ..Amount::default()
            },
            caps: Caps {
                micro_usd: Some(2_000_000),
                ..Caps::default()
            },
            has_unpriced,
            ..Balance::default()
        };
        let known = LedgerRow::of("run/a", &balance(false));
        assert_eq!((known.cost_usd, known.cap_usd), (Some(1.5), Some(2.0)));
        assert_eq!(known.cost_usd_missing_reason, None);
        let unknown = LedgerRow::of("run/a", &balance(true));
        assert_eq!(unknown.cost_usd, None);
        assert!(unknown.cost_usd_missing_reason.is_some());
    }
}
