//! Reads the server's answers.

use ::redis::Value;
use bytes::Bytes;

/// The members of a list; nothing if it is none.
pub(super) fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        _ => Vec::new(),
    }
}

/// A text, if there is one.
pub(super) fn optional(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        Value::SimpleString(text) => Some(text.into_bytes().into()),
        _ => None,
    }
}

/// The bytes of a text; none if it is something else.
pub(super) fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.as_bytes(),
        _ => &[],
    }
}

/// A text as one; nothing if it is not in UTF-8.
pub(super) fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes(value)).ok()
}

/// A number, as such or as a text.
pub(super) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        other => text(other)?.parse().ok(),
    }
}

/// A number that is not negative.
pub(super) fn count(value: &Value) -> Option<u64> {
    integer(value).and_then(|number| u64::try_from(number).ok())
}

/// Takes bytes apart.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next number of `len` bytes, the highest first.
    pub(super) fn number(&mut self, len: usize) -> Option<u64> {
        let bytes = self.take(len)?;
        Some(
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte)),
        )
    }

    /// The next text with its length in front.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.number(4)?;
        self.take(usize::try_from(len).ok()?)
    }
}

/// The entries of the first stream in an answer of `XREAD`: id and fields.
pub(super) fn entries(answer: Value) -> Vec<(Bytes, Vec<Value>)> {
    let streams = match answer {
        // The newer protocol answers with a map of streams.
        Value::Map(mut streams) => streams.pop().map(|(_, entries)| entries),
        other => list(other).pop().and_then(|stream| list(stream).pop()),
    };
    let entry = |entry: Value| {
        let mut entry = list(entry).into_iter();
        Some((optional(entry.next()?)?, list(entry.next()?)))
    };
    list(streams.unwrap_or(Value::Nil))
        .into_iter()
        .filter_map(entry)
        .collect()
}
