//! What uploads may hold in memory, and how long they may be silent.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tonic::Status;

use super::super::error::Error;

/// Bytes that all uploads of a coordinator hold at once.
const BYTES_MAX: usize = 2 << 30;
/// Bytes are counted by this many: a semaphore gives out at most 2^32 permits at once.
const UNIT: usize = 64 << 10;
/// Longest silence of a client, and longest wait for room.
const IDLE: Duration = Duration::from_secs(60);

/// What all uploads of a coordinator may hold; clones share it.
#[derive(Clone)]
pub(in super::super) struct Uploads {
    all: Arc<Semaphore>,
    idle: Duration,
}

impl Default for Uploads {
    fn default() -> Self {
        Self::of(BYTES_MAX, IDLE)
    }
}

impl Uploads {
    fn of(bytes: usize, idle: Duration) -> Self {
        let all = Arc::new(Semaphore::new(bytes / UNIT));
        Self { all, idle }
    }

    /// Returns the room of one upload, which is none yet.
    pub(super) fn room(&self) -> Room {
        Room {
            all: Arc::clone(&self.all),
            idle: self.idle,
            held: None,
        }
    }

    /// Waits for the next part of an upload.
    ///
    /// # Errors
    /// The client is silent for too long, or gone.
    pub(super) async fn in_time<T>(
        &self,
        part: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        timeout(self.idle, part).await.unwrap_or_else(|_| {
            let words = format!("nothing came for {} s; upload again", self.idle.as_secs());
            Err(Status::deadline_exceeded(words))
        })
    }
}

/// The room that one upload holds; given back when dropped.
pub(super) struct Room {
    all: Arc<Semaphore>,
    idle: Duration,
    held: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Waits until there is room for `bytes` in all.
    ///
    /// # Errors
    /// Others hold it for too long. Uploads that wait for one another end so.
    pub(super) async fn grow_to(&mut self, bytes: usize) -> Result<(), Error> {
        let held = self
            .held
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(UNIT).saturating_sub(held);
        if more == 0 {
            return Ok(());
        }
        let full = || {
            let words = "other uploads fill the memory of this coordinator; upload again later";
            Error::Unavailable(words.to_owned())
        };
        let n = u32::try_from(more).map_err(|_| full())?;
        let permit = timeout(self.idle, Arc::clone(&self.all).acquire_many_owned(n)).await;
        let permit = permit.ok().and_then(Result::ok).ok_or_else(full)?;
        match &mut self.held {
            Some(held) => held.merge(permit),
            None => self.held = Some(permit),
        }
        Ok(())
    }

    /// Gives everything back: the blob is stored.
    pub(super) fn free(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_upload_waits_for_room_and_gives_up_when_there_is_none() {
        let uploads = Uploads::of(4 * UNIT, Duration::from_millis(5));
        let (mut a, mut b) = (uploads.room(), uploads.room());
        a.grow_to(3 * UNIT).await.unwrap();
        a.grow_to(UNIT).await.unwrap();
        b.grow_to(1).await.unwrap();
        // Each has what the other waits for.
        let (one, other) = tokio::join!(a.grow_to(4 * UNIT), b.grow_to(2 * UNIT));
        assert!(one.is_err() && other.is_err());
        a.free();
        b.grow_to(4 * UNIT).await.unwrap();
        drop(b);
        a.grow_to(4 * UNIT).await.unwrap();
    }

    #[tokio::test]
    async fn a_silent_client_is_left() {
        let uploads = Uploads::of(UNIT, Duration::from_millis(5));
        let silent = uploads
            .in_time(std::future::pending::<Result<(), Status>>())
            .await;
        assert_eq!(silent.unwrap_err().code(), tonic::Code::DeadlineExceeded);
        assert_eq!(uploads.in_time(async { Ok(1) }).await.unwrap(), 1);
    }
}
