//! A tolerant parser for one object whose braces are balanced.
//!
//! It forgives: trailing, doubled and missing commas; raw line ends and unescaped quotes in texts;
//! unknown escapes; `True`, `False`, `None`; single-quoted values; comments; a missing value; a
//! missing `]`. It gives up on anything else. Numbers that are not finite become null, unpaired
//! surrogates U+FFFD (D31).

mod quotes;

use serde_json::{Map, Number, Value};

use quotes::Place;

/// Deepest nesting of objects and arrays.
const MAX_DEPTH: usize = 100;

/// Returns the non-empty object that `text` was meant to be.
pub(super) fn object(text: &str) -> Option<Map<String, Value>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    // Anything but a key at the start is prose or another notation.
    if !matches!(crate::text::trim(inner).chars().next(), Some('"') | None) {
        return None;
    }
    let mut parser = Parser { text, at: 1 };
    let object = parser.members(1)?;
    parser.skip_blanks();
    (parser.at == text.len() && !object.is_empty()).then_some(object)
}

/// The position is always on the border of a character.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips blanks and comments.
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            let comment = if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if let Some(body) = trimmed.strip_prefix("/*") {
                body.find("*/").map_or(trimmed.len(), |end| end + 4)
            } else {
                0
            };
            self.at += rest.len() - trimmed.len() + comment;
            if comment == 0 {
                return;
            }
        }
    }

    /// Reads the members of an object whose brace is behind us, and its closing brace.
    fn members(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let mut object = Map::new();
        loop {
            self.skip_blanks();
            match self.peek()? {
                b'}' => {
                    self.at += 1;
                    return Some(object);
                }
                b',' => self.at += 1,
                b'"' => {
                    let key = self.string(Place::Key)?;
                    self.skip_blanks();
                    if self.peek()? != b':' {
                        return None;
                    }
                    self.at += 1;
                    self.skip_blanks();
                    let value = match self.peek()? {
                        b',' | b'}' => Value::Null,
                        _ => self.value(depth, Place::Member)?,
                    };
                    object.insert(key, value);
                }
                _ => return None,
            }
        }
    }

    /// Reads the items of an array whose bracket is behind us, and its closing bracket. A brace in
    /// its place ends the array too.
    fn items(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut array = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek()? {
                b']' => {
                    self.at += 1;
                    return Some(array);
                }
                b'}' => return Some(array),
                b',' => self.at += 1,
                _ => array.push(self.value(depth, Place::Item)?),
            }
        }
    }

    fn value(&mut self, depth: usize, place: Place) -> Option<Value> {
        match self.peek()? {
            b'{' | b'[' if depth >= MAX_DEPTH => None,
            b'{' => {
                self.at += 1;
                self.members(depth + 1).map(Value::Object)
            }
            b'[' => {
                self.at += 1;
                self.items(depth + 1).map(Value::Array)
            }
            b'"' | b'\'' => self.string(place).map(Value::String),
            _ => self.word(),
        }
    }

    /// Reads a number or a literal.
    fn word(&mut self) -> Option<Value> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
        let rest = self.rest();
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..len];
        let value = match word.strip_prefix('+').unwrap_or(word) {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" | "NaN" | "Infinity" | "-Infinity" => Value::Null,
            number => number_of(number)?,
        };
        self.at += len;
        Some(value)
    }

    /// Reads a text, its quotes included.
    fn string(&mut self, place: Place) -> Option<String> {
        let quote = self.peek()?;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let special = rest
                .bytes()
                .position(|byte| byte == quote || byte == b'\\')?;
            out.push_str(&rest[..special]);
            self.at += special;
            if self.peek()? == b'\\' {
                self.escape(&mut out)?;
                continue;
            }
            self.at += 1;
            if quotes::closes(self.text.as_bytes(), self.at, place) {
                return Some(out);
            }
            out.push(char::from(quote));
        }
    }

    /// Reads an escape; an unknown one stands for itself.
    fn escape(&mut self, out: &mut String) -> Option<()> {
        self.at += 1;
        let plain = match self.peek()? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            byte @ (b'"' | b'\'' | b'\\' | b'/') => char::from(byte),
            b'u' => {
                self.unicode_escape(out);
                return Some(());
            }
            _ => {
                out.push('\\');
                return Some(());
            }
        };
        self.at += 1;
        out.push(plain);
        Some(())
    }

    fn unicode_escape(&mut self, out: &mut String) {
        let Some(first) = hex_unit(self.rest()) else {
            out.push('\\');
            return;
        };
        self.at += 5;
        let second = self.rest().strip_prefix('\\').and_then(hex_unit);
        let pair = second.and_then(|second| {
            char::decode_utf16([first, second])
                .next()?
                .ok()
                .filter(|c| c.len_utf16() == 2)
        });
        if pair.is_some() {
            self.at += 6;
        }
        let lone = char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER);
        out.push(pair.unwrap_or(lone));
    }
}

/// Returns the UTF-16 unit of a text that starts with `uXXXX`.
fn hex_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    let all_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    all_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Returns a number, or null for one that no double can hold.
fn number_of(text: &str) -> Option<Value> {
    if let Ok(number) = serde_json::from_str::<Number>(text) {
        return Some(Value::Number(number));
    }
    if !text.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    Some(Number::from_f64(number).map_or(Value::Null, Value::Number))
}
