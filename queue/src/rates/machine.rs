//! One account as a pure state machine: facts and the time in, answers out.
//!
//! `queue/src/redis/scripts/rates.lua` is the same machine on the server; the conformance suite
//! holds both to one behaviour.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use skillopt_core::Hash;

use super::rules::{
    BREAKER_FAILURES, BREAKER_PAUSES, BREAKER_SPAN, CUT, EVIDENCE, PAUSES, RETRY_AFTER_MAX, STEPS,
    THROTTLED_SHARE, WAIT_MAX, WEIGHT,
};
use super::window::Window;
use super::{Account, Ask, Go, Hold, Limits, Outcome};
use crate::clock::Timestamp;

/// One account.
#[derive(Debug, Default)]
pub(super) struct Machine {
    limits: Limits,
    requests: Bucket,
    tokens: Bucket,
    calls: HashMap<String, Call>,
    ends: BTreeSet<(Timestamp, String)>,
    /// Calls at once that the provider bears, while that is less than is asked for.
    allowed: Option<f64>,
    /// `allowed` before it was cut: recovery takes its steps from it.
    before: f64,
    cut_at: Timestamp,
    /// Throttled calls among all, moving.
    share: f64,
    seen: u64,
    paused_until: Timestamp,
    /// Pauses without a wait named by the provider, and without an answer since.
    pauses: u32,
    failures: u32,
    failing_since: Timestamp,
    /// Pauses of the open circuit; 0 if it is closed.
    opened: u32,
    /// First trouble since the last answer.
    stuck_since: Option<Timestamp>,
    /// Requests and tokens.
    minute: Window<60_000>,
    /// Throttled and failed calls.
    trouble: Window<600_000>,
}

#[derive(Debug)]
struct Call {
    tokens: u64,
    began_at: Timestamp,
    ends_at: Timestamp,
}

/// Tokens that refill steadily.
#[derive(Debug, Default)]
struct Bucket {
    /// What is there; less than nothing after a call larger than the bucket.
    level: f64,
    filled_at: Timestamp,
    /// Calls that were told to wait fill the time up to here.
    booked_to: f64,
    is_used: bool,
}

impl Bucket {
    /// A twentieth may come at once; with the refill, no minute sees more than `limit`.
    fn size(limit: u64) -> f64 {
        (as_f64(limit) / 20.0).max(1.0)
    }

    fn per_ms(limit: u64) -> f64 {
        (as_f64(limit) - Self::size(limit) + 1.0) / 60_000.0
    }

    fn fill(&mut self, now: Timestamp, limit: u64) {
        let size = Self::size(limit);
        if !self.is_used {
            self.level = size;
            self.is_used = true;
        } else {
            let ms = as_f64(ms(now.since(self.filled_at)));
            self.level = (self.level + ms * Self::per_ms(limit)).min(size);
        }
        self.filled_at = now;
    }

    /// Returns when `n` will be there; nothing if they are.
    fn wait(&mut self, now: Timestamp, limit: u64, n: u64) -> Option<Timestamp> {
        self.fill(now, limit);
        let need = as_f64(n).min(Self::size(limit));
        if self.level >= need {
            return None;
        }
        let now_ms = as_f64(now.as_ms());
        let ready = now_ms + (need - self.level) / Self::per_ms(limit);
        // Those who wait come one after the other, not all at once.
        let at = ready.max(self.booked_to).min(now_ms + as_f64(ms(WAIT_MAX)));
        self.booked_to = at + need / Self::per_ms(limit);
        Some(Timestamp::from_ms(as_u64(at.ceil()).max(now.as_ms() + 1)))
    }

    fn take(&mut self, n: f64) {
        self.level -= n;
    }
}

impl Machine {
    pub(super) const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(super) fn ask(&mut self, now: Timestamp, ask: &Ask) -> Go {
        self.end_calls(now);
        if self.calls.contains_key(&ask.call) {
            return Go::Now;
        }
        if let Some(go) = self.held_up(now, ask) {
            return go;
        }
        if self.limits.requests_per_minute.is_some() {
            self.requests.take(1.0);
        }
        if self.limits.tokens_per_minute.is_some() {
            self.tokens.take(as_f64(ask.tokens));
        }
        self.minute.add(now, 1, 0);
        let call = Call {
            tokens: ask.tokens,
            began_at: now,
            ends_at: now.plus(ask.lifetime),
        };
        self.ends.insert((call.ends_at, ask.call.clone()));
        self.calls.insert(ask.call.clone(), call);
        Go::Now
    }

    fn held_up(&mut self, now: Timestamp, ask: &Ask) -> Option<Go> {
        let hold = |at: Timestamp, why| {
            let wait = at.since(now);
            Some(Go::NotBefore { at, wait, why })
        };
        if now < self.paused_until {
            return hold(self.paused_until, Hold::Paused);
        }
        let soon = now.plus(STEPS);
        if self.opened > 0 && !self.calls.is_empty() {
            return hold(soon, Hold::Paused);
        }
        if self
            .room()
            .is_some_and(|room| self.calls.len() as u64 >= room)
        {
            return hold(soon, Hold::Concurrency);
        }
        if let Some(limit) = self.limits.requests_per_minute
            && let Some(at) = self.requests.wait(now, limit, 1)
        {
            return hold(at, Hold::Requests);
        }
        if let Some(limit) = self.limits.tokens_per_minute
            && let Some(at) = self.tokens.wait(now, limit, ask.tokens)
        {
            return hold(at, Hold::Tokens);
        }
        None
    }

