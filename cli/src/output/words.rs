//! Numbers as people read them (dashboard spec, chapter 8).

/// Writes a count with commas: `1,200`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes tokens or bytes: `912`, `92 k`, `2.2 M`.
pub(crate) fn amount(n: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
    let x = n as f64;
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{:.1} k", x / 1e3),
        10_000..999_500 => format!("{:.0} k", x / 1e3),
        999_500..10_000_000 => format!("{:.1} M", x / 1e6),
        10_000_000..999_500_000 => format!("{:.0} M", x / 1e6),
        _ => format!("{:.1} G", x / 1e9),
    }
}

/// Writes a count, `—` if there is none.
pub(crate) fn number(n: Option<u64>) -> String {
    n.map_or_else(|| "—".to_owned(), count)
}

/// Writes `1 step`, `2 steps`.
pub(crate) fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

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
    fn numbers() {
        for (n, want) in [
            (0, "0"),
            (999, "999"),
            (1200, "1,200"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(n), want);
        }
        for (n, want) in [
            (912, "912"),
            (9_200, "9.2 k"),
            (92_400, "92 k"),
            (999_499, "999 k"),
            (2_200_000, "2.2 M"),
            (31_000_000, "31 M"),
            (2_500_000_000, "2.5 G"),
        ] {
            assert_eq!(amount(n), want);
        }
    }

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
