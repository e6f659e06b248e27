//! Values too large for one call: in the object store, or in parts on the server.

use ::redis::{Cmd, Value};
use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use tokio::task::spawn_blocking;

use super::entry::Entry;
use super::{Found, LARGE_BYTES_MIN, RedisStore, one};
use crate::object::Objects;
use crate::redis::scripts::FORGET;
use crate::redis::{codec, reply};
use crate::store::{BLOB_BYTES_MAX, Error, Store as _};

/// One part: small enough that the server serves others in between.
const PART_BYTES: usize = 1 << 20;

impl RedisStore {
    /// Compresses a large value.
    pub(super) async fn pack_large(&self, value: Bytes) -> Result<Vec<u8>, Error> {
        let _permit = self.large.acquire().await.ok();
        let work = move || {
            let mut packed = Vec::new();
            codec::pack(&value, &mut packed);
            packed
        };
        self.off_threads("compressed", work).await
    }

    /// Names blobs.
    pub(super) async fn name(&self, blobs: &[Bytes]) -> Result<Vec<Hash>, Error> {
        let name = |blobs: &[Bytes]| blobs.iter().map(|blob| Hash::of(blob)).collect();
        if blobs.iter().all(|blob| blob.len() <= LARGE_BYTES_MIN) {
            return Ok(name(blobs));
        }
        let blobs = blobs.to_vec();
        self.off_threads("named", move || name(&blobs)).await
    }

    /// Does work on a large value off the threads that serve others; `done` says what in errors.
    pub(super) async fn off_threads<T: Send + 'static>(
        &self,
        done: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        spawn_blocking(work).await.map_err(|error| Error::Io {
            place: self.link.place(),
            detail: format!("a large value cannot be {done}: {error}"),
        })
    }

    /// Stores a large value; its entry comes last and makes it visible.
    pub(super) async fn put_large(&self, hash: Hash, packed: Vec<u8>) -> Result<(), Error> {
        let key = self.blob_key(hash);
        if let Some(objects) = &self.objects {
            objects.put(&object_name(hash), packed.into()).await?;
            let set = self.set(&key, &Entry::Object.write(), false);
            return self.link.call(&set).await.map(|_| ());
        }
        let packed = Bytes::from(packed);
        let parts: Vec<Bytes> = (0..packed.len())
            .step_by(PART_BYTES)
            .map(|start| packed.slice(start..packed.len().min(start + PART_BYTES)))
            .collect();
        for (i, part) in parts.iter().enumerate() {
            let set = self.set(&self.part_key(hash, i), part, false);
            self.link.call_bulk(&set).await?;
        }
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let set = self.set(&key, &Entry::Parts { count }.write(), false);
        self.link.call(&set).await.map(|_| ())
    }

    /// Reads a large blob; `None` if it is not there any more.
    pub(super) async fn large(
        &self,
        hash: Hash,
        entry: &Entry<'_>,
        is_aged: bool,
    ) -> Result<Option<Bytes>, Error> {
        let _permit = self.large.acquire().await.ok();
        let packed = match entry {
            Entry::Object => self.objects(hash)?.get(&object_name(hash)).await?,
            Entry::Parts { count } => self.parts(hash, *count, is_aged).await?,
            Entry::Value(_) | Entry::Blob(_) => None,
        };
        let Some(packed) = packed else {
            return Ok(None);
        };
        let work = move || {
            let value = codec::unpack(&packed, BLOB_BYTES_MAX)?;
            (Hash::of(&value) == hash).then_some(value)
        };
        let value = spawn_blocking(work).await.ok().flatten();
        let corrupt = || self.corrupt(&format!("blob `{hash}`"));
        value.map(Some).ok_or_else(corrupt)
    }

    /// Whether a large blob is still there, without reading it.
    pub(super) async fn has_large(
        &self,
        hash: Hash,
        entry: &Entry<'_>,
        is_aged: bool,
    ) -> Result<bool, Error> {
        match entry {
            Entry::Object => self.objects(hash)?.has(&object_name(hash)).await,
            Entry::Parts { count } => {
                let keys: Vec<Vec<u8>> = (0..*count as usize)
                    .map(|i| self.part_key(hash, i))
                    .collect();
                let asked: Vec<Cmd> = keys.iter().map(|key| one("EXISTS", key)).collect();
                let answers = self.link.call_all(&asked).await?;
                if answers.iter().any(|n| reply::integer(n) != Some(1)) {
                    return Ok(false);
                }
                if is_aged {
                    self.refresh(keys).await?;
                }
                Ok(true)
            }
            Entry::Value(_) | Entry::Blob(_) => Ok(false),
        }
    }

    /// Looks for the content of a result that is not where it should be. A node of a cluster may have
    /// died with it, while another one still has the result's name.
    ///
    /// Without an object store the name is taken back, so that whoever wants the result can have it
    /// made again; of several readers the slow ones take nothing back that was made meanwhile. With
    /// an object store the content is somewhere, unless it was deleted or another place is named here:
    /// then nothing is taken back, for it was paid for.
    pub(super) async fn recover(&self, key: Key, hash: Hash) -> Result<Option<Bytes>, Error> {
        let Some(objects) = &self.objects else {
            return self.forget(key, hash).await;
        };
        if !objects.has(&object_name(hash)).await? {
            return Err(Error::Lost {
                what: format!("the content of result `{key}` in the object store"),
            });
        }
        let entry = Entry::Object;
        let set = self.set(&self.blob_key(hash), &entry.write(), false);
        self.link.call(&set).await?;
        self.large(hash, &entry, false).await
    }

    /// Takes the name of a result back whose content is gone, and returns the result if it is there
    /// again.
    async fn forget(&self, key: Key, hash: Hash) -> Result<Option<Bytes>, Error> {
        let name = self.result_key(key);
        let forgotten = self.link.run(&FORGET, &[&name], &[hash.as_bytes()]).await?;
        if reply::integer(&forgotten) == Some(1) {
            // The same content may have come back before its name went: it lies on another node, so
            // no script can look at both. It comes before its name, so this look misses nothing.
            if let Some(value) = self.blobs(&[hash]).await?.pop().flatten() {
                let set = self.set(&name, &Entry::Blob(hash).write(), true);
                if !matches!(self.link.call(&set).await?, Value::Nil) {
                    return Ok(Some(value));
                }
            }
            // Another result may have come.
        }
        match self.find(&[key]).await?.pop() {
            Some(Found::Small(value)) => Ok(Some(value)),
            // Without it, it is taken back when it is asked for next.
            Some(Found::Large(newer)) => Ok(self.blobs(&[newer]).await?.pop().flatten()),
            Some(Found::Nothing) | None => Ok(None),
        }
    }

    fn objects(&self, hash: Hash) -> Result<&Objects, Error> {
        self.objects.as_ref().ok_or_else(|| Error::Lost {
            what: format!("blob `{hash}` lies in an object store; name it here as well, else it"),
        })
    }

    async fn parts(&self, hash: Hash, count: u32, is_aged: bool) -> Result<Option<Bytes>, Error> {
        let mut packed = Vec::new();
        let keys: Vec<Vec<u8>> = (0..count as usize)
            .map(|i| self.part_key(hash, i))
            .collect();
        for key in &keys {
            let found = self.link.call_bulk(&one("GET", key)).await?;
            let Some(part) = reply::optional(found) else {
                return Ok(None);
            };
            if packed.len() + part.len() > BLOB_BYTES_MAX + PART_BYTES {
                return Err(self.corrupt(&format!("blob `{hash}`")));
            }
            packed.extend_from_slice(&part);
        }
        if is_aged {
            // Before its entry, so that an entry never outlives its parts.
            self.refresh(keys).await?;
        }
        Ok(Some(packed.into()))
    }

    fn part_key(&self, hash: Hash, part: usize) -> Vec<u8> {
        let name = format!("b:{hash}:{part}");
        self.link.spread_key(&name).into_bytes()
    }
}

