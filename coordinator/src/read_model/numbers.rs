//! Numbers as people read them (dashboard spec, chapter 8). What is missing is `—`, never 0.

/// Writes a count with commas: `1,200`.
#[must_use]
pub fn count(n: u64) -> String {
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
#[must_use]
pub fn amount(n: u64) -> String {
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
#[must_use]
pub fn number(n: Option<u64>) -> String {
    n.map_or_else(|| "—".to_owned(), count)
}

/// Writes `1 step`, `2 steps`.
#[must_use]
pub fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Writes dollars: `$41.20`, `$1,240`, `<$0.01`; `price unknown` if nobody knows.
#[must_use]
pub fn money(usd: Option<f64>) -> String {
    match usd {
        None => "price unknown".to_owned(),
        Some(0.0) => "$0.00".to_owned(),
        Some(usd) if usd < 0.01 => "<$0.01".to_owned(),
        Some(usd) if usd < 999.995 => format!("${usd:.2}"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "dollars that are above a thousand"
        )]
        Some(usd) => format!("${}", count(usd.round() as u64)),
    }
}

/// Writes a span of time: `41 s`, `7 min 40 s`, `6 h 20 min`, `3 d 4 h`.
#[must_use]
pub fn span(ms: u64) -> String {
    let s = ms / 1_000;
    let two = |big: u64, big_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big} {big_unit}"),
        _ => format!("{big} {big_unit} {small} {small_unit}"),
    };
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => two(s / 60, "min", s % 60, "s"),
        3_600..86_400 => two(s / 3_600, "h", s % 3_600 / 60, "min"),
        _ => two(s / 86_400, "d", s % 86_400 / 3_600, "h"),
    }
}

/// Writes an estimated span with one unit: `6 h`, `40 min`; the words before it say "about".
#[must_use]
pub fn about(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{:.0} s", seconds.max(0.0))
    } else if seconds < 5_400.0 {
        format!("{:.0} min", seconds / 60.0)
    } else if seconds < 172_800.0 {
        format!("{:.0} h", seconds / 3_600.0)
    } else {
        format!("{:.0} d", seconds / 86_400.0)
    }
}

/// Writes the time of day of a time in milliseconds since 1970, UTC: `14:32:07`.
#[must_use]
pub fn time_of_day(unix_ms: u64) -> String {
    let s = unix_ms / 1_000;
    format!("{:02}:{:02}:{:02}", s / 3_600 % 24, s / 60 % 60, s % 60)
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
    fn dollars_and_times() {
        for (usd, want) in [
            (None, "price unknown"),
            (Some(0.0), "$0.00"),
            (Some(0.004), "<$0.01"),
            (Some(41.2), "$41.20"),
            (Some(1_240.4), "$1,240"),
        ] {
            assert_eq!(money(usd), want);
        }
        for (ms, want) in [
            (41_900, "41 s"),
            (460_000, "7 min 40 s"),
            (120_000, "2 min"),
            (22_800_000, "6 h 20 min"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(span(ms), want);
        }
        for (s, want) in [
            (-1.0, "0 s"),
            (41.2, "41 s"),
            (400.0, "7 min"),
            (21_700.0, "6 h"),
        ] {
            assert_eq!(about(s), want);
        }
        assert_eq!(time_of_day(1_735_655_527_000), "14:32:07");
    }
}