    /// Calls at once that are allowed now.
    fn room(&self) -> Option<u64> {
        let adapted = self.allowed.map(|allowed| as_u64(allowed.floor()).max(1));
        match (adapted, self.limits.concurrency) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub(super) fn report(&mut self, now: Timestamp, name: &str, call: &str, outcome: Outcome) {
        self.end_calls(now);
        let in_flight = self.calls.len();
        let ended = self.calls.remove(call);
        if let Some(call_) = &ended {
            self.ends.remove(&(call_.ends_at, call.to_owned()));
        }
        let used = match outcome {
            Outcome::Answered(tokens) => tokens,
            _ => 0,
        };
        if let (Some(ended), Some(limit)) = (&ended, self.limits.tokens_per_minute) {
            self.tokens.fill(now, limit);
            self.tokens.take(as_f64(used) - as_f64(ended.tokens));
            self.tokens.level = self.tokens.level.min(Bucket::size(limit));
        }
        match outcome {
            Outcome::Answered(_) => self.answered(now, used),
            Outcome::Throttled(wait) => {
                let began_at = ended.map(|call| call.began_at);
                self.throttled(now, name, began_at, wait, in_flight);
            }
            Outcome::Failed => self.failed(now),
            Outcome::Nothing => {}
        }
    }

    fn answered(&mut self, now: Timestamp, tokens: u64) {
        self.minute.add(now, 0, tokens);
        self.share *= 1.0 - WEIGHT;
        self.seen += 1;
        self.pauses = 0;
        self.stuck_since = None;
        self.failures = 0;
        self.opened = 0;
        if let Some(allowed) = &mut self.allowed {
            *allowed += (self.before / 16.0).max(1.0) / allowed.max(1.0);
            if *allowed >= self.before {
                self.allowed = None;
            }
        }
    }

    fn throttled(
        &mut self,
        now: Timestamp,
        name: &str,
        began_at: Option<Timestamp>,
        wait: Option<Duration>,
        in_flight: usize,
    ) {
        self.trouble.add(now, 1, 0);
        self.stuck_since.get_or_insert(now);
        self.share += (1.0 - self.share) * WEIGHT;
        self.seen += 1;
        self.failures = 0;
        // Where most calls are answered, only this one waits.
        if self.seen >= EVIDENCE && self.share < THROTTLED_SHARE {
            return;
        }
        // Calls of before a cut say nothing about what holds after it.
        let is_new = now >= self.paused_until && began_at.is_none_or(|began| began >= self.cut_at);
        if is_new && in_flight > 1 {
            let base = self.allowed.unwrap_or(as_f64(in_flight as u64));
            self.before = self.before.max(base);
            if self.allowed.is_none() {
                self.before = base;
            }
            self.allowed = Some((base * CUT).max(1.0));
            self.cut_at = now;
        }
        let until = match wait {
            Some(wait) => now.plus(wait.min(RETRY_AFTER_MAX)),
            None if is_new => {
                let step = step(PAUSES, self.pauses);
                self.pauses = self.pauses.saturating_add(1);
                let unit = unit(name, self.seen);
                now.plus(step.mul_f64(unit).max(Duration::from_millis(20)))
            }
            None => self.paused_until,
        };
        self.paused_until = self.paused_until.max(until);
    }

    fn failed(&mut self, now: Timestamp) {
        self.trouble.add(now, 0, 1);
        self.stuck_since.get_or_insert(now);
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures = self.failures.saturating_add(1);
        let is_down =
            self.failures >= BREAKER_FAILURES && now.since(self.failing_since) >= BREAKER_SPAN;
        if (self.opened > 0 || is_down) && now >= self.paused_until {
            let pause = step(BREAKER_PAUSES, self.opened);
            self.opened = self.opened.saturating_add(1);
            self.paused_until = now.plus(pause);
        }
    }

    fn end_calls(&mut self, now: Timestamp) {
        while self.ends.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, call)) = self.ends.pop_first() {
                self.calls.remove(&call);
            }
        }
        if self.allowed.is_none() && self.trouble.sums(now) == (0, 0) {
            (self.share, self.seen) = (0.0, 0);
            self.stuck_since = None;
        }
    }

    /// Returns how the account is doing, or nothing if there is nothing to say.
    pub(super) fn view(&mut self, now: Timestamp, name: &str) -> Option<Account> {
        self.end_calls(now);
        let (throttled, failed) = self.trouble.sums(now);
        let is_paused = now < self.paused_until;
        let is_in_trouble = throttled + failed > 0 || is_paused || self.opened > 0;
        if self.limits == Limits::default() && !is_in_trouble && self.allowed.is_none() {
            return None;
        }
        let (requests, tokens) = self.minute.sums(now);
        Some(Account {
            name: name.to_owned(),
            limits: self.limits,
            in_flight: self.calls.len() as u64,
            allowed: self.room(),
            requests,
            tokens,
            throttled,
            failed,
            stuck_for_ms: self.stuck_since.map_or(0, |since| ms(now.since(since))),
            paused_until_ms: if is_paused {
                self.paused_until.as_ms()
            } else {
                0
            },
        })
    }

    /// Returns whether nothing is known that matters later.
    pub(super) fn is_idle(&mut self, now: Timestamp, name: &str) -> bool {
        self.view(now, name).is_none() && self.calls.is_empty()
    }
}

/// Doubles `first` with each further pause, up to `most`.
fn step((first, most): (Duration, Duration), pauses: u32) -> Duration {
    first.saturating_mul(1 << pauses.min(20)).min(most)
}

/// Derives a number in [0, 1) that spreads pauses.
fn unit(name: &str, seen: u64) -> f64 {
    let hash = Hash::of_parts([name.as_bytes(), &seen.to_le_bytes()]);
    let [a, b, c, d, ..] = *hash.as_bytes();
    f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates and times are far below 2^53"
)]
const fn as_f64(n: u64) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates"
)]
const fn as_u64(x: f64) -> u64 {
    x as u64
}
