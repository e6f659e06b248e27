//! A store that is only looked at.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::Hash;
use skillopt_core::job::Key;
use skillopt_queue::{RunId, Store, store};

/// Reads from a store and forgets what it is told: for a loop that only makes a folder again.
pub(super) struct Quiet(pub(super) Arc<dyn Store>);

#[async_trait]
impl Store for Quiet {
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, store::Error> {
        Ok(blobs.iter().map(|blob| Hash::of(blob)).collect())
    }

    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, store::Error> {
        self.0.blobs(hashes).await
    }

    async fn missing(&self, hashes: &[Hash]) -> Result<Vec<Hash>, store::Error> {
        self.0.missing(hashes).await
    }

    async fn put_result(&self, _: Key, _: Bytes) -> Result<bool, store::Error> {
        Ok(false)
    }

    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, store::Error> {
        self.0.results(keys).await
    }

    async fn append_event(&self, _: &RunId, _: u64, _: Bytes) -> Result<(), store::Error> {
        Ok(())
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, store::Error> {
        self.0.events(run, from, max).await
    }
}
