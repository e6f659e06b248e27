//! Quantiles of the normal distribution, for intervals at levels other than 95 %.

/// Series terms; enough for every `x` that [`half_width`] looks at.
const TERMS: u32 = 400;
/// No level that we use lies further out.
const FAR: f64 = 8.0;

/// Returns how many standard errors an interval is wide on each side that leaves out `alpha` in
/// all, e.g. 1.96 for 0.05. At most `FAR`.
#[must_use]
pub fn half_width(alpha: f64) -> f64 {
    let wanted = 1.0 - alpha / 2.0;
    let (mut low, mut high) = (0.0_f64, FAR);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if below(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Share of the distribution below `x`, for `x` from 0 to [`FAR`]: one half and the density times
/// x + x³/3 + x⁵/15 + …
fn below(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..TERMS {
        term *= x * x / f64::from(2 * n + 1);
        sum += term;
    }
    let density = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    0.5 + sum * density
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_quantiles() {
        for (alpha, want) in [
            (0.32, 0.994_457_883_209_752_8),
            (0.05, crate::train::Z_95),
            (0.01, 2.575_829_303_548_901),
            (0.05 / 52.0, 3.301_545_184_757_089),
            (1e-6, 4.891_638_475_714_779),
        ] {
            let seen = half_width(alpha);
            assert!((seen - want).abs() < 1e-6, "{alpha}: {seen} is not {want}");
        }
    }
}
