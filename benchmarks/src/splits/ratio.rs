//! The ratio `train:val:test` and how many items each part gets (benchmarks spec 1.1).

use crate::error::LoadError;

/// Weights of train, val and test; each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(pub [u32; 3]);

impl Ratio {
    /// What an empty setting means.
    pub const DEFAULT: Self = Self([2, 1, 7]);

    /// Reads `train:val:test`; blank parts are dropped before they are counted.
    ///
    /// # Errors
    /// Not exactly three positive integers.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let bad = || {
            LoadError::setting(
                "split_ratio",
                format!(
                    "`{text}` is not a ratio; write three positive integers as \
                     train:val:test, e.g. 2:1:7"
                ),
            )
        };
        let weights = text
            .split(':')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| part.parse::<u32>().ok().filter(|weight| *weight > 0))
            .collect::<Option<Vec<u32>>>()
            .ok_or_else(bad)?;
        let weights = <[u32; 3]>::try_from(weights).map_err(|_| bad())?;
        Ok(Self(weights))
    }

    /// Returns the parts' sizes: the floor of each share, then the remaining units one by one to
    /// the largest fraction, ties to the larger weight, then to the earlier part.
    ///
    /// Shares are floating-point numbers on purpose: published splits were cut with their rounding
    /// (two items by 2:1:7 give 1, 0, 1, although 0.4 and 1.4 have equal fractions on paper).
    #[must_use]
    pub fn counts(self, total: usize) -> [usize; 3] {
        let sum: f64 = self.0.iter().copied().map(f64::from).sum();
        let shares = self.0.map(|weight| total as f64 * f64::from(weight) / sum);
        let mut counts = shares.map(|share| share as usize);
        let mut order = [0, 1, 2];
        order.sort_by(|&a, &b| {
            let by_fraction = shares[b].fract().total_cmp(&shares[a].fract());
            by_fraction.then_with(|| self.0[b].cmp(&self.0[a]))
        });
        let left = total.saturating_sub(counts.iter().sum());
        for &part in order.iter().take(left) {
            counts[part] += 1;
        }
        counts
    }

    /// Returns the weights joined by `separator`.
    #[must_use]
    pub fn text(self, separator: &str) -> String {
        self.0.map(|weight| weight.to_string()).join(separator)
    }
}
