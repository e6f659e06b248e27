//! What a plain scalar means in YAML 1.1, by the rules the reference's reader applies.
//!
//! `yes`, `off` and the like are truth values, `010` is 8, `2:1:7` is a number to the base 60, and
//! `1e3` is text because its exponent has no sign. Dates stay text.

use crate::node::Data;

/// Resolves a plain scalar.
#[must_use]
pub fn resolve(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        _ => {}
    }
    if let Some(truth) = truth(text) {
        return Data::Bool(truth);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return Data::Text(text.to_owned());
    }
    int(text)
        .or_else(|| float(text))
        .unwrap_or_else(|| Data::Text(text.to_owned()))
}

/// Reads a truth value: all lower, all upper or capitalised.
#[must_use]
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    }
}

fn all(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(allowed)
}

fn digits(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && all(text, |c| c.is_ascii_digit() || c == '_')
}

/// Reads a whole number; `None` if it is none or does not fit 64 bits.
#[must_use]
pub fn int(text: &str) -> Option<Data> {
    let (negative, body) = split_sign(text);
    let value = magnitude(body)?;
    let value = if negative { -value } else { value };
    i64::try_from(value).ok().map(Data::Int)
}

fn magnitude(body: &str) -> Option<i128> {
    let plain = body.replace('_', "");
    let based = |digits: &str, base: u32| i128::from_str_radix(digits, base).ok();
    if let Some(rest) = body.strip_prefix("0b") {
        return all(rest, |c| "01_".contains(c)).then(|| based(plain.get(2..)?, 2))?;
    }
    if let Some(rest) = body.strip_prefix("0x") {
        return all(rest, |c| c.is_ascii_hexdigit() || c == '_')
            .then(|| based(plain.get(2..)?, 16))?;
    }
    if body == "0" {
        return Some(0);
    }
    if let Some(rest) = body.strip_prefix('0') {
        return all(rest, |c| "01234567_".contains(c)).then(|| based(&plain, 8))?;
    }
    if let Some((first, _)) = body.split_once(':') {
        return (digits(first) && sixties(body)).then(|| {
            plain.split(':').try_fold(0i128, |sum, part| {
                sum.checked_mul(60)?.checked_add(part.parse().ok()?)
            })
        })?;
    }
    digits(body).then(|| based(&plain, 10))?
}

/// Returns whether everything after the first colon is parts of 0–59.
fn sixties(body: &str) -> bool {
    body.split(':').skip(1).all(|part| {
        part.len() <= 2
            && all(part, |c| c.is_ascii_digit())
            && part.parse().is_ok_and(|n: u8| n < 60)
    })
}

/// Reads any other number.
#[must_use]
pub fn float(text: &str) -> Option<Data> {
    let (negative, body) = split_sign(text);
    let sign = if negative { -1.0 } else { 1.0 };
    match body {
        ".inf" | ".Inf" | ".INF" => return Some(Data::Float(sign * f64::INFINITY)),
        ".nan" | ".NaN" | ".NAN" if body == text => return Some(Data::Float(f64::NAN)),
        _ => {}
    }
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let (whole, fraction) = mantissa.split_once('.')?;
    let fraction_ok = fraction.chars().all(|c| c.is_ascii_digit() || c == '_');
    if whole.contains(':') {
        let ok = fraction_ok && exponent.is_none() && sixties(whole);
        let ok = ok && whole.split(':').next().is_some_and(digits);
        return ok.then(|| base_sixty(mantissa).map(|x| Data::Float(sign * x)))?;
    }
    let exponent_ok = exponent.is_none_or(|e| {
        e.strip_prefix(['+', '-'])
            .is_some_and(|e| all(e, |c| c.is_ascii_digit()))
    });
    let shape_ok = if whole.is_empty() {
        // A number that starts with its point has no sign.
        body == text && digits(fraction)
    } else {
        digits(whole) && fraction_ok
    };
    if !(exponent_ok && shape_ok) {
        return None;
    }
    let plain = body.replace('_', "");
    plain.parse::<f64>().ok().map(|x| Data::Float(sign * x))
}

fn base_sixty(text: &str) -> Option<f64> {
    text.replace('_', "").split(':').try_fold(0.0, |sum, part| {
        Some(sum * 60.0 + part.parse::<f64>().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars() {
        let text = |t: &str| Data::Text(t.to_owned());
        for (written, want) in [
            ("", Data::Null),
            ("~", Data::Null),
            ("nULL", text("nULL")),
            ("off", Data::Bool(false)),
            ("Yes", Data::Bool(true)),
            ("yEs", text("yEs")),
            ("y", text("y")),
            ("010", Data::Int(8)),
            ("08", text("08")),
            ("0o10", text("0o10")),
            ("0x1F", Data::Int(31)),
            ("-0b101", Data::Int(-5)),
            ("1_000", Data::Int(1000)),
            ("+12", Data::Int(12)),
            ("0", Data::Int(0)),
            ("-0", Data::Int(0)),
            ("2:1:7", Data::Int(7267)),
            ("2:60", text("2:60")),
            ("1e3", text("1e3")),
            ("1.5e3", text("1.5e3")),
            ("1.5e+3", Data::Float(1500.0)),
            ("1.", Data::Float(1.0)),
            (".5", Data::Float(0.5)),
            ("-.5", text("-.5")),
            (".", text(".")),
            ("1:30.5", Data::Float(90.5)),
            ("-.inf", Data::Float(f64::NEG_INFINITY)),
            ("1.2.3", text("1.2.3")),
            ("2026-01-02", text("2026-01-02")),
            ("99999999999999999999", text("99999999999999999999")),
            ("+", text("+")),
            ("0b", text("0b")),
        ] {
            assert_eq!(resolve(written), want, "{written}");
        }
        assert!(matches!(resolve(".NaN"), Data::Float(x) if x.is_nan()));
    }
}
