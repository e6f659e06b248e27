//! Hashes in texts: 64 digits that no compressor makes shorter than 32 bytes, and that it costs time
//! and room to find that out of. They go before the text, as bytes.

/// Stands in a text for a hash that was taken out. JSON has no such byte.
const MARK: u8 = 1;
/// Digits of a hash.
const DIGITS: usize = 64;
/// Most hashes that are taken out of one text.
const HASHES_MAX: usize = 255;

/// Takes hashes out of a text: appends how many there are and their bytes to `out`, and returns the
/// rest.
pub(super) fn take_out(text: &[u8], out: &mut Vec<u8>) -> Vec<u8> {
    let count_at = out.len();
    out.push(0);
    let mut rest = Vec::with_capacity(text.len());
    // A mark that is in the text already would be taken for one of ours.
    let is_text = !text.contains(&MARK);
    let (mut at, mut count) = (0, 0);
    while let Some(quote) = find(text, at, b'"') {
        let begin = quote + 1;
        rest.extend_from_slice(&text[at..begin]);
        at = begin;
        if is_text
            && usize::from(count) < HASHES_MAX
            && text.get(begin + DIGITS) == Some(&b'"')
            && let Some(bytes) = read(&text[begin..begin + DIGITS])
        {
            out.extend_from_slice(&bytes);
            rest.push(MARK);
            count += 1;
            at = begin + DIGITS;
        }
    }
    rest.extend_from_slice(&text[at..]);
    out[count_at] = count;
    rest
}

/// Reads how many hashes were taken out; returns their bytes and what follows.
pub(super) fn split(packed: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = packed.split_first()?;
    rest.split_at_checked(usize::from(*count) * DIGITS / 2)
}

/// Returns by how much a text grows when hashes are put back.
pub(super) const fn growth(hashes: &[u8]) -> usize {
    hashes.len() / (DIGITS / 2) * (DIGITS - 1)
}

/// Puts hashes back; `None` if there are not as many marks.
pub(super) fn put_back(hashes: &[u8], rest: Vec<u8>) -> Option<Vec<u8>> {
    if hashes.is_empty() {
        return Some(rest);
    }
    let mut text = Vec::with_capacity(rest.len() + growth(hashes));
    let mut hashes = hashes.chunks_exact(DIGITS / 2);
    let mut at = 0;
    while let Some(mark) = find(&rest, at, MARK) {
        text.extend_from_slice(&rest[at..mark]);
        for byte in hashes.next()? {
            text.push(digit(byte >> 4));
            text.push(digit(byte & 15));
        }
        at = mark + 1;
    }
    text.extend_from_slice(&rest[at..]);
    hashes.next().is_none().then_some(text)
}

fn find(text: &[u8], from: usize, byte: u8) -> Option<usize> {
    let at = text.get(from..)?.iter().position(|there| *there == byte)?;
    Some(from + at)
}

/// Reads digits as [`digit`] writes them.
fn read(digits: &[u8]) -> Option<[u8; DIGITS / 2]> {
    let mut bytes = [0; DIGITS / 2];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

const fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

const fn digit(value: u8) -> u8 {
    if value < 10 {
        b'0' + value
    } else {
        b'a' + value - 10
    }
}
