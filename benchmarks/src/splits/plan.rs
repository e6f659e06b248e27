//! Which items a batch holds: pure functions of sizes and seeds (training spec 1.13, 1.15).
//!
//! Batches are lists of indices into a part, so that planning copies no item.

use super::mersenne::{Mersenne, shuffled};
use crate::error::LoadError;

/// A batch of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The batch's seed (training spec 1.13).
    pub seed: i64,
    /// Indices into the part, in order.
    pub items: Vec<usize>,
}

/// The shape of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochPlan {
    /// Items of the train part.
    pub train_size: usize,
    /// Items of a micro-batch; at least 1.
    pub batch_size: usize,
    /// Steps of the epoch.
    pub steps: usize,
    /// Micro-batches of a step.
    pub accumulation: usize,
    /// Seed of the run.
    pub seed: i64,
}

impl EpochPlan {
    /// Returns the micro-batches of `epoch` (from 1): the shuffled part in slices; a slice that
    /// would be empty is the start of a fresh shuffle instead.
    #[must_use]
    pub fn batches(self, epoch: i64) -> Vec<Batch> {
        let start = epoch_seed(self.seed, epoch);
        let order = shuffled(self.train_size, start);
        let size = self.batch_size.max(1);
        (0..self.steps.saturating_mul(self.accumulation))
            .map(|index| {
                let seed = start.wrapping_add(offset(index) + 1);
                let from = index.saturating_mul(size).min(order.len());
                let to = from.saturating_add(size).min(order.len());
                let mut items = order[from..to].to_vec();
                if items.is_empty() {
                    items.clone_from(&order);
                    Mersenne::new(seed).shuffle(&mut items);
                    items.truncate(size);
                }
                Batch { seed, items }
            })
            .collect()
    }
}

/// Returns a sample of the train part without replacement: shuffle, take the first `count`.
#[must_use]
pub fn train_batch(train_size: usize, count: usize, seed: i64) -> Batch {
    let mut items = shuffled(train_size, seed);
    items.truncate(count);
    Batch { seed, items }
}

/// Returns an evaluation batch: the first `count` items in file order, all if 0.
#[must_use]
pub fn eval_batch(part_size: usize, count: usize, seed: i64) -> Batch {
    let size = if count == 0 {
        part_size
    } else {
        count.min(part_size)
    };
    Batch {
        seed,
        items: (0..size).collect(),
    }
}

/// Returns the seeds of the micro-batches of an epoch for suites without items of their own.
#[must_use]
pub fn base_seeds(steps: usize, accumulation: usize, seed: i64) -> Vec<i64> {
    (0..steps.saturating_mul(accumulation))
        .map(|index| seed.wrapping_add(offset(index) + 1))
        .collect()
}

/// Returns [`base_seeds`] in the order of `epoch`.
#[must_use]
pub fn epoch_seeds(base: &[i64], seed: i64, epoch: i64) -> Vec<i64> {
    let mut seeds = base.to_vec();
    Mersenne::new(epoch_seed(seed, epoch)).shuffle(&mut seeds);
    seeds
}

/// Returns the size of the train part: `configured` if it is above 0, which must equal the loaded
/// size if items were loaded; else the loaded size.
///
/// # Errors
/// The two differ, or there is nothing to train on.
pub fn resolve_train_size(configured: usize, loaded: Option<usize>) -> Result<usize, LoadError> {
    let problem = match (configured, loaded) {
        (0, Some(0)) => "the train part has no items; add some or choose another split".to_owned(),
        (0, None) => "this benchmark loads no items, so the size must be given".to_owned(),
        (0, Some(size)) => return Ok(size),
        (size, Some(loaded)) if size != loaded => format!(
            "{size} is configured, but {loaded} items were loaded; set it to 0 to take what is there"
        ),
        (size, _) => return Ok(size),
    };
    Err(LoadError::setting("train_size", problem))
}

fn epoch_seed(seed: i64, epoch: i64) -> i64 {
    seed.wrapping_add(epoch.wrapping_mul(1000))
}

fn offset(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX - 1)
}
