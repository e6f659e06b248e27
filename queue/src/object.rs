//! Large values in an object store: a local folder, S3, GCS or Azure, chosen by URL.

mod fault;
mod site;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use skillopt_runtime::Retry;
use tokio::time::{Instant, sleep, timeout};

use self::fault::Judge;
pub use self::site::Site;
use self::watch::Watch;
use crate::store::{Away, Error};

/// How long the first byte of an answer may take, all tries together, beyond the time that a place
/// may be away.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Slowest way that is still waited for, in bytes a second: the time that a transfer may take grows
/// with what is transferred.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;
/// How long a look at a place that was away may take.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// What is said of a place of which no call has come back yet.
const SILENT: &str = "it does not answer; is it up, and are its address and region right?";
/// When a call is made again that did not come through.
const AGAIN: Retry = Retry {
    attempts: u32::MAX,
    base: Duration::from_millis(100),
    cap: Duration::from_secs(2),
};
/// What the check writes and reads.
const PROBE: (&str, &[u8]) = ("probe", b"skillopt");

/// A place for large values, by name. Clones share it.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    judge: Arc<Judge>,
    away_max: Duration,
    watch: Watch,
}

/// A call that failed.
struct Failed {
    error: Error,
    /// Whether it did not come through, and the place itself said nothing.
    on_the_way: bool,
}

/// Makes calls again that did not come through, for as long as a place may be away. The library does
/// so for most such faults, but for example not for a connection that the other side closed before it
/// was used again. Asking twice changes nothing.
struct Again {
    since: Instant,
    most: Duration,
    failures: u32,
}

impl Again {
    fn within(most: Duration) -> Self {
        Self {
            since: Instant::now(),
            most,
            failures: 0,
        }
    }

    /// Waits until a failed call may be made again.
    ///
    /// # Errors
    /// It may not.
    async fn wait(&mut self, failed: Failed) -> Result<(), Error> {
        self.failures = self.failures.saturating_add(1);
        let is_worth_it = failed.on_the_way && self.since.elapsed() < self.most;
        match AGAIN.wait(self.failures, None, 1.0) {
            Some(wait) if is_worth_it => {
                sleep(wait).await;
                Ok(())
            }
            _ => Err(failed.error),
        }
    }
}

impl Objects {
    /// Opens a place; a local folder is made. A place that is away is asked again for `away_max`.
    ///
    /// # Errors
    /// If the URL is not understood, a setting is missing or wrong, or the folder cannot be made.
    pub fn open(site: &Site, away_max: Duration) -> Result<Self, Error> {
        let (store, prefix) = site.open(away_max)?;
        Ok(Self {
            store,
            prefix,
            judge: Arc::new(site.judge()),
            away_max,
            watch: Watch::default(),
        })
    }

    /// Makes sure that values can be written and read: what is wrong with a bucket or a credential
    /// is said before work begins.
    ///
    /// # Errors
    /// If they cannot.
    pub async fn check(&self) -> Result<(), Error> {
        let (name, value) = PROBE;
        self.put(name, Bytes::from_static(value)).await?;
        match self.get(name).await? {
            Some(found) if found == value => Ok(()),
            _ => Err(self.judge.says("it does not give back what was written")),
        }
    }

    /// Says that the place leaves calls without an answer, or fails them, since when, and what helps;
    /// `None` while it does what it is asked. A place that was away and that nobody asks now is
    /// looked at.
    pub async fn away(&self) -> Option<Away> {
        let absence = self.watch.absence()?;
        if !absence.is_asked {
            // The rest of what a slow answer takes is for the next look.
            drop(timeout(LOOK_MAX, self.check()).await);
        }
        let absence = self.watch.absence()?;
        Some(Away {
            place: self.judge.place().to_owned(),
            detail: absence.cause.unwrap_or_else(|| SILENT.to_owned()),
            since: absence.since.elapsed(),
        })
    }

    /// Stores a value; one that is there is replaced, which changes nothing as names are hashes.
    ///
    /// # Errors
    /// If the place cannot be written.
    pub async fn put(&self, name: &str, value: Bytes) -> Result<(), Error> {
        let (path, len) = (self.path(name), value.len() as u64);
        let mut again = Again::within(self.away_max);
        loop {
            let put = self.store.put(&path, PutPayload::from(value.clone()));
            match self.within(len, put).await {
                Ok(_) => return Ok(()),
                Err(failed) => again.wait(failed).await?,
            }
        }
    }

    /// Returns a value, `None` if there is none.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>, Error> {
        let path = self.path(name);
        let mut again = Again::within(self.away_max);
        loop {
            match self.get_once(&path).await {
                Ok(found) => return Ok(found),
                Err(failed) => again.wait(failed).await?,
            }
        }
    }

    async fn get_once(&self, path: &Path) -> Result<Option<Bytes>, Failed> {
        let asked = async {
            match self.store.get(path).await {
                Err(error) if self.judge.is_absence(&error) => Ok(None),
                found => found.map(Some),
            }
        };
        match self.within(0, asked).await? {
            Some(found) => {
                let len = found.meta.size;
                self.within(len, found.bytes()).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Whether there is a value.
    ///
    /// # Errors
    /// If the place cannot be read.
    pub async fn has(&self, name: &str) -> Result<bool, Error> {
        let path = self.path(name);
        let mut again = Again::within(self.away_max);
        loop {
            let asked = async {
                match self.store.head(&path).await {
                    Err(error) if self.judge.is_absence(&error) => Ok(false),
                    found => found.map(|_| true),
                }
            };
            match self.within(0, asked).await {
                Ok(is_there) => return Ok(is_there),
                Err(failed) => again.wait(failed).await?,
            }
        }
    }

    /// Waits for an answer as long as a transfer of `len` bytes may take.
    async fn within<T>(
        &self,
        len: u64,
        asked: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<T, Failed> {
        let transfer = Duration::from_secs(len / BYTES_PER_SECOND_MIN);
        let call = self.watch.begin(transfer);
        let answer = match timeout(self.away_max + ANSWER_MAX + transfer, asked).await {
            Ok(answer) => answer.map_err(|error| Failed {
                on_the_way: Judge::is_of_the_way(&error),
                error: self.judge.error(&error),
            }),
            Err(_) => Err(Failed {
                on_the_way: false,
                error: self.judge.says(SILENT),
            }),
        };
        match answer.as_ref().map_err(|failed| &failed.error) {
            Ok(_) => call.answered(),
            Err(Error::Io { detail, .. }) => call.failed(detail),
            Err(error) => call.failed(&error.to_string()),
        }
        answer
    }

    fn path(&self, name: &str) -> Path {
        let mut path = self.prefix.clone();
        for part in name.split('/') {
            path = path.join(part.to_owned());
        }
        path
    }
}
