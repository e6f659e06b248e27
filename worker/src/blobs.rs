//! Blobs by hash, decoded once and kept in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use skillopt_backends::ChatModel;
use skillopt_core::Hash;
use skillopt_core::job::{Profile, Prompt};
use skillopt_core::skill::Folder;
use skillopt_queue::{Store, store};

use crate::model::{ModelFactory, Unusable};
use crate::patience::{Patience, may_pass};
use crate::settings::{Place, Settings};
use crate::stop::Stop;

/// Most models that are kept, each with its connections.
const MODELS_MAX: usize = 256;

/// How often somebody who waits for an input asks how long its place has been away.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A skill as a rollout takes it.
pub(crate) struct Skill {
    pub(crate) text: String,
    /// The text files that the skill brings; others stay with the folder.
    pub(crate) files: BTreeMap<String, String>,
}

/// A model with the settings it is called with.
pub(crate) struct Model {
    pub(crate) client: Arc<dyn ChatModel>,
    pub(crate) profile: Profile,
}

/// Reads blobs and remembers what they mean.
pub(crate) struct Blobs {
    store: Arc<dyn Store>,
    place: Place,
    away_max: Duration,
    factory: ModelFactory,
    values: Cache<Value>,
    skills: Cache<Skill>,
    /// Few and small: one per role of a run.
    models: Mutex<HashMap<Hash, Arc<Model>>>,
}

impl Blobs {
    pub(crate) fn new(store: Arc<dyn Store>, factory: ModelFactory, settings: &Settings) -> Self {
        let bytes = settings.cache_bytes;
        Self {
            store,
            place: settings.place,
            away_max: settings.away_max(),
            factory,
            values: Cache::new(bytes / 2),
            skills: Cache::new(bytes / 2),
            models: Mutex::new(HashMap::new()),
        }
    }

    /// Asks the store. A worker of a cluster waits for one that is away; whoever calls is stopped
    /// from outside when the lease is gone.
    pub(crate) async fn ask<'a, T, F>(
        &'a self,
        ask: impl Fn(&'a dyn Store) -> F,
    ) -> Result<T, store::Error>
    where
        F: Future<Output = Result<T, store::Error>> + 'a,
    {
        let mut patience = Patience::default();
        loop {
            match ask(self.store.as_ref()).await {
                Err(e) if self.place == Place::Cluster && may_pass(&e) => patience.wait().await,
                answer => return answer,
            }
        }
    }

    /// Returns an input. A place of large values that stays away from us may be there for others:
    /// the job has not begun, and goes back.
    async fn bytes(&self, hash: Hash) -> Result<bytes::Bytes, Stop> {
        let lost = async {
            loop {
                match self.away().await {
                    Some(away) if away.since > self.away_max => return away,
                    _ => tokio::time::sleep(LOOK_EVERY).await,
                }
            }
        };
        tokio::select! {
            biased;
            bytes = self.ask(|store| store.blob(hash)) => bytes.map_err(|e| Stop::store(&e)),
            away = lost, if self.place == Place::Cluster => Err(Stop::here(away.to_string())),
        }
    }

    /// Says that the place of large values is away.
    pub(crate) async fn away(&self) -> Option<store::Away> {
        self.store.away().await
    }

    /// Returns the memory that is in use, in bytes.
    pub(crate) fn bytes_used(&self) -> usize {
        self.values.bytes_used() + self.skills.bytes_used()
    }

    /// Returns a JSON blob.
    pub(crate) async fn value(&self, hash: Hash) -> Result<Arc<Value>, Stop> {
        if let Some(value) = self.values.get(&hash) {
            return Ok(value);
        }
        let bytes = self.bytes(hash).await?;
        let value = serde_json::from_slice(&bytes).map_err(|e| Stop::damaged(hash, &e))?;
        Ok(self.values.put(hash, Arc::new(value), bytes.len()))
    }

    /// Returns a prompt; prompts are rarely asked for twice and so are not kept.
    pub(crate) async fn prompt(&self, hash: Hash) -> Result<Prompt, Stop> {
        let bytes = self.bytes(hash).await?;
        serde_json::from_slice(&bytes).map_err(|e| Stop::damaged(hash, &e))
    }