fn object_name(hash: Hash) -> String {
    format!("blobs/{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::server::Server;
    use crate::conformance::{key, noise};
    use crate::redis::{Link, Options};

    /// A result in parts whose content was lost with a node, and the store that has its name.
    async fn lost(server: &Server) -> (RedisStore, Bytes) {
        let link = Link::open(&server.url(), Options::default()).await.unwrap();
        let (store, value) = (RedisStore::new(link).unwrap(), noise(100 << 10));
        store.put_result(key("a"), value.clone()).await.unwrap();
        let gone = one("DEL", &store.blob_key(Hash::of(&value)));
        store.link.call(&gone).await.unwrap();
        (store, value)
    }

    #[tokio::test]
    async fn a_slow_reader_takes_back_nothing_newer() {
        let server = Server::redis();
        let (store, value) = lost(&server).await;
        let missed = Hash::of(&value);
        let [large, small] = [noise(80 << 10), Bytes::from("small")];
        for newer in [large, small] {
            // One reader has it made again; the other one only now does what it came for.
            let found = store.results(&[key("a")]).await.unwrap();
            assert_eq!(found, [None]);
            let is_first = store.put_result(key("a"), newer.clone()).await;
            assert_eq!(is_first, Ok(true));
            let late = store.recover(key("a"), missed).await.unwrap();
            assert_eq!(late.as_ref(), Some(&newer), "the newer one is the result");
            let found = store.results(&[key("a")]).await.unwrap();
            assert_eq!(found, [Some(newer)]);
            let again = one("DEL", &store.result_key(key("a")));
            store.link.call(&again).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_same_content_that_came_back_keeps_its_name() {
        let server = Server::redis();
        let (store, value) = lost(&server).await;
        let missed = Hash::of(&value);
        store.results(&[key("a")]).await.unwrap();
        store.put_result(key("a"), value.clone()).await.unwrap();
        let late = store.recover(key("a"), missed).await.unwrap();
        assert_eq!(late, Some(value.clone()));
        let found = store.results(&[key("a")]).await.unwrap();
        assert_eq!(found, [Some(value)]);
    }
}
