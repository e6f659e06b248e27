//! Dead letters, as scripts write them.

use std::sync::Arc;

use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;

use super::codec;
use super::reply::Reader;
use crate::clock::Timestamp;
use crate::message::RunId;
use crate::queue::{DeadLetter, Evidence, Failure, JOB_BYTES_MAX};

/// Reads a key of 32 bytes.
pub(super) fn key_of(bytes: &[u8]) -> Option<Key> {
    Some(Key(Hash::from_bytes(bytes.try_into().ok()?)))
}

/// Reads the letter of a job.
pub(super) fn letter(key: Key, packed: &[u8]) -> Option<DeadLetter> {
    let mut reader = Reader(packed);
    let deliveries = number(&mut reader, 2)?;
    let retries = number(&mut reader, 2)?;
    let losses = number(&mut reader, 1)?;
    let job = codec::unpack(reader.text()?, JOB_BYTES_MAX)?;
    let cause = text(reader.text()?);
    let detail = Bytes::copy_from_slice(reader.text()?);
    let runs = (0..reader.number(4)?)
        .map(|_| Some(RunId::new(&text(reader.text()?))))
        .collect::<Option<Vec<_>>>()?;
    let evidence = (0..reader.number(4)?)
        .map(|_| note(reader.text()?))
        .collect::<Option<Vec<_>>>()?;
    Some(DeadLetter {
        key,
        job,
        runs,
        deliveries,
        retries,
        losses,
        evidence,
        failure: Failure { cause, detail },
    })
}

/// Reads one piece of evidence.
pub(super) fn note(packed: &[u8]) -> Option<Evidence> {
    let mut reader = Reader(packed);
    let at = Timestamp::from_ms(reader.number(6)?);
    let len = number(&mut reader, 1)?;
    let worker: Arc<str> = text(reader.take(len as usize)?).into();
    let what = text(reader.text()?);
    Some(Evidence { at, worker, what })
}

fn number(reader: &mut Reader<'_>, len: usize) -> Option<u32> {
    reader.number(len).and_then(|n| u32::try_from(n).ok())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
