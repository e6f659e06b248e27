//! How values are written: compressed where that saves something.
//!
//! The first byte says how. The dictionary belongs to its byte for ever: a better one gets another
//! byte, so that what is stored can be read.

mod aside;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use zstd::zstd_safe::CParameter;

/// As it is.
const RAW: u8 = 0;
/// Compressed.
const ZSTD: u8 = 1;
/// Hashes, then the text without them, compressed with the dictionary `envelope.dict`.
const WITH_DICTIONARY: u8 = 3;
/// Compressed with the dictionary `envelope2.dict`, hashes included; read, and no longer written.
const WITH_OLD_DICTIONARY: u8 = 2;

/// Made with `zstd --train --maxdict=8192` from made-up jobs and results without their hashes, which
/// differ in what differs between real ones.
const DICTIONARY: &[u8] = include_bytes!("envelope.dict");
const OLD_DICTIONARY: &[u8] = include_bytes!("envelope2.dict");
/// Shorter values gain nothing.
const BYTES_MIN: usize = 64;
/// Longer values gain nothing from the dictionary.
const DICTIONARY_BYTES_MAX: usize = 16 << 10;
const LEVEL: i32 = 1;
/// With these bytes zstd begins a frame; short values are kept without them.
const MAGIC: [u8; 4] = zstd::zstd_safe::MAGICNUMBER.to_le_bytes();

/// What it takes to write or read values; each part is made when it is first needed.
#[derive(Default)]
struct Codec {
    plain: Option<zstd::bulk::Compressor<'static>>,
    primed: Option<zstd::bulk::Compressor<'static>>,
    unplain: Option<zstd::bulk::Decompressor<'static>>,
    unprimed: Option<zstd::bulk::Decompressor<'static>>,
    unprimed_old: Option<zstd::bulk::Decompressor<'static>>,
}

/// Those that nobody uses now. They are costly to make and take up to a megabyte, so that threads
/// share them: there are hardly more than processors, however many threads there are.
static IDLE: Mutex<Vec<Codec>> = Mutex::new(Vec::new());
/// Most of them that are kept.
const IDLE_MAX: usize = 16;

fn idle() -> MutexGuard<'static, Vec<Codec>> {
    // No section under this lock can panic half-way.
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_codec<T>(work: impl FnOnce(&mut Codec) -> std::io::Result<T>) -> std::io::Result<T> {
    let mut codec = idle().pop().unwrap_or_default();
    let done = work(&mut codec);
    let mut idle = idle();
    if idle.len() < IDLE_MAX {
        idle.push(codec);
    }
    done
}

/// Returns a part, made by `make` the first time.
fn part<T>(
    part: &mut Option<T>,
    make: impl FnOnce() -> std::io::Result<T>,
) -> std::io::Result<&mut T> {
    if part.is_none() {
        *part = Some(make()?);
    }
    part.as_mut()
        .ok_or_else(|| std::io::Error::other("no codec"))
}

impl Codec {
    fn compress(&mut self, value: &[u8], is_short: bool) -> std::io::Result<Vec<u8>> {
        let part = if is_short {
            part(&mut self.primed, || {
                let mut primed = zstd::bulk::Compressor::with_dictionary(LEVEL, DICTIONARY)?;
                // The first byte says it already.
                primed.set_parameter(CParameter::DictIdFlag(false))?;
                Ok(primed)
            })
        } else {
            part(&mut self.plain, || zstd::bulk::Compressor::new(LEVEL))
        };
        part?.compress(value)
    }

    fn decompress(&mut self, kind: u8, body: &[u8], len: usize) -> std::io::Result<Vec<u8>> {
        let primed = zstd::bulk::Decompressor::with_dictionary;
        let part = match kind {
            WITH_DICTIONARY => part(&mut self.unprimed, || primed(DICTIONARY)),
            WITH_OLD_DICTIONARY => part(&mut self.unprimed_old, || primed(OLD_DICTIONARY)),
            _ => part(&mut self.unplain, zstd::bulk::Decompressor::new),
        };
        part?.decompress(body, len)
    }
}

