//! Items in three parts: reading, cutting, shuffling and batching them (training spec 1.15).

mod item;
mod load;
mod mersenne;
mod part;
pub mod plan;
mod ratio;
pub mod read;
mod sample;
pub(crate) mod write;

pub use item::{Item, check_unique, safe_folder_name};
pub(crate) use load::from_files;
pub use load::{Format, Loaded, keep, keep_raw, load, one_raw_file};
pub use mersenne::{Mersenne, shuffled};
pub use part::Part;
pub use plan::{
    Batch, EpochPlan, base_seeds, epoch_seeds, eval_batch, resolve_train_size, train_batch,
};
pub use ratio::Ratio;
pub use sample::{Candidate, representative};
pub use write::Generated;

/// The three parts of a benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Splits {
    /// What rollouts of a training step draw from.
    pub train: Vec<Item>,
    /// What the gate looks at.
    pub val: Vec<Item>,
    /// Sealed until the end of the run.
    pub test: Vec<Item>,
}

impl Splits {
    /// Returns the items of a part.
    #[must_use]
    pub fn part(&self, part: Part) -> &[Item] {
        match part {
            Part::Train => &self.train,
            Part::Val => &self.val,
            Part::Test => &self.test,
        }
    }

    /// Keeps the first `count` items of every part; 0 keeps all.
    pub fn limit(&mut self, count: usize) {
        if count > 0 {
            for part in Part::ALL {
                self.part_mut(part).truncate(count);
            }
        }
    }

    pub(crate) fn part_mut(&mut self, part: Part) -> &mut Vec<Item> {
        match part {
            Part::Train => &mut self.train,
            Part::Val => &mut self.val,
            Part::Test => &mut self.test,
        }
    }
}

#[cfg(test)]
mod tests;
