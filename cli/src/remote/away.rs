//! A coordinator that does not answer: since when, and when it is asked again.

use std::time::Duration;

use skillopt_coordinator::read_model::{span, time_of_day};
use skillopt_runtime::clock::unix_ms;

use crate::exit::Exit;
use crate::failure::Failure;

/// First and longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Nobody answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    since_ms: u64,
    again_ms: u64,
    pause: Duration,
}

impl Away {
    /// Returns whether somebody is away after an answer; `heard_ms` is when somebody last spoke.
    pub(crate) fn after(
        before: Option<Self>,
        failure: Option<&Failure>,
        heard_ms: u64,
    ) -> Option<Self> {
        // A refusal is an answer, too.
        failure.filter(|failure| failure.exit == Exit::Unreachable)?;
        let now = unix_ms();
        let pause = before
            .as_ref()
            .map_or(PAUSES.0, |away| (away.pause * 2).min(PAUSES.1));
        Some(Self {
            since_ms: before.map_or(if heard_ms == 0 { now } else { heard_ms }, |away| {
                away.since_ms
            }),
            again_ms: now + u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            pause,
        })
    }

    /// Returns how long to wait before the next try.
    pub(crate) const fn pause(&self) -> Duration {
        self.pause
    }

    /// Says so.
    pub(crate) fn words(&self, now_ms: u64) -> String {
        format!(
            "No connection since {} · trying again in {}",
            time_of_day(self.since_ms),
            span(self.again_ms.saturating_sub(now_ms) + 999)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_the_beginning_is_remembered() {
        let gone = Failure::new(Exit::Unreachable, "gone");
        let mut away = Away::after(None, Some(&gone), 52_280_000);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let now = away.clone().unwrap();
            assert_eq!(now.since_ms, 52_280_000);
            pauses.push(now.pause().as_secs());
            away = Away::after(away, Some(&gone), 99);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30]);
        let words = Away {
            since_ms: 52_280_000,
            again_ms: 60_007_500,
            pause: PAUSES.0,
        };
        assert_eq!(
            words.words(60_000_000),
            "No connection since 14:31:20 · trying again in 8 s"
        );
    }

    #[test]
    fn a_refusal_is_an_answer() {
        let refused = Failure::usage("no such run");
        assert_eq!(Away::after(None, Some(&refused), 1), None);
        assert_eq!(Away::after(None, None, 1), None);
    }
}
