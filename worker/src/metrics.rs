//! What a worker counts.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use skillopt_backends::{CallError, ChatReply};
use skillopt_core::capability::Kind;

/// How a delivery of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its result was stored.
    Done,
    /// It is tried again later.
    Retried,
    /// Its calls cannot be made now; it comes again later.
    Postponed,
    /// It was given up.
    GivenUp,
    /// It went back untouched.
    HandedBack,
    /// It went back untouched for a fault of this worker.
    Fault,
    /// The lease was gone while it was under way.
    Lost,
    /// It was somebody else's when its end was told.
    Refused,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retried => "retried",
            Self::Postponed => "postponed",
            Self::GivenUp => "given_up",
            Self::HandedBack => "handed_back",
            Self::Fault => "fault",
            Self::Lost => "lost",
            Self::Refused => "refused",
        }
    }
}

type Pair = (&'static str, &'static str);

/// The counts of one worker.
pub(crate) struct Metrics {
    jobs: Family<[Pair; 2], Counter>,
    in_flight: Family<[Pair; 1], Gauge>,
    slots: Family<[Pair; 1], Gauge>,
    renewals: Family<[Pair; 1], Counter>,
    lease_wait: Histogram,
    queue_errors: Counter,
    calls: Family<[Pair; 1], Counter>,
    tokens: Family<[Pair; 1], Counter>,
    cache_bytes: Gauge,
    values_away: Gauge,
    is_ready: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            jobs: Family::default(),
            in_flight: Family::default(),
            slots: Family::default(),
            renewals: Family::default(),
            // 0.1 ms to about 50 s.
            lease_wait: Histogram::new(exponential_buckets(1e-4, 2.0, 20)),
            queue_errors: Counter::default(),
            calls: Family::default(),
            tokens: Family::default(),
            cache_bytes: Gauge::default(),
            values_away: Gauge::default(),
            is_ready: Gauge::default(),
        }
    }

    pub(crate) fn has_slots(&self, kind: Kind, slots: usize) {
        let slots = i64::try_from(slots).unwrap_or(i64::MAX);
        self.slots
            .get_or_create(&[("kind", kind.as_str())])
            .set(slots);
    }

    pub(crate) fn begun(&self, kind: Kind) {
        self.in_flight
            .get_or_create(&[("kind", kind.as_str())])
            .inc();
    }

    pub(crate) fn ended(&self, kind: Kind, outcome: Outcome) {
        let kind = ("kind", kind.as_str());
        self.in_flight.get_or_create(&[kind]).dec();
        self.jobs
            .get_or_create(&[kind, ("outcome", outcome.as_str())])
            .inc();
    }

    /// Counts deliveries that ended in one way, of all kinds.
    pub(crate) fn total(&self, outcome: Outcome) -> u64 {
        Kind::ALL
            .iter()
            .filter_map(|kind| {
                let labels = [("kind", kind.as_str()), ("outcome", outcome.as_str())];
                self.jobs.get(&labels).map(|counter| counter.get())
            })
            .sum()
    }

    pub(crate) fn renewed(&self, is_held: bool) {
        let answer = if is_held { "held" } else { "lost" };
        self.renewals.get_or_create(&[("answer", answer)]).inc();
    }

    /// A lease was granted after this wait: idle time included.
    pub(crate) fn leased(&self, wait: Duration) {
        self.lease_wait.observe(wait.as_secs_f64());
    }

    pub(crate) fn queue_error(&self) {
        self.queue_errors.inc();
    }

    pub(crate) fn call(&self, answer: &Result<ChatReply, CallError>) {
        let outcome = skillopt_backends::Outcome::of(answer).as_str();
        self.calls.get_or_create(&[("outcome", outcome)]).inc();
        let usage = match answer {
            Ok(reply) => Some(reply.usage),
            Err(e) => e.usage(),
        };
        let usage = usage.unwrap_or_default();
        for (direction, n) in [
            ("sent", usage.prompt_tokens),
            ("received", usage.completion_tokens),
            ("cached", usage.cached_tokens),
            ("reasoning", usage.reasoning_tokens),
        ] {
            // The last two are parts of the first two: absent where nobody counts them.
            if n > 0 {
                let labels = [("direction", direction)];
                self.tokens.get_or_create(&labels).inc_by(n);
            }
        }
    }

    pub(crate) fn values_are_away(&self, is_away: bool) {
        self.values_away.set(i64::from(is_away));
    }

    /// Returns everything in the text format of OpenMetrics.
    pub(crate) fn text(&self, is_ready: bool, cache_bytes: usize) -> String {
        self.is_ready.set(i64::from(is_ready));
        self.cache_bytes
            .set(i64::try_from(cache_bytes).unwrap_or(i64::MAX));
        let mut registry = Registry::with_prefix("skillopt_worker");
        let r = &mut registry;
        r.register(
            "jobs",
            "Deliveries that ended, by kind and outcome",
            self.jobs.clone(),
        );
        r.register(
            "jobs_in_flight",
            "Jobs under way, by kind",
            self.in_flight.clone(),
        );
        r.register(
            "slots",
            "Jobs that may run at once, by kind",
            self.slots.clone(),
        );
        r.register(
            "lease_renewals",
            "Renewed leases, by answer",
            self.renewals.clone(),
        );
        r.register(
            "lease_wait_seconds",
            "Time until work came",
            self.lease_wait.clone(),
        );
        r.register(
            "queue_errors",
            "Failed requests to the queue",
            self.queue_errors.clone(),
        );
        r.register(
            "model_calls",
            "Calls of models, by outcome",
            self.calls.clone(),
        );
        r.register(
            "model_tokens",
            "Tokens, by direction; those cached are part of those sent, reasoning of those received",
            self.tokens.clone(),
        );
        r.register(
            "cache_bytes",
            "Memory of items and skills",
            self.cache_bytes.clone(),
        );
        r.register(
            "values_away",
            "1 while large values cannot be stored or read",
            self.values_away.clone(),
        );
        r.register("ready", "1 if it takes jobs", self.is_ready.clone());
        let mut text = String::new();
        // Writing to a text does not fail.
        encode(&mut text, &registry).unwrap_or_default();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_by_kind_and_outcome() {
        let metrics = Metrics::new();
        metrics.begun(Kind::Chat);
        metrics.begun(Kind::Chat);
        metrics.ended(Kind::Chat, Outcome::Done);
        metrics.ended(Kind::Exec, Outcome::Done);
        metrics.renewed(false);
        assert_eq!(metrics.total(Outcome::Done), 2);
        assert_eq!(metrics.total(Outcome::Refused), 0);
        let text = metrics.text(true, 7);
        for line in [
            r#"skillopt_worker_jobs_total{kind="chat",outcome="done"} 1"#,
            r#"skillopt_worker_jobs_in_flight{kind="chat"} 1"#,
            r#"skillopt_worker_lease_renewals_total{answer="lost"} 1"#,
            "skillopt_worker_ready 1",
            "skillopt_worker_cache_bytes 7",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is in\n{text}");
        }
    }
}