    pub(crate) async fn skill(&self, hash: Hash) -> Result<Arc<Skill>, Stop> {
        if let Some(skill) = self.skills.get(&hash) {
            return Ok(skill);
        }
        let bytes = self.bytes(hash).await?;
        let folder = Folder::decode(&bytes).map_err(|e| Stop::damaged(hash, &e))?;
        let skill = Skill {
            files: folder.text_files(),
            text: folder.document,
        };
        Ok(self.skills.put(hash, Arc::new(skill), bytes.len()))
    }

    pub(crate) async fn model(&self, hash: Hash) -> Result<Arc<Model>, Stop> {
        if let Some(model) = lock(&self.models).get(&hash) {
            return Ok(Arc::clone(model));
        }
        let bytes = self.bytes(hash).await?;
        let profile: Profile =
            serde_json::from_slice(&bytes).map_err(|e| Stop::damaged(hash, &e))?;
        let client = (self.factory)(&profile).map_err(|e| match e {
            Unusable::Wanted(e) => Stop::provider(e.to_string()),
            Unusable::Here(cause) => Stop::here(cause),
            Unusable::Elsewhere { endpoint, error } => Stop::elsewhere(endpoint, error.to_string()),
        })?;
        let model = Arc::new(Model { client, profile });
        let mut models = lock(&self.models);
        if models.len() >= MODELS_MAX {
            // Calls under way keep theirs; the others are made anew.
            models.clear();
        }
        Ok(Arc::clone(models.entry(hash).or_insert(model)))
    }
}

/// A cache of two generations: when the young one is full, the old one is dropped.
struct Cache<T> {
    bytes_max: usize,
    generations: Mutex<Generations<T>>,
}

struct Generations<T> {
    young: HashMap<Hash, (Arc<T>, usize)>,
    old: HashMap<Hash, (Arc<T>, usize)>,
    young_bytes: usize,
    old_bytes: usize,
}

impl<T> Cache<T> {
    fn new(bytes_max: usize) -> Self {
        let generations = Generations {
            young: HashMap::new(),
            old: HashMap::new(),
            young_bytes: 0,
            old_bytes: 0,
        };
        Self {
            bytes_max,
            generations: Mutex::new(generations),
        }
    }

    /// Returns about how many bytes are kept.
    fn bytes_used(&self) -> usize {
        let generations = lock(&self.generations);
        generations.young_bytes + generations.old_bytes
    }

    fn get(&self, hash: &Hash) -> Option<Arc<T>> {
        let mut generations = lock(&self.generations);
        if let Some((value, _)) = generations.young.get(hash) {
            return Some(Arc::clone(value));
        }
        let (value, size) = generations.old.remove(hash)?;
        generations.old_bytes = generations.old_bytes.saturating_sub(2 * size);
        generations.insert(*hash, Arc::clone(&value), size, self.bytes_max);
        Some(value)
    }

    fn put(&self, hash: Hash, value: Arc<T>, size: usize) -> Arc<T> {
        lock(&self.generations).insert(hash, Arc::clone(&value), size, self.bytes_max);
        value
    }
}

impl<T> Generations<T> {
    fn insert(&mut self, hash: Hash, value: Arc<T>, size: usize, bytes_max: usize) {
        // Each generation gets half; a decoded value is taken as twice its text. One that fills it
        // alone is not kept.
        if 2 * size > bytes_max / 2 {
            return;
        }
        if self.young_bytes + 2 * size > bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
        if self.young.insert(hash, (value, size)).is_none() {
            self.young_bytes += 2 * size;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_the_cache_is_not_kept() {
        let cache = Cache::new(80);
        for (i, size) in [(0, 20), (1, 21), (2, 1 << 30)] {
            assert_eq!(*cache.put(Hash::of(&[i]), Arc::new(i), size), i);
        }
        let kept = (0..3u8).filter(|i| cache.get(&Hash::of(&[*i])).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [0]);
        assert_eq!(cache.bytes_used(), 40);
    }

    #[test]
    fn the_cache_forgets_what_was_not_used_lately() {
        let cache = Cache::new(80);
        for i in 0..10u8 {
            cache.put(Hash::of(&[i]), Arc::new(i), 5);
            assert_eq!(
                cache.get(&Hash::of(&[0])).as_deref(),
                Some(&0),
                "kept by use"
            );
        }
        let kept = (0..10u8)
            .filter(|i| cache.get(&Hash::of(&[*i])).is_some())
            .count();
        assert!(
            (2..=8).contains(&kept),
            "{kept} of 10 entries of 10 bytes are kept in 80"
        );
    }
}
