//! What one relay has let out and kept back, and how much more it may.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_runtime::redact::redact;
use tokio::sync::Notify;

use super::allow::Refusal;
use super::record::{Exchange, Record, Trouble};
use super::{Caps, Plan, marker};

/// Most refusals that are kept.
const REFUSED_MAX: usize = 20;
/// Most requests of a task that come to nothing.
const FAILURES_MAX: u64 = 100;
/// Bytes of a request for each of its tokens, about.
pub(super) const TOKEN_BYTES: u64 = 4;
/// Tokens that an answer without a limit is taken for.
const ANSWER_TOKENS: u64 = 4_096;
/// Most characters of a provider's words that are kept: what tells their class may stand at their end.
const WORDS_MAX: usize = 64 << 10;

/// The book of one relay.
pub(super) struct Log {
    endpoint: String,
    marker: String,
    caps: Caps,
    secrets: Vec<String>,
    state: Mutex<State>,
    /// A request has ended.
    ended: Notify,
    /// The task is over: nothing more is let out.
    shut: Notify,
}

#[derive(Default)]
struct State {
    record: Record,
    under_way: u64,
    /// Tokens of those at most, about.
    tokens: u64,
}

impl Log {
    pub(super) fn new(plan: &Plan, key: Option<&str>) -> Self {
        let values = plan
            .credential
            .values()
            .filter_map(|value| value.to_str().ok());
        let secrets = values.map(|value| value.trim_start_matches("Bearer "));
        Self {
            endpoint: plan.address.clone(),
            marker: plan.marker.clone(),
            caps: plan.caps,
            secrets: secrets.chain(key).map(str::to_owned).collect(),
            state: Mutex::default(),
            ended: Notify::new(),
            shut: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No section under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self) -> Record {
        self.state().record.clone()
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn redacted(&self, text: &str) -> String {
        let secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        redact(text, &secrets)
    }

    /// Takes the secrets out of a text, which mostly holds none.
    pub(super) fn redact(&self, text: &mut String) {
        if self
            .secrets
            .iter()
            .any(|secret| text.contains(secret.as_str()))
        {
            *text = self.redacted(text);
        }
    }

    /// Waits until the task has room for a request of so many bytes, which it may get from those under
    /// way, and counts it. Near the cap of tokens, they go one after the other.
    pub(super) async fn count(
        self: &Arc<Self>,
        bytes: u64,
        answer: Option<u64>,
    ) -> Result<Counted, Refusal> {
        let input = bytes / TOKEN_BYTES;
        let most = input + answer.unwrap_or(ANSWER_TOKENS);
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // Before the look: no end is missed.
            ended.as_mut().enable();
            if let Some(counted) = self.room(input, most)? {
                return Ok(counted);
            }
            ended.await;
        }
    }

    fn room(self: &Arc<Self>, input: u64, most: u64) -> Result<Option<Counted>, Refusal> {
        let mut state = self.state();
        let State {
            record, under_way, ..
        } = &*state;
        let Caps { requests, tokens } = self.caps;
        if requests > 0 && record.requests - under_way >= requests {
            return Err(Refusal::Requests(requests));
        }
        if tokens > 0 && record.tokens.total() >= tokens {
            return Err(Refusal::Tokens(tokens));
        }
        if record.failures >= FAILURES_MAX {
            return Err(Refusal::Failures(FAILURES_MAX));
        }
        let is_full = (requests > 0 && record.requests >= requests)
            || (tokens > 0
                && *under_way > 0
                && record.tokens.total() + state.tokens + most > tokens);
        if is_full {
            return Ok(None);
        }
        state.record.requests += 1;
        state.under_way += 1;
        state.tokens += most;
        Ok(Some(Counted {
            log: Arc::clone(self),
            input,
            most,
            is_kept: false,
        }))
    }

    /// Notes that something was not let out.
    pub(super) fn refuse(&self, refusal: Refusal) {
        let mut state = self.state();
        let record = &mut state.record;
        record.refusals += 1;
        let is_news = refusal.is_cap() && !record.refused.contains(&refusal);
        if record.refused.len() < REFUSED_MAX || is_news {
            record.refused.push(refusal.shortened());
        }
    }

    /// Notes what the provider did wrong.
    pub(super) fn trouble(&self, status: u16, words: &str, retry_after: Option<Duration>) {
        let words = self.redacted(words);
        let retry_after_ms =
            retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let mut state = self.state();
        // What ended the task stays what ended it.
        if !matches!(state.record.trouble, Some(Trouble::Gate(_))) {
            state.record.trouble = Some(Trouble::Provider {
                status,
                words: words.chars().take(WORDS_MAX).collect(),
                retry_after_ms,
            });
        }
    }

    /// Notes that the gate lets nothing more out: the task is over.
    pub(super) fn shut(&self, why: &str) {
        self.state().record.trouble = Some(Trouble::Gate(why.to_owned()));
        self.shut.notify_one();
    }

    /// Waits until the gate lets nothing more out.
    pub(super) async fn is_shut(&self) {
        self.shut.notified().await;
    }

    /// Notes how long a request was held up.
    pub(super) fn held_up(&self, time: Duration) {
        self.state().record.held_up += time;
    }

    /// Notes how long the provider had not answered a request when the task ended.
    pub(super) fn unanswered(&self, time: Duration) {
        let record = &mut self.state().record;
        record.unanswered = record.unanswered.max(time);
    }

    /// Notes how long an answer had not gone on when nobody waited for its end any more.
    pub(super) fn stalled(&self, time: Duration) {
        let record = &mut self.state().record;
        record.stalled = record.stalled.max(time);
    }

    /// Notes a request that no answer of the provider came to.
    pub(super) fn unreached(&self, words: &str) {
        self.trouble(0, words, None);
        self.state().record.failures += 1;
    }

    /// Notes a request with its answer. One that the CLI did not want to the end has no error: that is
    /// no failure of the provider's, and counts by its tokens.
    pub(super) fn add(&self, exchange: Exchange) {
        // Once is enough: a request may be large.
        let was_seen = self.state().record.is_marker_seen;
        let is_marker_seen = was_seen || marker::stands_in(&self.marker, &exchange);
        let mut state = self.state();
        let record = &mut state.record;
        record.is_marker_seen |= is_marker_seen;
        // Each request holds the whole conversation before it: the last two are enough.
        if let Some(at) = record.exchanges.len().checked_sub(2) {
            record.exchanges[at].request = Arc::default();
        }
        record.tokens += exchange.tokens;
        let is_failure = exchange.status != 200 || exchange.said.error.is_some();
        record.failures += u64::from(is_failure);
        // An answer after a trouble means that it was got over.
        let is_answered = exchange.status == 200 && exchange.said.finish.is_some();
        if is_answered && matches!(record.trouble, Some(Trouble::Provider { .. })) {
            record.trouble = None;
        }
        record.exchanges.push(exchange);
    }
}

/// A request that counts against the task's caps, unless it comes to nothing.
pub(super) struct Counted {
    log: Arc<Log>,
    input: u64,
    most: u64,
    is_kept: bool,
}

impl Counted {
    /// It was answered, at least in part.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Returns the tokens that it sent, about.
    pub(super) const fn input(&self) -> u64 {
        self.input
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut state = self.log.state();
        state.under_way -= 1;
        state.tokens -= self.most;
        if !self.is_kept {
            state.record.requests -= 1;
        }
        drop(state);
        self.log.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::relay::Said;

    fn log() -> Arc<Log> {
        Arc::new(Log::new(&Plan::plain(), None))
    }

    fn exchange(status: u16, finish: Option<&str>, error: Option<&str>) -> Exchange {
        let said = Said {
            finish: finish.map(str::to_owned),
            error: error.map(str::to_owned),
            ..Said::default()
        };
        Exchange {
            status,
            ..Exchange::of(Value::Null, said)
        }
    }

    #[test]
    fn what_came_to_nothing_is_counted_however_it_did() {
        for (what, status, finish, error, want) in [
            ("an answer", 200, Some("stop"), None, 0),
            ("a refusal", 400, None, Some("no"), 1),
            (
                "an end without a finish",
                200,
                None,
                Some("it broke off"),
                1,
            ),
            ("an error in the midst", 200, Some("stop"), Some("no"), 1),
            (
                "an answer that nobody wanted to the end",
                200,
                None,
                None,
                0,
            ),
        ] {
            let log = log();
            log.add(exchange(status, finish, error));
            assert_eq!(log.record().failures, want, "{what}");
        }
        let log = log();
        log.unreached("no connection");
        assert_eq!(log.record().failures, 1);
    }

    #[tokio::test]
    async fn so_many_that_came_to_nothing_are_the_last() {
        let log = log();
        for _ in 0..FAILURES_MAX {
            log.count(1, None).await.unwrap().keep();
            log.add(exchange(200, None, Some("the answer broke off")));
        }
        let refusal = log.count(1, None).await.err();
        assert_eq!(refusal, Some(Refusal::Failures(FAILURES_MAX)));
    }
}
