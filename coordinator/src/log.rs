//! Writing and reading the log of a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skillopt_queue::{RunId, Store};

use crate::events::{Event, decode};
use crate::halt::Halt;
use crate::progress::{Progress, Watcher};

/// The log of one run.
pub struct Log {
    store: Arc<dyn Store>,
    run: RunId,
    next: AtomicU64,
    watcher: Watcher,
}

impl Log {
    /// Opens the log at its beginning; events that are there are compared, not written twice.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, run: RunId, watcher: Watcher) -> Self {
        Self {
            store,
            run,
            next: AtomicU64::new(0),
            watcher,
        }
    }

    /// Writes the next event.
    ///
    /// # Errors
    /// The store cannot be written, or the log has another event in this place.
    pub async fn commit(&self, event: Event) -> Result<(), Halt> {
        let bytes = serde_json::to_vec(&event).map_err(Halt::infrastructure)?;
        let seq = self.next.fetch_add(1, Ordering::Relaxed);
        match self.store.append_event(&self.run, seq, bytes.into()).await {
            Ok(()) => {}
            Err(skillopt_queue::store::Error::Conflict { .. }) => {
                return Err(Halt::Failed(format!(
                    "this run went another way before: event {seq} (`{}`) of its log has other numbers. \
                     The program or its data changed since; start a new run with another --out",
                    event.kind
                )));
            }
            Err(e) => return Err(Halt::infrastructure(e)),
        }
        self.watcher.tell(Progress::Committed(&event));
        Ok(())
    }
}

/// Reads a run's log from its store.
///
/// # Errors
/// The store cannot be read, or an event is damaged.
pub async fn read(store: &dyn Store, run: &RunId) -> Result<Vec<Event>, Halt> {
    let mut events = Vec::new();
    loop {
        let page = store
            .events(run, events.len() as u64, 256)
            .await
            .map_err(Halt::infrastructure)?;
        if page.is_empty() {
            return Ok(events);
        }
        for bytes in page {
            events.push(decode(&bytes)?);
        }
    }
}
