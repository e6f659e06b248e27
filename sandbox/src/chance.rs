//! Numbers for names.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Returns a number that a program inside cannot guess.
pub(crate) fn random() -> u64 {
    // The standard library keys its hashes with the system's random numbers.
    RandomState::new().build_hasher().finish()
}
