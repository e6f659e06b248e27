//! Sends the blobs that the cluster lacks.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::stream;
use skillopt_core::Hash;
use skillopt_proto::v1::{MissingRequest, UploadRequest};

use super::link::Remote;
use crate::exit::Exit;
use crate::failure::Failure;

/// Bytes of one chunk.
const CHUNK: usize = 1 << 20;
/// Hashes of one question.
const ASKED_MAX: usize = 10_000;
/// Bytes of one upload, roughly: what is sent again when a connection breaks.
const UPLOAD: usize = 64 << 20;

/// Sends those of `blobs` that the cluster does not have, and returns how many bytes that were.
///
/// # Errors
/// Nobody answers, or a refusal. *Cancel safety*: what was sent whole is kept.
pub(crate) async fn upload(remote: &Remote, blobs: &[Bytes]) -> Result<u64, Failure> {
    let mut hashed: Vec<(Hash, Bytes)> = blobs.iter().map(|b| (Hash::of(b), b.clone())).collect();
    hashed.sort_by_key(|(hash, _)| *hash);
    hashed.dedup_by(|a, b| a.0 == b.0);
    let mut sent = 0;
    for page in hashed.chunks(ASKED_MAX) {
        let missing = missing(remote, page).await?;
        let mut at = 0;
        while at < missing.len() {
            let (mut end, mut size) = (at, 0);
            while end < missing.len() && (end == at || size + missing[end].1.len() <= UPLOAD) {
                size += missing[end].1.len();
                end += 1;
            }
            send(remote, &missing[at..end]).await?;
            sent += size as u64;
            at = end;
        }
    }
    Ok(sent)
}

async fn missing(remote: &Remote, page: &[(Hash, Bytes)]) -> Result<Vec<(Hash, Bytes)>, Failure> {
    let asked = MissingRequest {
        hashes: page.iter().map(|(h, _)| h.as_bytes().to_vec()).collect(),
    };
    let answer = remote
        .call(async |clients| clients.content().missing(asked.clone()).await)
        .await?;
    let lacks: BTreeSet<&[u8]> = answer.hashes.iter().map(Vec::as_slice).collect();
    let missing = page
        .iter()
        .filter(|(h, _)| lacks.contains(h.as_bytes().as_slice()));
    Ok(missing.cloned().collect())
}

async fn send(remote: &Remote, blobs: &[(Hash, Bytes)]) -> Result<(), Failure> {
    let mut tries = remote.tries();
    loop {
        // Handles only: the stream may outlive this call.
        let owned = blobs.to_vec();
        let requests = stream::iter(owned.into_iter().flat_map(chunks));
        match remote.clients().content().upload(requests).await {
            Ok(answer) => {
                let hashes = answer.into_inner().hashes;
                let same = hashes.len() == blobs.len()
                    && hashes
                        .iter()
                        .zip(blobs)
                        .all(|(seen, (hash, _))| seen.as_slice() == hash.as_bytes());
                return if same {
                    Ok(())
                } else {
                    Err(Failure::new(
                        Exit::Unexpected,
                        "the coordinator received other bytes than were sent",
                    ))
                };
            }
            Err(status) => tries.again(&status).await?,
        }
    }
}

/// Cuts a blob into messages, each made when it is sent.
fn chunks((_, blob): (Hash, Bytes)) -> impl Iterator<Item = UploadRequest> {
    let n = blob.len().div_ceil(CHUNK).max(1);
    (0..n).map(move |i| {
        let part = &blob[i * CHUNK..blob.len().min((i + 1) * CHUNK)];
        UploadRequest {
            chunk: part.to_vec(),
            last: i + 1 == n,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_cut_into_chunks_and_an_empty_one_is_sent_too() {
        let sizes = [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK];
        let blobs: Vec<(Hash, Bytes)> = sizes
            .iter()
            .map(|n| {
                let bytes = Bytes::from(vec![7; *n]);
                (Hash::of(&bytes), bytes)
            })
            .collect();
        let seen: Vec<(usize, bool)> = blobs
            .into_iter()
            .flat_map(chunks)
            .map(|c| (c.chunk.len(), c.last))
            .collect();
        let want = [
            (0, true),
            (1, true),
            (CHUNK, true),
            (CHUNK, false),
            (1, true),
            (CHUNK, false),
            (CHUNK, false),
            (CHUNK, true),
        ];
        assert_eq!(seen, want);
    }
}
