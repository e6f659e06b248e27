//! The final lift with an interval.

use serde::Serialize;

use crate::jobs::Rolled;

/// How much better one skill is than another on the same items, in points of `hard` (0 to 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lift {
    /// Mean difference per item.
    pub mean: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Items compared.
    pub n: usize,
}

/// Half width of a normal 95 % interval, in standard errors.
pub const Z_95: f64 = 1.959_963_984_540_054;

/// Compares two skills on the exact scores of the same items: mean of the paired differences, with
/// the normal interval of a mean that is `z` standard errors wide on each side. `None` below two
/// items.
#[must_use]
pub fn paired(before: &[f64], after: &[f64], z: f64) -> Option<Lift> {
    let n = before.len().min(after.len());
    if n < 2 {
        return None;
    }
    let differences: Vec<f64> = before.iter().zip(after).map(|(b, a)| a - b).collect();
    #[expect(clippy::cast_precision_loss, reason = "counts of items are small")]
    let count = n as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = z * (variance / count).sqrt();
    Some(Lift {
        mean,
        low: mean - half,
        high: mean + half,
        n,
    })
}

/// Compares two skills with a 95 % interval. It is not corrected for the choice of the best of many
/// candidates; on a sealed test split it need not be. `None` below two items.
pub(super) fn lift(before: &[Rolled], after: &[Rolled]) -> Option<Lift> {
    let hard = |rolled: &[Rolled]| -> Vec<f64> { rolled.iter().map(|r| r.hard).collect() };
    paired(&hard(before), &hard(after), Z_95)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolled(hits: &str) -> Vec<Rolled> {
        let one = |c| Rolled {
            hard: f64::from(u8::from(c == '1')),
            soft: 0.0,
            task_type: String::new(),
            no_answer: None,
            record: None,
        };
        hits.chars().map(one).collect()
    }

    #[test]
    fn pairs_are_compared_item_by_item() {
        let seen = lift(&rolled("0000"), &rolled("1100")).unwrap();
        assert!((seen.mean - 0.5).abs() < 1e-12 && seen.n == 4);
        assert!(
            seen.low < 0.0 && seen.high > 1.0,
            "four items say little: {seen:?}"
        );
        let sure = lift(&rolled("0000"), &rolled("1111")).unwrap();
        assert!((sure.low - 1.0).abs() < 1e-12);
        assert_eq!(lift(&rolled("0"), &rolled("1")), None);
    }
}
