//! Slows down whoever guesses tokens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::super::error::Error;

/// Wrong tokens that an address may show in [`WINDOW`].
const FAILURES_MAX: u32 = 5;
/// Time after which they are forgotten.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;

/// Counts wrong tokens by address.
#[derive(Debug, Default)]
pub(super) struct Brake(Mutex<HashMap<IpAddr, (u32, Instant)>>);

impl Brake {
    /// Refuses an address with too many failures.
    pub(super) fn check(&self, peer: Option<IpAddr>, now: Instant) -> Result<(), Error> {
        let Some(peer) = peer else { return Ok(()) };
        let failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.get(&peer) {
            Some((count, since))
                if *count >= FAILURES_MAX && now.duration_since(*since) < WINDOW =>
            {
                Err(Error::Exhausted(
                    "too many wrong tokens came from this address; wait a minute".to_owned(),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Counts a failure.
    pub(super) fn fail(&self, peer: Option<IpAddr>, now: Instant) {
        let Some(peer) = peer else { return };
        let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.len() >= ADDRESSES_MAX {
            failed.retain(|_, (_, since)| now.duration_since(*since) < WINDOW);
        }
        // A flood of addresses does not push out those that are remembered.
        if failed.len() >= ADDRESSES_MAX && !failed.contains_key(&peer) {
            return;
        }
        let entry = failed.entry(peer).or_insert((0, now));
        if now.duration_since(entry.1) >= WINDOW {
            *entry = (0, now);
        }
        entry.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_guesses_waits_a_minute_and_others_do_not() {
        let (brake, now) = (Brake::default(), Instant::now());
        let [bad, good] = [1, 2].map(|n| Some(IpAddr::from([127, 0, 0, n])));
        for _ in 0..FAILURES_MAX {
            assert!(brake.check(bad, now).is_ok());
            brake.fail(bad, now);
        }
        assert!(brake.check(bad, now).is_err());
        assert!(brake.check(good, now).is_ok());
        assert!(brake.check(bad, now + WINDOW).is_ok());
    }
}
