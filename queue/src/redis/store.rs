//! Blobs, results and logs on a server.

mod entry;
mod large;

use std::collections::HashSet;
use std::sync::Arc;

use ::redis::{Cmd, Value, cmd};
use async_trait::async_trait;
use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use tokio::sync::Semaphore;

use self::entry::Entry;
use super::codec;
use super::link::Link;
use super::reply;
use super::scripts::APPEND;
use crate::message::RunId;
use crate::object::Objects;
use crate::store::{
    Away, BLOB_BYTES_MAX, EVENT_BYTES_MAX, Error, RESULT_BYTES_MAX, Store, check_size,
};

/// Longer values, as they are written, are large: they go to the object store, or in parts.
pub(super) const LARGE_BYTES_MIN: usize = 64 << 10;
/// Values of one call.
const CHUNK: usize = 128;
/// Of so many blobs it is asked first which are there.
const ASK_FIRST_MIN: usize = 8;
/// Large values that are in work at once; bounds memory.
const LARGE_MAX: usize = 2;

/// Keeps blobs, results and logs on a server. Clones share it.
#[derive(Clone)]
pub struct RedisStore {
    link: Link,
    objects: Option<Objects>,
    large: Arc<Semaphore>,
}

/// What there is under the key of a result.
pub(super) enum Found {
    Nothing,
    Small(Bytes),
    /// To be read as a blob.
    Large(Hash),
}

impl RedisStore {
    /// Uses a link; large values go where its options say.
    ///
    /// # Errors
    /// If the place of large values cannot be used.
    pub fn new(link: Link) -> Result<Self, Error> {
        let options = link.options();
        let open = |site| Objects::open(site, options.unreachable_max);
        Ok(Self {
            objects: options.objects.as_ref().map(open).transpose()?,
            large: Arc::new(Semaphore::new(LARGE_MAX)),
            link,
        })
    }

    /// Makes sure that large values can be written and read where they go.
    ///
    /// # Errors
    /// If they cannot; the message says what is wrong with the place.
    pub async fn check(&self) -> Result<(), Error> {
        match &self.objects {
            Some(objects) => objects.check().await,
            None => Ok(()),
        }
    }

    /// Returns the link.
    #[must_use]
    pub const fn link(&self) -> &Link {
        &self.link
    }

