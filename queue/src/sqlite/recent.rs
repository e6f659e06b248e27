//! Blobs that were stored or read lately, in bounded memory: what a run stores now, its workers
//! read next.

use std::collections::HashMap;

use bytes::Bytes;
use skillopt_core::hash::Hash;

/// Memory for blobs, in bytes; half of it may be older than the last change of generations.
const BYTES_MAX: usize = 4 << 20;

/// Two generations of blobs: when the young one is full, the old one goes.
#[derive(Default)]
pub(super) struct Recent {
    young: HashMap<Hash, Bytes>,
    old: HashMap<Hash, Bytes>,
    young_bytes: usize,
}

impl Recent {
    pub(super) fn get(&self, hash: &Hash) -> Option<Bytes> {
        self.young.get(hash).or_else(|| self.old.get(hash)).cloned()
    }

    pub(super) fn put(&mut self, hash: Hash, blob: Bytes) {
        let size = blob.len();
        if size > BYTES_MAX / 4 {
            return;
        }
        if self.young_bytes + size > BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(hash, blob).is_none() {
            self.young_bytes += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_large_blobs_stay_out() {
        let mut recent = Recent::default();
        let hash = |i: usize| Hash::of(&i.to_le_bytes());
        for i in 0..100 {
            recent.put(hash(i), vec![0; 1 << 20].into());
        }
        let kept = (0..100).filter(|&i| recent.get(&hash(i)).is_some()).count();
        assert!((2..=4).contains(&kept), "{kept} MiB of 4 are kept");
        assert!(recent.get(&hash(99)).is_some(), "the last one is there");
        recent.put(hash(200), vec![0; 3 << 20].into());
        assert!(recent.get(&hash(200)).is_none());
    }
}
