//! How long a call takes: a distribution, drawn from two numbers in [0, 1) (chapter 7).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest latency, so that the tail of a wide distribution stays a duration: one day.
const MAX_MS: f64 = 86_400_000.0;

/// A distribution of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(f64),
    /// Evenly between two bounds.
    Uniform(f64, f64),
    /// Lognormal.
    Lognormal {
        /// The median.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Upper limit.
        cap: Option<f64>,
    },
}

impl Latency {
    /// No waiting.
    pub const NONE: Self = Self::Fixed(0.0);

    /// Returns the latency that two numbers in [0, 1) stand for; `second` is asked only if it is
    /// needed.
    #[must_use]
    pub fn draw(&self, first: impl FnOnce() -> f64, second: impl FnOnce() -> f64) -> Duration {
        let ms = match *self {
            Self::Fixed(ms) => ms,
            Self::Uniform(low, high) => low + (high - low) * first(),
            Self::Lognormal { median, sigma, cap } => {
                // Box–Muller.
                let radius = (-2.0 * (1.0 - first()).ln()).sqrt();
                let normal = radius * (2.0 * std::f64::consts::PI * second()).cos();
                let ms = median * (sigma * normal).exp();
                cap.map_or(ms, |cap| ms.min(cap))
            }
        };
        Duration::from_secs_f64(ms.clamp(0.0, MAX_MS) / 1000.0)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(ms) => write!(f, "fixed:{ms}"),
            Self::Uniform(low, high) => write!(f, "uniform:{low},{high}"),
            Self::Lognormal { median, sigma, cap } => {
                write!(f, "lognormal:{median},{sigma}")?;
                cap.map_or(Ok(()), |cap| write!(f, ",{cap}"))
            }
        }
    }
}

impl FromStr for Latency {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, numbers) = text.split_once(':').ok_or(())?;
        let numbers = numbers
            .split(',')
            .map(|n| n.trim().parse::<f64>().map_err(drop))
            .collect::<Result<Vec<f64>, ()>>()?;
        if !numbers.iter().all(|n| (0.0..=MAX_MS).contains(n)) {
            return Err(());
        }
        match (kind.trim(), numbers.as_slice()) {
            ("fixed", [ms]) => Ok(Self::Fixed(*ms)),
            ("uniform", [low, high]) if low <= high => Ok(Self::Uniform(*low, *high)),
            ("lognormal", [median, sigma]) => Ok(Self::Lognormal {
                median: *median,
                sigma: *sigma,
                cap: None,
            }),
            ("lognormal", [median, sigma, cap]) => Ok(Self::Lognormal {
                median: *median,
                sigma: *sigma,
                cap: Some(*cap),
            }),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, draws: (f64, f64), ms: u64) {
        let latency: Latency = text.parse().expect(text);
        let seen = latency.draw(|| draws.0, || draws.1).as_secs_f64() * 1000.0;
        assert!((seen - ms as f64).abs() < 0.5, "{text}: {seen}");
        assert_eq!(latency.to_string().parse(), Ok(latency));
    }

    #[test]
    fn draws_follow_the_distribution() {
        check("fixed:50", (0.3, 0.3), 50);
        check("uniform:100,300", (0.0, 0.9), 100);
        check("uniform:100,300", (0.5, 0.9), 200);
        check("lognormal:800,0.6", (0.0, 0.4), 800);
        // sqrt(-2 ln 0.5) = 1.1774 standard deviations up, or capped.
        check("lognormal:800,0.6", (0.5, 0.0), 1621);
        check("lognormal:800,0.6,1000", (0.5, 0.0), 1000);
        check("lognormal:800,0.6", (0.5, 0.25), 800);
        check("lognormal:86400000,9", (0.999_999, 0.0), 86_400_000);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "50",
            "fixed:",
            "fixed:-1",
            "uniform:5,1",
            "fixed:1,2",
            "normal:1,2",
        ] {
            assert_eq!(text.parse::<Latency>(), Err(()), "{text}");
        }
        assert_eq!("fixed:NaN".parse::<Latency>(), Err(()));
    }
}