    fn keep_ms(&self) -> Option<u64> {
        let keep = self.link.options().keep?;
        Some(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX).max(1))
    }

    /// How long results are kept, as scripts want it.
    pub(super) fn keep_arg(&self) -> u64 {
        self.keep_ms().unwrap_or(0)
    }

    fn blob_key(&self, hash: Hash) -> Vec<u8> {
        self.link.spread_key(&format!("b:{hash}")).into_bytes()
    }

    fn result_key(&self, key: Key) -> Vec<u8> {
        let mut name = self.link.key("r:").into_bytes();
        name.extend_from_slice(key.0.as_bytes());
        name
    }

    fn log_key(&self, run: &RunId) -> String {
        self.link.spread_key(&format!("e:{{{run}}}"))
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::Corrupt {
            place: self.link.place(),
            detail: format!("{what} is not what was stored"),
        }
    }

    /// Writes a result as it is kept under its key; a large one is stored as a blob first.
    pub(super) async fn encode_result(&self, result: &Bytes) -> Result<Vec<u8>, Error> {
        check_size("result", result.len(), RESULT_BYTES_MAX)?;
        if result.len() <= LARGE_BYTES_MIN {
            return Ok(Entry::inline(result));
        }
        let packed = self.pack_large(result.clone()).await?;
        if packed.len() <= LARGE_BYTES_MIN {
            return Ok(Entry::inline(result));
        }
        let value = result.clone();
        let hash = self.off_threads("named", move || Hash::of(&value)).await?;
        self.put_large(hash, packed).await?;
        Ok(Entry::Blob(hash).write())
    }

    /// Looks up results; large ones are named, not read.
    pub(super) async fn find(&self, keys: &[Key]) -> Result<Vec<Found>, Error> {
        let mut all = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(CHUNK) {
            let mut get = cmd("MGET");
            for key in chunk {
                get.arg(self.result_key(*key));
            }
            let mut aged = Vec::new();
            for (key, value) in chunk.iter().zip(reply::list(self.link.call(&get).await?)) {
                let Some(bytes) = reply::optional(value) else {
                    all.push(Found::Nothing);
                    continue;
                };
                if self.is_aged(&bytes) {
                    aged.push(self.result_key(*key));
                }
                all.push(match Entry::read(&bytes) {
                    Some(Entry::Value(packed)) => codec::unpack(packed, RESULT_BYTES_MAX)
                        .map(Found::Small)
                        .ok_or_else(|| self.corrupt(&format!("result `{key}`")))?,
                    Some(Entry::Blob(hash)) => Found::Large(hash),
                    _ => return Err(self.corrupt(&format!("result `{key}`"))),
                });
            }
            self.refresh(aged).await?;
        }
        Ok(all)
    }

    /// Whether an entry was written so long ago that it is worth asking for its remaining life.
    fn is_aged(&self, entry: &[u8]) -> bool {
        self.keep_ms()
            .is_some_and(|keep| entry::age_ms(entry) > keep / 10)
    }

    /// Lengthens the lives of entries of which a tenth is over.
    async fn refresh(&self, keys: Vec<Vec<u8>>) -> Result<(), Error> {
        let Some(keep) = self.keep_ms().filter(|_| !keys.is_empty()) else {
            return Ok(());
        };
        let ask = |key: &Vec<u8>| one("PTTL", key);
        let rest = self
            .link
            .call_all(&keys.iter().map(ask).collect::<Vec<_>>())
            .await?;
        let is_short = |value: &Value| {
            let left = reply::integer(value).and_then(|left| u64::try_from(left).ok());
            left.is_some_and(|left| left < keep - keep / 10)
        };
        let set = |key: &Vec<u8>| {
            let mut cmd = one("PEXPIRE", key);
            cmd.arg(keep);
            cmd
        };
        let short = keys.iter().zip(&rest).filter(|(_, left)| is_short(left));
        let cmds: Vec<Cmd> = short.map(|(key, _)| set(key)).collect();
        self.link.call_all(&cmds).await.map(|_| ())
    }

    async fn put_chunk(&self, blobs: &[(&Hash, &Bytes)]) -> Result<(), Error> {
        let (mut cmds, mut keys) = (Vec::new(), Vec::new());
        for (hash, blob) in blobs {
            if blob.len() > LARGE_BYTES_MIN {
                let packed = self.pack_large((*blob).clone()).await?;
                if packed.len() > LARGE_BYTES_MIN {
                    self.put_large(**hash, packed).await?;
                    continue;
                }
            }
            let key = self.blob_key(**hash);
            cmds.push(self.set(&key, &Entry::inline(blob), true));
            keys.push(key);
        }
        let answers = self.link.call_all(&cmds).await?;
        // What was there already is wanted for as long as if it were new.
        let there = keys.into_iter().zip(answers);
        let there = there.filter(|(_, answer)| matches!(answer, Value::Nil));
        self.refresh(there.map(|(key, _)| key).collect()).await
    }

    fn set(&self, key: &[u8], entry: &[u8], is_first_only: bool) -> Cmd {
        let mut set = cmd("SET");
        set.arg(key).arg(entry);
        if is_first_only {
            set.arg("NX");
        }
        if let Some(keep) = self.keep_ms() {
            set.arg("PX").arg(keep);
        }
        set
    }
}

fn one(name: &str, key: &[u8]) -> Cmd {
    let mut cmd = cmd(name);
    cmd.arg(key);
    cmd
}

/// Reads as much of an entry as says where its value lies.
fn head_of(key: &[u8]) -> Cmd {
    let mut get = one("GETRANGE", key);
    get.arg(0).arg(entry::HEAD_BYTES - 1);
    get
}

#[async_trait]
impl Store for RedisStore {
    async fn put_blobs(&self, blobs: Vec<Bytes>) -> Result<Vec<Hash>, Error> {
        for blob in &blobs {
            check_size("blob", blob.len(), BLOB_BYTES_MAX)?;
        }
        let hashes = self.name(&blobs).await?;
        // Runs on the same data bring the same items: to ask costs a tenth of sending them.
        let missing: Option<HashSet<Hash>> = if blobs.len() >= ASK_FIRST_MIN {
            Some(self.missing(&hashes).await?.into_iter().collect())
        } else {
            None
        };
        let is_wanted = |hash: &Hash| missing.as_ref().is_none_or(|all| all.contains(hash));
        let wanted = hashes
            .iter()
            .zip(&blobs)
            .filter(|(hash, _)| is_wanted(hash));
        for chunk in wanted.collect::<Vec<_>>().chunks(CHUNK) {
            self.put_chunk(chunk).await?;
        }
        Ok(hashes)
    }

    async fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Bytes>>, Error> {
        let mut all = Vec::with_capacity(hashes.len());
        for chunk in hashes.chunks(CHUNK) {
            let gets: Vec<Cmd> = chunk
                .iter()
                .map(|hash| one("GET", &self.blob_key(*hash)))
                .collect();
            let mut aged = Vec::new();
            for (hash, value) in chunk.iter().zip(self.link.call_all(&gets).await?) {
                let Some(bytes) = reply::optional(value) else {
                    all.push(None);
                    continue;
                };
                let is_aged = self.is_aged(&bytes);
                let found = match Entry::read(&bytes) {
                    Some(Entry::Value(packed)) => {
                        let blob = codec::unpack(packed, BLOB_BYTES_MAX);
                        Some(blob.filter(|blob| Hash::of(blob) == *hash))
                    }
                    Some(Entry::Parts { .. } | Entry::Object) => {
                        let entry = Entry::read(&bytes);
                        match entry {
                            Some(entry) => self.large(*hash, &entry, is_aged).await?.map(Some),
                            None => None,
                        }
                    }
                    _ => Some(None),
                };
                all.push(match found {
                    Some(Some(blob)) => {
                        if is_aged {
                            aged.push(self.blob_key(*hash));
                        }
                        Some(blob)
                    }
                    Some(None) => return Err(self.corrupt(&format!("blob `{hash}`"))),
                    None => None,
                });
            }
            self.refresh(aged).await?;
        }
        Ok(all)
    }

