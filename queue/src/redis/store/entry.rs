//! What lies under the key of a blob or result.
//!
//! One byte says what it is, four say in which hour it was written, the rest depends.

use skillopt_core::hash::Hash;
use skillopt_runtime::clock::unix_ms;

use crate::redis::codec;

const HOUR_MS: u64 = 3_600_000;

/// So many bytes of an entry say where its value lies.
pub(super) const HEAD_BYTES: usize = 9;

/// What lies under a key.
pub(super) enum Entry<'a> {
    /// The value, as the codec wrote it.
    Value(&'a [u8]),
    /// A result whose value is this blob.
    Blob(Hash),
    /// A blob that lies in so many parts.
    Parts { count: u32 },
    /// A blob that lies in the object store.
    Object,
}

impl Entry<'_> {
    /// Writes a value.
    pub(super) fn inline(value: &[u8]) -> Vec<u8> {
        let mut entry = head(b'v', value.len());
        codec::pack(value, &mut entry);
        entry
    }

    pub(super) fn write(&self) -> Vec<u8> {
        match self {
            Self::Value(packed) => [&head(b'v', 0), *packed].concat(),
            Self::Blob(hash) => [&head(b'l', 0), &hash.as_bytes()[..]].concat(),
            Self::Parts { count } => [&head(b'p', 0), &count.to_be_bytes()[..]].concat(),
            Self::Object => head(b'o', 0),
        }
    }
}

impl<'a> Entry<'a> {
    pub(super) fn read(entry: &'a [u8]) -> Option<Self> {
        let body = entry.get(5..)?;
        Some(match entry.first()? {
            b'v' => Self::Value(body),
            b'l' => Self::Blob(Hash::from_bytes(body.try_into().ok()?)),
            b'p' => Self::Parts {
                count: u32::from_be_bytes(body.try_into().ok()?),
            },
            b'o' if body.is_empty() => Self::Object,
            _ => return None,
        })
    }
}

fn head(kind: u8, room: usize) -> Vec<u8> {
    let hour = u32::try_from(unix_ms() / HOUR_MS).unwrap_or(u32::MAX);
    let mut entry = Vec::with_capacity(5 + room);
    entry.push(kind);
    entry.extend_from_slice(&hour.to_be_bytes());
    entry
}

/// How long ago an entry was written, by this machine's clock; it only decides whether to ask.
pub(super) fn age_ms(entry: &[u8]) -> u64 {
    let hour = entry.get(1..5).and_then(|hour| hour.try_into().ok());
    let written = hour.map_or(0, |hour| u64::from(u32::from_be_bytes(hour)) * HOUR_MS);
    unix_ms().saturating_sub(written)
}
