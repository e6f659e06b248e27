//! Which folders are whole, and which may not be removed because somebody reads them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Folders of runs that nobody works on any more which are kept.
const KEPT_MAX: usize = 64;

/// The folders.
#[derive(Default)]
pub(super) struct Whole(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The oldest first.
    kept: VecDeque<Kept>,
    /// How many read each.
    readers: HashMap<String, usize>,
}

/// A folder that nobody works in.
struct Kept {
    id: String,
    /// Whether it shows everything; else it is made again for whoever asks for it.
    is_whole: bool,
}

/// Somebody reads or writes a folder: it is not removed before this is dropped.
pub struct Reading {
    of: Arc<Whole>,
    id: String,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut inner = self.of.lock();
        if let Some(n) = inner.readers.get_mut(&self.id) {
            *n -= 1;
            if *n == 0 {
                inner.readers.remove(&self.id);
            }
        }
    }
}

impl Whole {
    pub(super) fn read(self: &Arc<Self>, id: &str) -> Reading {
        *self.lock().readers.entry(id.to_owned()).or_default() += 1;
        Reading {
            of: Arc::clone(self),
            id: id.to_owned(),
        }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        let inner = self.lock();
        inner.kept.iter().any(|kept| kept.id == id && kept.is_whole)
    }

    /// Notes that nobody works in a folder any more, and whether it is whole; `clear` is told which
    /// ones have to go.
    pub(super) fn keep(&self, id: &str, is_whole: bool, clear: impl Fn(&str)) {
        let mut inner = self.lock();
        inner.kept.retain(|known| known.id != id);
        let id = id.to_owned();
        inner.kept.push_back(Kept { id, is_whole });
        let mut over = inner.kept.len().saturating_sub(KEPT_MAX);
        let last = inner.kept.len() - 1;
        let Inner { kept, readers } = &mut *inner;
        // Nobody may begin to read a folder while it goes, so this is done under the lock.
        let mut at = 0;
        kept.retain(|known| {
            let goes = over > 0 && at < last && !readers.contains_key(&known.id);
            at += 1;
            if goes {
                over -= 1;
                clear(&known.id);
            }
            !goes
        });
    }

    /// Forgets that a folder is whole, and has it cleared unless others than the caller, who reads
    /// it too, do.
    pub(super) fn remove(&self, id: &str, clear: impl Fn(&str)) {
        let mut inner = self.lock();
        inner.kept.retain(|known| known.id != id);
        if inner.readers.get(id).is_none_or(|n| *n <= 1) {
            clear(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_read_stays() {
        let whole = Arc::new(Whole::default());
        let gone = Mutex::new(Vec::new());
        let clear = |id: &str| gone.lock().unwrap().push(id.to_owned());
        whole.keep("0", true, clear);
        let reading = whole.read("0");
        for n in 1..=KEPT_MAX {
            whole.keep(&n.to_string(), true, clear);
        }
        assert_eq!(*gone.lock().unwrap(), ["1"]);
        let other = whole.read("0");
        whole.remove("0", clear);
        assert_eq!(*gone.lock().unwrap(), ["1"]);
        drop(other);
        whole.remove("0", clear);
        assert_eq!(*gone.lock().unwrap(), ["1", "0"]);
        drop(reading);
        assert!(whole.lock().readers.is_empty());
        whole.keep("0", true, clear);
        assert_eq!(*gone.lock().unwrap(), ["1", "0",]);
        whole.keep("new", false, clear);
        assert_eq!(*gone.lock().unwrap(), ["1", "0", "2"]);
        assert_eq!((whole.has("0"), whole.has("new")), (true, false));
    }
}