/// Appends a value to `out`.
pub(super) fn pack(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if value.len() >= BYTES_MIN {
        let is_short = value.len() <= DICTIONARY_BYTES_MAX;
        let packed = if is_short {
            out.push(WITH_DICTIONARY);
            let rest = aside::take_out(value, out);
            with_codec(|codec| codec.compress(&rest, true))
        } else {
            out.push(ZSTD);
            with_codec(|codec| codec.compress(value, false))
        };
        if let Ok(packed) = packed {
            // Of a short value these bytes are one or two in a hundred.
            let packed = packed
                .strip_prefix(&MAGIC)
                .filter(|_| is_short)
                .unwrap_or(&packed);
            out.extend_from_slice(packed);
            if out.len() - start <= value.len() {
                return;
            }
        }
    }
    out.truncate(start);
    out.push(RAW);
    out.extend_from_slice(value);
}

/// Reads a value of at most `max` bytes; `None` if it is damaged.
pub(super) fn unpack(packed: &[u8], max: usize) -> Option<Bytes> {
    let (kind, body) = packed.split_first()?;
    match *kind {
        RAW => Some(Bytes::copy_from_slice(body)),
        ZSTD => decompress(ZSTD, body, max).map(Bytes::from),
        WITH_DICTIONARY => {
            let (hashes, body) = aside::split(body)?;
            let max = max.checked_sub(aside::growth(hashes))?;
            let rest = decompress(WITH_DICTIONARY, &[&MAGIC, body].concat(), max)?;
            aside::put_back(hashes, rest).map(Bytes::from)
        }
        WITH_OLD_DICTIONARY => {
            // The mark of a frame was left out later than the dictionary came.
            let frame = body.strip_prefix(&MAGIC).unwrap_or(body);
            decompress(WITH_OLD_DICTIONARY, &[&MAGIC, frame].concat(), max).map(Bytes::from)
        }
        // A later release wrote it.
        _ => None,
    }
}

/// Returns every compressed value that lies somewhere in `bytes`: in a value of Redis with something
/// before or behind it, or in its append-only file. What is not compressed can be read as it is.
#[cfg(any(test, feature = "conformance"))]
#[must_use]
pub fn unpack_all(bytes: &[u8]) -> Vec<Bytes> {
    let kinds = [ZSTD, WITH_DICTIONARY, WITH_OLD_DICTIONARY];
    let starts = bytes.iter().enumerate();
    let starts = starts.filter(|(_, kind)| kinds.contains(kind));
    starts
        .filter_map(|(at, _)| unpack(&bytes[at..at + packed_len(&bytes[at..])?], UNPACKED_MAX))
        .collect()
}

/// No value of ours is longer.
#[cfg(any(test, feature = "conformance"))]
const UNPACKED_MAX: usize = 64 << 20;

/// Returns how long the compressed value is with which `bytes` begin, if they begin with one.
#[cfg(any(test, feature = "conformance"))]
fn packed_len(bytes: &[u8]) -> Option<usize> {
    let (kind, rest) = bytes.split_first()?;
    let body = match *kind {
        ZSTD => rest.starts_with(&MAGIC).then_some(rest)?,
        WITH_DICTIONARY => aside::split(rest)?.1,
        _ => rest,
    };
    let before = bytes.len() - body.len();
    if body.starts_with(&MAGIC) {
        let frame = zstd::zstd_safe::find_frame_compressed_size(body).ok()?;
        return Some(before + frame);
    }
    // Of a short value, so that little has to be looked at.
    let window = &body[..body.len().min(2 * DICTIONARY_BYTES_MAX)];
    let framed = [&MAGIC, window].concat();
    let frame = zstd::zstd_safe::find_frame_compressed_size(&framed).ok()?;
    Some(before + frame - MAGIC.len())
}

