//! Items of a run with their content addresses.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use skillopt_benchmarks::{Item, Splits};
use skillopt_core::Hash;

/// An item and the hash of its content, worked out once. Clones share the item.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The item.
    pub item: Arc<Item>,
    /// Address of its JSON.
    pub hash: Hash,
}

impl Sample {
    /// Addresses an item.
    #[must_use]
    pub fn new(item: Item) -> Self {
        let hash = Hash::of(&encode(&item.value));
        let item = Arc::new(item);
        Self { item, hash }
    }

    /// Returns the item's JSON, the bytes behind [`Self::hash`].
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        encode(&self.item.value).into()
    }

    /// Returns the item's fields.
    #[must_use]
    pub fn fields(&self) -> &Map<String, Value> {
        static EMPTY: std::sync::OnceLock<Map<String, Value>> = std::sync::OnceLock::new();
        self.item
            .value
            .as_object()
            .unwrap_or_else(|| EMPTY.get_or_init(Map::new))
    }
}

fn encode(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The three parts of a run's data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// What rollouts of a training step draw from.
    pub train: Vec<Sample>,
    /// What the gate looks at.
    pub val: Vec<Sample>,
    /// Sealed until the end of the run.
    pub test: Vec<Sample>,
}

impl Samples {
    /// Addresses all items.
    #[must_use]
    pub fn new(splits: Splits) -> Self {
        let part = |items: Vec<Item>| items.into_iter().map(Sample::new).collect();
        Self {
            train: part(splits.train),
            val: part(splits.val),
            test: part(splits.test),
        }
    }

    /// Returns one hash over all items of all parts, in order.
    #[must_use]
    pub fn hash(&self) -> Hash {
        let part = |samples: &[Sample]| -> Hash {
            Hash::of_parts(samples.iter().map(|s| s.hash.as_bytes().as_slice()))
        };
        let parts = [part(&self.train), part(&self.val), part(&self.test)];
        Hash::of_parts(parts.iter().map(|h| h.as_bytes().as_slice()))
    }
}
