//! Rigs on a server that the tests of this program share, each in a namespace of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use skillopt_queue::TestClock;
use skillopt_queue::conformance::{Rig, limits};
use skillopt_queue::redis::{Link, Options, RedisQueue, RedisStore};

/// Options of a namespace that nobody else uses.
pub(crate) fn options() -> Options {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Options {
        namespace: format!("skillopt:t{number}"),
        limits: limits(),
        ..Options::default()
    }
}

/// Opens a queue and its store.
pub(crate) async fn open(url: &str, options: Options) -> (RedisQueue, RedisStore) {
    let link = Link::open(url, options).await.unwrap();
    let store = RedisStore::new(link).unwrap();
    (RedisQueue::open(store.clone()).await.unwrap(), store)
}

/// A rig of the conformance suite.
pub(crate) async fn rig(url: &str) -> Rig {
    rig_with(url, options()).await
}

/// A rig with these options, and a clock of its own.
pub(crate) async fn rig_with(url: &str, options: Options) -> Rig {
    let clock = TestClock::new();
    let options = Options {
        clock: Some(Arc::new(clock.clone())),
        ..options
    };
    let (queue, store) = open(url, options).await;
    Rig {
        queue: Arc::new(queue),
        store: Arc::new(store),
        clock,
        keep: Box::new(()),
    }
}
