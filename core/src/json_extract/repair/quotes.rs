//! Whether a quote ends a text or belongs to it.
//!
//! A quote ends a text if what follows continues the structure around it. Looking ahead reaches
//! no further than the second quote from here, so a whole text is read in linear time.

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The key of a member.
    Key,
    /// The value of a member.
    Member,
    /// An item of an array.
    Item,
}

/// Returns whether the quote in front of position `at` ends the text it is in.
pub(super) fn closes(bytes: &[u8], at: usize, place: Place) -> bool {
    let next = skip_blanks(bytes, at);
    let apart = next > at;
    match (place, bytes.get(next)) {
        (_, None) => true,
        (Place::Key, Some(byte)) => *byte == b':',
        (_, Some(b'/')) => matches!(bytes.get(next + 1), Some(b'/' | b'*')),
        (_, Some(b'}')) | (Place::Item, Some(b']')) => {
            let after = bytes.get(skip_blanks(bytes, next + 1));
            matches!(after, None | Some(b',' | b'}' | b']' | b'"' | b'/'))
        }
        (Place::Member, Some(b',')) => {
            let after = skip_blanks(bytes, next + 1);
            match bytes.get(after) {
                Some(b'"') => is_key(bytes, after),
                after => matches!(after, None | Some(b'}' | b',' | b'/')),
            }
        }
        (Place::Member, Some(b'"')) => apart && is_key(bytes, next),
        (Place::Item, Some(b',')) => starts_item(bytes, skip_blanks(bytes, next + 1)),
        (Place::Item, Some(b'"')) => {
            let after = bytes.get(next + 1);
            apart && after.is_some_and(|b| !b.is_ascii_whitespace() && !b",]}".contains(b))
        }
        _ => false,
    }
}

/// Returns whether a text starts at `at` that is followed by a colon.
fn is_key(bytes: &[u8], at: usize) -> bool {
    let mut i = at + 1;
    loop {
        match bytes.get(i) {
            None => return false,
            Some(b'"') => return bytes.get(skip_blanks(bytes, i + 1)) == Some(&b':'),
            Some(b'\\') => i += 2,
            Some(_) => i += 1,
        }
    }
}

/// Returns whether another item or the end of the array stands at `at`. A bare word must be
/// complete, since prose goes on with words too.
fn starts_item(bytes: &[u8], at: usize) -> bool {
    match bytes.get(at) {
        None | Some(b']' | b'}' | b'"' | b'{' | b'[' | b',' | b'/') => true,
        Some(_) => {
            let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
            let len = bytes[at..].iter().take_while(|b| is_part(b)).count();
            let end = skip_blanks(bytes, at + len);
            len > 0 && matches!(bytes.get(end), Some(b',' | b']'))
        }
    }
}

fn skip_blanks(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
}
