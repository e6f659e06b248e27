//! Counts of a span that moves: the present span, and the share of the one before that still
//! counts.

use crate::clock::Timestamp;

/// Two counts over a span.
#[derive(Debug, Default)]
pub(super) struct Window<const SPAN_MS: u64> {
    /// Number of the present span.
    number: u64,
    present: (u64, u64),
    before: (u64, u64),
}

impl<const SPAN_MS: u64> Window<SPAN_MS> {
    pub(super) const fn add(&mut self, now: Timestamp, a: u64, b: u64) {
        self.turn(now);
        self.present = (self.present.0 + a, self.present.1.saturating_add(b));
    }

    pub(super) const fn sums(&mut self, now: Timestamp) -> (u64, u64) {
        self.turn(now);
        let left = SPAN_MS - now.as_ms() % SPAN_MS;
        let (a, b) = self.before;
        (
            self.present.0 + Self::part(a, left),
            self.present.1 + Self::part(b, left),
        )
    }

    const fn part(n: u64, left: u64) -> u64 {
        n.saturating_mul(left).div_ceil(SPAN_MS)
    }

    const fn turn(&mut self, now: Timestamp) {
        let number = now.as_ms() / SPAN_MS;
        if number == self.number {
            return;
        }
        self.before = if number == self.number + 1 {
            self.present
        } else {
            (0, 0)
        };
        self.present = (0, 0);
        self.number = number;
    }
}
