//! Blobs of a bundle: JSON, compressed when that is worth it.

use std::io::Read as _;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::UnpackError;

/// Blobs below this size stay as they are.
const COMPRESSED_ABOVE: usize = 4 << 10;
/// Compressed blobs begin with this; no JSON does.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A good ratio at the speed of reading the data.
const LEVEL: i32 = 3;

/// Writes a value.
pub(super) fn encode(value: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    let json = serde_json::to_vec(value)?;
    if json.len() < COMPRESSED_ABOVE {
        return Ok(json.into());
    }
    let packed = zstd::encode_all(json.as_slice(), LEVEL).map_err(serde_json::Error::io)?;
    Ok(packed.into())
}

/// Reads a value of at most `max` bytes once it is unpacked; `what` names it in errors.
pub(super) fn decode<T: DeserializeOwned>(
    what: &str,
    bytes: &[u8],
    max: u64,
) -> Result<T, UnpackError> {
    let damaged = |e: &dyn std::fmt::Display| UnpackError::Damaged(format!("{what}: {e}"));
    let too_large = || damaged(&format!("more than {max} bytes"));
    if !bytes.starts_with(&MAGIC) {
        if bytes.len() as u64 > max {
            return Err(too_large());
        }
        return serde_json::from_slice(bytes).map_err(|e| damaged(&e));
    }
    let reader = zstd::Decoder::new(bytes).map_err(|e| damaged(&e))?;
    let mut json = Vec::new();
    let mut reader = reader.take(max + 1);
    reader.read_to_end(&mut json).map_err(|e| damaged(&e))?;
    if json.len() as u64 > max {
        return Err(too_large());
    }
    serde_json::from_slice(&json).map_err(|e| damaged(&e))
}
