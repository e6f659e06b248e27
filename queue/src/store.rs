//! Keeps blobs, results and the event logs of runs.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;

use crate::message::RunId;

/// Longest blob, in bytes.
pub const BLOB_BYTES_MAX: usize = 512 << 20;
/// Longest encoded result, in bytes.
pub const RESULT_BYTES_MAX: usize = 512 << 20;
/// Longest encoded event, in bytes.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// Keeps what must survive: blobs by the hash of their content, results by the key of their job,
/// and one ordered event log per run.
///
/// What a method has acknowledged survives the death of the process. Nothing is ever overwritten.
/// All methods may be called from any number of tasks at once; dropping a call leaves its write
/// either done or not done.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Stores blobs and returns their hashes in order. A blob that is there already is not stored
    /// twice.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`BLOB_BYTES_MAX`]; then none is stored.
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, Error>;

    /// Returns the blobs in the order of their hashes, `None` for one that is not there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes found do not have the hash.
    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Stores a result unless its key has one. Returns whether it was the first.
    ///
    /// Only for imports and replays: workers complete their jobs through [`crate::Queue`].
    ///
    /// # Errors
    /// [`Error::TooLarge`] above [`RESULT_BYTES_MAX`].
    async fn put_result(&self, key: Key, result: Bytes) -> Result<bool, Error>;

    /// Returns the encoded results in the order of their keys, `None` for one that is not there.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, Error>;

    /// Appends to the log of `run` as number `seq`; the first event has number 0. An event that is
    /// there already with the same bytes is left as it is, so that a run can be repeated.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the number has other bytes, [`Error::Gap`] if the number before it
    /// is missing, [`Error::TooLarge`] above [`EVENT_BYTES_MAX`].
    async fn append_event(&self, run: &RunId, seq: u64, event: Bytes) -> Result<(), Error>;

    /// Returns at most `max` events of `run` from number `from` on, in order.
    ///
    /// # Errors
    /// If the store cannot be read.
    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, Error>;

    /// Returns the hashes of those blobs that are not there, in order. An implementation that can
    /// tell without reading them should.
    ///
    /// # Errors
    /// As [`Store::blobs`].
    async fn missing(&self, hashes: &[Hash]) -> Result<Vec<Hash>, Error> {
        let mut missing = Vec::new();
        for hash in hashes {
            if self
                .blobs(std::slice::from_ref(hash))
                .await?
                .iter()
                .any(Option::is_none)
            {
                missing.push(*hash);
            }
        }
        Ok(missing)
    }

    /// Writes what is held back, which only a store that is of use once it is whole does.
    ///
    /// # Errors
    /// If it cannot be written.
    async fn settle(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Says how near the store is to its limit of memory, in words for people; `None` while it has
    /// room, or has no limit.
    ///
    /// # Errors
    /// If the store cannot be asked.
    async fn pressure(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Says that the place of large values is away, if there is one beside the store; `None` while
    /// it answers. Calls that need it wait meanwhile.
    async fn away(&self) -> Option<Away> {
        None
    }

    /// Stores one blob, see [`Store::put_blobs`].
    ///
    /// # Errors
    /// As [`Store::put_blobs`].
    async fn put_blob(&self, blob: Bytes) -> Result<Hash, Error> {
        let hash = self.put_blobs(vec![blob]).await?.pop();
        hash.ok_or_else(|| Error::Lost {
            what: "the hash of a stored blob".into(),
        })
    }

    /// Returns a blob that must be there.
    ///
    /// # Errors
    /// [`Error::Lost`] if it is not; else as [`Store::blobs`].
    async fn blob(&self, hash: Hash) -> Result<Bytes, Error> {
        let found = self.blobs(&[hash]).await?.pop().flatten();
        found.ok_or_else(|| Error::Lost {
            what: format!("blob `{hash}`"),
        })
    }
}

/// A place of large values that does not do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "large values cannot be stored or read for {} s: `{place}` failed: {detail}; work goes on by \
     itself once they can",
    .since.as_secs()
)]
pub struct Away {
    /// The place, without a secret.
    pub place: String,
    /// What is wrong, and what to do.
    pub detail: String,
    /// How long it has been so.
    pub since: Duration,
}

/// Why a store did not do what it was asked. Nothing was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The disk has no room.
    #[error("no space left for `{place}`; free some space, then resume")]
    Full {
        /// The file or server.
        place: String,
    },
    /// The place cannot be written.
    #[error("`{place}` is read-only; make it writable or choose another place")]
    ReadOnly {
        /// The file or server.
        place: String,
    },
    /// Another process holds the place.
    #[error("`{place}` is in use by another process; wait for it or choose another place")]
    Busy {
        /// The file or server.
        place: String,
    },
    /// What is stored cannot be trusted.
    #[error("`{place}` is damaged ({detail}); restore it from a copy or move it away")]
    Corrupt {
        /// The file or server.
        place: String,
        /// What was found.
        detail: String,
    },
    /// The place holds something that is not ours.
    #[error("`{place}` is not a skillopt store; choose another place")]
    Foreign {
        /// The file or server.
        place: String,
    },
    /// A newer program wrote it.
    #[error("`{place}` has format {found}, this program knows up to {known}; use a newer skillopt")]
    Newer {
        /// The file or server.
        place: String,
        /// Format found.
        found: i64,
        /// Newest format that this program knows.
        known: i64,
    },
    /// A value is longer than allowed.
    #[error("{what} has {bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Kind of value.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// An event number was used for something else.
    #[error("event {seq} of run `{run}` is already there with other content")]
    Conflict {
        /// The run.
        run: RunId,
        /// The number.
        seq: u64,
    },
    /// An event came before its predecessor.
    #[error("event {seq} of run `{run}` came too early, the next one is {next}")]
    Gap {
        /// The run.
        run: RunId,
        /// The number given.
        seq: u64,
        /// The number expected.
        next: u64,
    },
    /// Something that was stored is not there.
    #[error("{what} is not in the store; was the store replaced or cleaned?")]
    Lost {
        /// What was looked for.
        what: String,
    },
    /// The store was closed.
    #[error("the store `{place}` is closed")]
    Closed {
        /// The file or server.
        place: String,
    },
    /// Anything else that the operating system, file or server reports.
    #[error("`{place}` failed: {detail}")]
    Io {
        /// The file or server.
        place: String,
        /// What was reported.
        detail: String,
    },
}

/// Refuses a value that is too long.
pub(crate) fn check_size(what: &'static str, bytes: usize, max: usize) -> Result<(), Error> {
    if bytes > max {
        Err(Error::TooLarge { what, bytes, max })
    } else {
        Ok(())
    }
}

/// An event's number as a position; numbers beyond the machine's reach are beyond every log.
pub(crate) fn seq_to_index(seq: u64) -> usize {
    usize::try_from(seq).unwrap_or(usize::MAX)
}
