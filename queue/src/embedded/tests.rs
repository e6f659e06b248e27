use std::sync::Arc;

use super::*;
use crate::clock::TestClock;
use crate::conformance::{Rig, limits};
use crate::memory::MemoryStore;
use crate::sqlite::{Options, SqliteStore};

fn rig(backing: Backing, keep: Box<dyn std::any::Any + Send + Sync>) -> Rig {
    let clock = TestClock::new();
    let queue = EmbeddedQueue::new(backing, Arc::new(clock.clone()), limits());
    Rig {
        store: queue.store.clone(),
        queue: Arc::new(queue),
        clock,
        keep,
    }
}

mod in_memory {
    use super::*;

    async fn make() -> Rig {
        rig(MemoryStore::new().into(), Box::new(()))
    }

    crate::conformance!(make);
}

mod on_sqlite {
    use super::*;

    async fn make() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("s.db"), Options::default()).unwrap();
        rig(store.into(), Box::new(dir))
    }

    crate::conformance!(make);
}