fn decompress(kind: u8, frame: &[u8], max: usize) -> Option<Vec<u8>> {
    let len = zstd::zstd_safe::get_frame_content_size(frame).ok()??;
    let len = usize::try_from(len).ok().filter(|len| *len <= max)?;
    let value = with_codec(|codec| codec.decompress(kind, frame, len));
    value.ok().filter(|value| value.len() == len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for len in [0, 1, 63, 64, 1_000, 16 << 10, 100_000] {
            for value in [vec![b'x'; len], (0..len).map(|i| (i * i) as u8).collect()] {
                let mut packed = Vec::new();
                pack(&value, &mut packed);
                assert!(packed.len() <= value.len() + 1);
                assert_eq!(unpack(&packed, len).unwrap(), value);
                assert_eq!(
                    unpack(&packed[..packed.len() / 2], len).filter(|v| *v == value),
                    None
                );
            }
        }
        assert_eq!(unpack(&[], 9), None);
        assert_eq!(unpack(&[9, 1, 2], 9), None);
    }

    /// Checks that a text comes back, and that so many hashes were taken out of it.
    #[track_caller]
    fn check(text: &str, hashes: u8) {
        let mut packed = Vec::new();
        pack(text.as_bytes(), &mut packed);
        let max = text.len();
        assert_eq!(unpack(&packed, max).unwrap(), text);
        assert_eq!(unpack(&packed, max - 1), None);
        if packed[0] == WITH_DICTIONARY {
            assert_eq!(packed[1], hashes, "{text}");
        } else {
            assert_eq!(hashes, 0, "{text}");
        }
    }

    #[test]
    fn hashes_are_kept_as_bytes() {
        let hash = "0123456789abcdef".repeat(4);
        let filler = "the same words again and again ".repeat(9);
        let with = |inside: &str| format!("{{\"a\":\"{inside}\",\"b\":\"{filler}\"}}");
        check(&with(&hash), 1);
        check(&with(&format!("{hash}\",\"{hash}")), 2);
        check(&with(&hash.to_uppercase()), 0);
        check(&with(&hash[1..]), 0);
        check(&with(&format!("{hash}0")), 0);
        check(&with(&format!("x\u{1}\",\"{hash}")), 0);
        check(&format!("{filler}\"{}", &hash[..63]), 0);
        check(&format!("{filler}\"{hash}"), 0);
        let many = format!("\"{hash}\",").repeat(220);
        check(&many, 220);
    }

    /// A cluster goes on over what an earlier release left in Redis.
    #[test]
    fn what_the_old_dictionary_wrote_is_read_with_and_without_the_mark_of_a_frame() {
        let value = b"{\"kind\":\"rollout\",\"item_id\":\"a\"}".repeat(20);
        let mut old = zstd::bulk::Compressor::with_dictionary(LEVEL, OLD_DICTIONARY).unwrap();
        old.set_parameter(CParameter::DictIdFlag(false)).unwrap();
        let frame = old.compress(&value).unwrap();
        let bare = frame.strip_prefix(&MAGIC).unwrap();
        for body in [&frame[..], bare] {
            let packed = [&[WITH_OLD_DICTIONARY], body].concat();
            assert_eq!(unpack(&packed, value.len()).unwrap(), value);
            assert_eq!(unpack(&packed, value.len() - 1), None);
        }
    }

    #[test]
    fn values_are_found_wherever_they_lie() {
        let hash = "0123456789abcdef".repeat(4);
        let short = format!("{{\"a\":\"{hash}\",\"b\":\"{}\"}}", "words ".repeat(30));
        let long = "many more words ".repeat(9_000);
        let mut stored = b"$3\r\n\x03\x01\x02".to_vec();
        for text in [&short, &long, &short] {
            stored.extend_from_slice(b"before");
            pack(text.as_bytes(), &mut stored);
            stored.extend_from_slice(b"\r\nbehind");
        }
        let mut parts = stored.windows(short.len());
        assert!(!parts.any(|part| part == short.as_bytes()));
        let found = unpack_all(&stored);
        for (text, times) in [(&short, 2), (&long, 1)] {
            let seen = found.iter().filter(|value| value[..] == *text.as_bytes());
            assert_eq!(seen.count(), times);
        }
    }

    #[test]
    fn a_value_is_never_longer_than_allowed() {
        let mut packed = Vec::new();
        pack(&vec![0; 100_000], &mut packed);
        assert_eq!(unpack(&packed, 99_999), None);
    }
}
