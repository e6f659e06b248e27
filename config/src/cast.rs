//! What a text on the command line or in the environment stands for.

use crate::node::Data;

/// Reads a value as the command line does: `true`/`yes`, `false`/`no` in any case, then whole
/// numbers, then other numbers, else text (training spec 7.3). `on`, `off` and `null` stay text.
#[must_use]
pub fn cast(text: &str) -> Data {
    match text.to_lowercase().as_str() {
        "true" | "yes" => return Data::Bool(true),
        "false" | "no" => return Data::Bool(false),
        _ => {}
    }
    number(text).unwrap_or_else(|| Data::Text(text.to_owned()))
}

fn number(text: &str) -> Option<Data> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    match unsigned.to_lowercase().as_str() {
        "inf" | "infinity" | "nan" => return text.parse().ok().map(Data::Float),
        _ => {}
    }
    // Underscores may only stand between digits.
    let chars: Vec<char> = unsigned.chars().collect();
    let digit = |at: Option<usize>| {
        at.and_then(|i| chars.get(i))
            .is_some_and(char::is_ascii_digit)
    };
    let underscores_ok = chars
        .iter()
        .enumerate()
        .all(|(i, c)| *c != '_' || (digit(i.checked_sub(1)) && digit(Some(i + 1))));
    let shape_ok = chars
        .iter()
        .all(|c| c.is_ascii_digit() || "_.eE+-".contains(*c));
    if !underscores_ok || !shape_ok || !chars.iter().any(char::is_ascii_digit) {
        return None;
    }
    let plain = text.replace('_', "");
    if unsigned.chars().all(|c| c.is_ascii_digit() || c == '_') {
        // Larger than any setting: keep the text.
        return plain.parse().ok().map(Data::Int);
    }
    plain.parse().ok().map(Data::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, want) in [
            ("1__0", Data::Text("1__0".into())),
            ("_1", Data::Text("_1".into())),
            (" 5 ", Data::Int(5)),
            ("5.", Data::Float(5.0)),
            ("1e-3", Data::Float(0.001)),
            ("e5", Data::Text("e5".into())),
            ("-", Data::Text("-".into())),
            ("+7", Data::Int(7)),
            ("-inf", Data::Float(f64::NEG_INFINITY)),
            (
                "99999999999999999999",
                Data::Text("99999999999999999999".into()),
            ),
        ] {
            assert_eq!(cast(text), want, "{text}");
        }
    }
}
