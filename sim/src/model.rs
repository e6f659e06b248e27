//! The simulated model as a whole: replies, and the latencies and faults around them.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::faults::Fate;
use crate::replies::{self, Call, Reply};
use crate::settings::{Params, Settings};
use crate::stage::Stage;
use crate::state::{Admission, Ending, State, Stats};
use crate::unit::{hash_word, unit};

/// The text of an answer that is not what was asked for.
const GARBAGE: &str = "I am sorry, something went wrong and I lost the thread { of \"this\" answer";

/// A simulated model, shared by all its callers through an `Arc`.
///
/// Its state is the settings, the number of attempts for each key, and counters; the content of a
/// reply depends on the parameters and the call alone.
#[derive(Debug)]
pub struct SimulatedModel {
    settings: RwLock<Arc<Settings>>,
    state: State,
}

/// How an exchange ended, after its waiting time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a text, useless if the fate was so.
    Text(Reply),
    /// Asked to come back later, perhaps after so many seconds (HTTP 429).
    Throttled(Option<u64>),
    /// Failed (HTTP 500).
    ServerError,
    /// Rejected (HTTP 401).
    Unauthorized,
    /// A body that is no JSON (HTTP 200).
    Malformed,
    /// The connection is cut, after a hung call's time is over too.
    Cut,
}

impl SimulatedModel {
    /// Starts a model.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: RwLock::new(Arc::new(settings)),
            state: State::default(),
        }
    }

    /// Returns the reply to a call: pure, without latency, fault or counting.
    #[must_use]
    pub fn reply(&self, call: &Call<'_>) -> Reply {
        replies::reply(&self.settings().params, call)
    }

    /// Returns the settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&settings)
    }

    /// Puts other settings in force, for the calls that come from now on.
    pub fn configure(&self, settings: Settings) {
        *self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.state.stats()
    }

    /// Forgets attempts and counters; the settings stay.
    pub fn reset(&self) {
        self.state.reset();
    }

    /// Counts an HTTP answer to something that was no call.
    pub(crate) fn note_status(&self, status: u16) {
        self.state.note_status(status);
    }

    /// Counts a client that went away in the middle of its request.
    pub(crate) fn note_aborted(&self) {
        self.state.note_aborted();
    }

    /// Makes an exchange: waits for its latency and ends as its draw says.
    ///
    /// # Cancel safety
    /// Dropping the future counts the call as aborted; nothing else is lost.
    pub async fn exchange(&self, call: &Call<'_>) -> Outcome {
        let settings = self.settings();
        let reply = replies::reply(&settings.params, call);
        let bytes = call.sys.len() + call.user.len();
        let admission = self.state.admit(&settings, hash_word(&reply.key), bytes);
        let plan = Plan::new(&settings, &reply, &admission);
        if !plan.wait.is_zero() {
            tokio::time::sleep(plan.wait).await;
        }
        let outcome = outcome(plan.fate, &settings, reply);
        admission.flight.end(ending(plan.fate, &outcome));
        outcome
    }
}

/// What becomes of a call, and after how long.
struct Plan {
    fate: Fate,
    wait: Duration,
}

impl Plan {
    fn new(settings: &Settings, reply: &Reply, admission: &Admission<'_>) -> Self {
        let draws = Draws::new(&settings.params, reply, admission.attempt);
        let fate = if settings.is_unauthorized {
            Fate::Unauthorized
        } else if settings.is_dead {
            Fate::Cut
        } else if admission.is_over_limit {
            Fate::Throttled
        } else {
            settings.chances.draw(|| draws.draw("fault"))
        };
        let wait = if fate == Fate::Hang {
            Duration::from_secs_f64(settings.hang_s)
        } else if fate.has_latency() {
            let latency = match reply.stage {
                Stage::Target => settings.latency_target,
                _ => settings.latency_optimizer,
            };
            let latency = latency.unwrap_or(settings.latency);
            latency.draw(|| draws.draw("lat1"), || draws.draw("lat2"))
        } else {
            Duration::ZERO
        };
        Self { fate, wait }
    }
}

/// The draws of one attempt at a key.
struct Draws<'a> {
    seed: u64,
    key: &'a str,
    attempt: u32,
}

impl<'a> Draws<'a> {
    fn new(params: &Params, reply: &'a Reply, attempt: u32) -> Self {
        Self {
            seed: params.seed,
            key: &reply.key,
            attempt,
        }
    }

    fn draw(&self, name: &str) -> f64 {
        let key = crate::unit::short_hash(self.key);
        unit(self.seed, &[name, &key, &self.attempt.to_string()])
    }
}

fn outcome(fate: Fate, settings: &Settings, reply: Reply) -> Outcome {
    match fate {
        Fate::Answer => Outcome::Text(reply),
        Fate::Garbage => Outcome::Text(Reply {
            text: GARBAGE.to_owned(),
            ..reply
        }),
        Fate::Throttled => Outcome::Throttled(settings.retry_after_s),
        Fate::ServerError => Outcome::ServerError,
        Fate::Unauthorized => Outcome::Unauthorized,
        Fate::Malformed => Outcome::Malformed,
        Fate::Cut | Fate::Hang => Outcome::Cut,
    }
}

fn ending(fate: Fate, outcome: &Outcome) -> Ending {
    match outcome {
        // Garbage does not answer the work of its key: asking again is no repeat.
        Outcome::Text(_) if fate == Fate::Garbage => Ending::Status(200),
        Outcome::Text(reply) => Ending::Answered(reply.stage, reply.text.len()),
        Outcome::Malformed => Ending::Status(200),
        Outcome::Throttled(_) => Ending::Status(429),
        Outcome::ServerError => Ending::Status(500),
        Outcome::Unauthorized => Ending::Status(401),
        Outcome::Cut => Ending::Cut,
    }
}

#[cfg(test)]
mod tests;
