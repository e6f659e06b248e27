//! Numbers as people read them: the same as in every view of a run.

pub(crate) use skillopt_coordinator::read_model::{amount, count, number, plural};

/// Writes a length of time in one or two units: `45 s`, `3 m 12 s`, `5 h 1 m`, `2 d 3 h`.
pub(crate) fn age(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} m {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} m", s / 3_600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3_600 % 24),
    }
}

/// Writes millionths of a US dollar: `$0.0042`, `$5.00`, `$1,234.50`.
pub(crate) fn dollars(micro_usd: u64) -> String {
    if micro_usd > 0 && micro_usd < 1_000_000 {
        return format!("$0.{:04}", micro_usd.div_ceil(100).min(9_999));
    }
    let cents = micro_usd / 10_000;
    format!("${}.{:02}", count(cents / 100), cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_dollars() {
        for (ms, want) in [
            (999, "0 s"),
            (59_999, "59 s"),
            (192_000, "3 m 12 s"),
            (18_060_000, "5 h 1 m"),
            (183_600_000, "2 d 3 h"),
        ] {
            assert_eq!(age(ms), want);
        }
        for (micro, want) in [
            (0, "$0.00"),
            (1, "$0.0001"),
            (4_200, "$0.0042"),
            (999_999, "$0.9999"),
            (5_000_000, "$5.00"),
            (1_234_500_000, "$1,234.50"),
        ] {
            assert_eq!(dollars(micro), want);
        }
    }
}