    async fn missing(&self, hashes: &[Hash]) -> Result<Vec<Hash>, Error> {
        let mut missing = Vec::new();
        for chunk in hashes.chunks(CHUNK) {
            let heads: Vec<Cmd> = chunk
                .iter()
                .map(|hash| head_of(&self.blob_key(*hash)))
                .collect();
            let mut aged = Vec::new();
            for (hash, head) in chunk.iter().zip(self.link.call_all(&heads).await?) {
                let head = reply::optional(head).unwrap_or_default();
                let is_aged = self.is_aged(&head);
                let is_there = match Entry::read(&head) {
                    Some(Entry::Value(_)) => true,
                    Some(entry) => self.has_large(*hash, &entry, is_aged).await?,
                    None if head.is_empty() => false,
                    None => return Err(self.corrupt(&format!("blob `{hash}`"))),
                };
                if !is_there {
                    missing.push(*hash);
                } else if is_aged {
                    aged.push(self.blob_key(*hash));
                }
            }
            self.refresh(aged).await?;
        }
        Ok(missing)
    }

    async fn pressure(&self) -> Result<Option<String>, Error> {
        self.link.pressure().await
    }

    async fn away(&self) -> Option<Away> {
        match &self.objects {
            Some(objects) => objects.away().await,
            None => None,
        }
    }

    async fn put_result(&self, key: Key, result: Bytes) -> Result<bool, Error> {
        let entry = self.encode_result(&result).await?;
        let set = self.set(&self.result_key(key), &entry, true);
        Ok(!matches!(self.link.call(&set).await?, Value::Nil))
    }

    async fn results(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>, Error> {
        let mut all = Vec::with_capacity(keys.len());
        for (key, found) in keys.iter().zip(self.find(keys).await?) {
            all.push(match found {
                Found::Nothing => None,
                Found::Small(result) => Some(result),
                Found::Large(hash) => match self.blobs(&[hash]).await?.pop().flatten() {
                    Some(result) => Some(result),
                    None => self.recover(*key, hash).await?,
                },
            });
        }
        Ok(all)
    }

    async fn append_event(&self, run: &RunId, seq: u64, event: Bytes) -> Result<(), Error> {
        check_size("event", event.len(), EVENT_BYTES_MAX)?;
        let mut entry = Hash::of(&event).as_bytes()[..16].to_vec();
        codec::pack(&event, &mut entry);
        let (key, number, keep) = (
            self.log_key(run),
            seq.to_string(),
            self.keep_arg().to_string(),
        );
        let args: [&[u8]; 3] = [number.as_bytes(), &entry, keep.as_bytes()];
        let answer = self.link.run(&APPEND, &[key.as_bytes()], &args).await?;
        match reply::integer(&answer) {
            Some(-1) => Ok(()),
            Some(-2) => Err(Error::Conflict {
                run: run.clone(),
                seq,
            }),
            Some(next) => Err(Error::Gap {
                run: run.clone(),
                seq,
                next: u64::try_from(next).unwrap_or(0),
            }),
            None => Err(self.corrupt(&format!("the log of run `{run}`"))),
        }
    }

    async fn events(&self, run: &RunId, from: u64, max: usize) -> Result<Vec<Bytes>, Error> {
        let (Ok(from), true) = (i64::try_from(from), max > 0) else {
            return Ok(Vec::new());
        };
        let to = i64::try_from(max - 1).map_or(i64::MAX, |max| from.saturating_add(max));
        let key = self.log_key(run);
        let mut get = one("LRANGE", key.as_bytes());
        get.arg(from).arg(to);
        let found = reply::list(self.link.call(&get).await?);
        self.refresh(vec![key.into_bytes()]).await?;
        let read = |value: Value| {
            let bytes = reply::optional(value)?;
            let event = codec::unpack(bytes.get(16..)?, EVENT_BYTES_MAX)?;
            (Hash::of(&event).as_bytes()[..16] == bytes[..16]).then_some(event)
        };
        let events = found.into_iter().map(read).collect::<Option<Vec<_>>>();
        events.ok_or_else(|| self.corrupt(&format!("the log of run `{run}`")))
    }
}
