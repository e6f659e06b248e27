//! Values too large for one call: in the object store, or in parts on the server.

use ::redis::Cmd;
use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use tokio::task::spawn_blocking;

use super::entry::Entry;
use super::{LARGE_BYTES_MIN, RedisStore, one};
use crate::object::Objects;
use crate::redis::{codec, reply};
use crate::store::{BLOB_BYTES_MAX, Error};

/// One part: small enough that the server serves others in between.
const PART_BYTES: usize = 1 << 20;

impl RedisStore {
    /// Names and compresses a large value, off the threads that serve others.
    pub(super) async fn pack_large(&self, value: Bytes) -> Result<(Hash, Vec<u8>), Error> {
        let _permit = self.large.acquire().await.ok();
        let work = move || {
            let mut packed = Vec::new();
            codec::pack(&value, &mut packed);
            (Hash::of(&value), packed)
        };
        spawn_blocking(work).await.map_err(|error| Error::Io {
            place: self.link.place(),
            detail: format!("a large value cannot be compressed: {error}"),
        })
    }

    /// Names blobs, off the threads that serve others if one is large.
    pub(super) async fn name(&self, blobs: &[Bytes]) -> Result<Vec<Hash>, Error> {
        let name = |blobs: &[Bytes]| blobs.iter().map(|blob| Hash::of(blob)).collect();
        if blobs.iter().all(|blob| blob.len() <= LARGE_BYTES_MIN) {
            return Ok(name(blobs));
        }
        let blobs = blobs.to_vec();
        let named = spawn_blocking(move || name(&blobs)).await;
        named.map_err(|error| Error::Io {
            place: self.link.place(),
            detail: format!("a large value cannot be named: {error}"),
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
    /// made again. With one the content is somewhere, unless it was deleted or another place is named
    /// here: then nothing is taken back, for it was paid for.
    pub(super) async fn recover(&self, key: Key, hash: Hash) -> Result<Option<Bytes>, Error> {
        let Some(objects) = &self.objects else {
            let forget = one("DEL", &self.result_key(key));
            self.link.call(&forget).await?;
            return Ok(None);
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
