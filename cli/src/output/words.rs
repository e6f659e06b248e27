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
}
