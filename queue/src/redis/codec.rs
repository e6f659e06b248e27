//! How values are written: compressed where that saves something.
//!
//! The first byte says how. The dictionary belongs to its byte for ever: a better one gets another
//! byte, so that what is stored can be read.

use std::cell::RefCell;

use bytes::Bytes;
use zstd::zstd_safe::CParameter;

/// As it is.
const RAW: u8 = 0;
/// Compressed.
const ZSTD: u8 = 1;
/// Compressed with the dictionary `envelope.dict`.
const WITH_DICTIONARY: u8 = 2;

/// Made with `zstd --train --maxdict=4096` from 3,400 made-up jobs and results, which differ in
/// what differs between real ones.
const DICTIONARY: &[u8] = include_bytes!("envelope.dict");
/// Shorter values gain nothing.
const BYTES_MIN: usize = 64;
/// Longer values gain nothing from the dictionary.
const DICTIONARY_BYTES_MAX: usize = 16 << 10;
const LEVEL: i32 = 1;
/// With these bytes zstd begins a frame; short values are kept without them.
const MAGIC: [u8; 4] = zstd::zstd_safe::MAGICNUMBER.to_le_bytes();

struct Codec {
    plain: zstd::bulk::Compressor<'static>,
    primed: zstd::bulk::Compressor<'static>,
    unplain: zstd::bulk::Decompressor<'static>,
    unprimed: zstd::bulk::Decompressor<'static>,
}

thread_local! {
    // Contexts are costly to make and can be used by one thread at a time.
    static CODEC: RefCell<Option<Codec>> = const { RefCell::new(None) };
}

fn with_codec<T>(work: impl FnOnce(&mut Codec) -> std::io::Result<T>) -> std::io::Result<T> {
    CODEC.with_borrow_mut(|codec| {
        if codec.is_none() {
            let mut primed = zstd::bulk::Compressor::with_dictionary(LEVEL, DICTIONARY)?;
            // The first byte says it already.
            primed.set_parameter(CParameter::DictIdFlag(false))?;
            *codec = Some(Codec {
                plain: zstd::bulk::Compressor::new(LEVEL)?,
                primed,
                unplain: zstd::bulk::Decompressor::new()?,
                unprimed: zstd::bulk::Decompressor::with_dictionary(DICTIONARY)?,
            });
        }
        match codec {
            Some(codec) => work(codec),
            None => Err(std::io::Error::other("no codec")),
        }
    })
}

/// Appends a value to `out`.
pub(super) fn pack(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if value.len() >= BYTES_MIN {
        let is_short = value.len() <= DICTIONARY_BYTES_MAX;
        let packed = with_codec(|codec| {
            if is_short {
                codec.primed.compress(value)
            } else {
                codec.plain.compress(value)
            }
        });
        if let Ok(packed) = packed
            && packed.len() < value.len()
        {
            out.push(if is_short { WITH_DICTIONARY } else { ZSTD });
            // Of a short value these bytes are one or two in a hundred.
            let packed = packed
                .strip_prefix(&MAGIC)
                .filter(|_| is_short)
                .unwrap_or(&packed);
            out.extend_from_slice(packed);
            return;
        }
    }
    out.truncate(start);
    out.push(RAW);
    out.extend_from_slice(value);
}

/// Reads a value of at most `max` bytes; `None` if it is damaged.
pub(super) fn unpack(packed: &[u8], max: usize) -> Option<Bytes> {
    let (kind, body) = packed.split_first()?;
    if *kind == RAW {
        return Some(Bytes::copy_from_slice(body));
    }
    let whole;
    let body = if *kind == WITH_DICTIONARY && !body.starts_with(&MAGIC) {
        whole = [&MAGIC, body].concat();
        &whole
    } else {
        body
    };
    let len = zstd::zstd_safe::get_frame_content_size(body).ok()??;
    let len = usize::try_from(len).ok().filter(|len| *len <= max)?;
    let value = with_codec(|codec| match *kind {
        ZSTD => codec.unplain.decompress(body, len),
        WITH_DICTIONARY => codec.unprimed.decompress(body, len),
        _ => Err(std::io::Error::other("another release wrote it")),
    });
    value
        .ok()
        .filter(|value| value.len() == len)
        .map(Bytes::from)
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

    #[test]
    fn short_values_are_read_with_and_without_the_mark_of_a_frame() {
        let value = vec![b'x'; 1_000];
        let mut packed = Vec::new();
        pack(&value, &mut packed);
        assert!(!packed[1..].starts_with(&MAGIC));
        let marked = [&packed[..1], &MAGIC, &packed[1..]].concat();
        assert_eq!(unpack(&packed, 1_000).unwrap(), value);
        assert_eq!(unpack(&marked, 1_000).unwrap(), value);
    }

    #[test]
    fn a_value_is_never_longer_than_allowed() {
        let mut packed = Vec::new();
        pack(&vec![0; 100_000], &mut packed);
        assert_eq!(unpack(&packed, 99_999), None);
    }
}
