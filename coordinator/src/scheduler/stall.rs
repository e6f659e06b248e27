//! Jobs that no worker can take because the store has no room: it hands out no leases then, and no
//! word of that comes by itself.

use std::sync::Arc;

use bytes::Bytes;
use skillopt_core::job::Key;
use skillopt_queue::queue::JobState;
use skillopt_queue::store;

use super::machine::InQueue;
use super::shared::Shared;

/// Jobs whose places are asked for in one call.
const STATES_CHUNK: usize = 1_024;
/// A blob that is written to see whether there is room. The same one each time.
const PROBE: &[u8] = b"skillopt: is there room?";

/// Jobs that cannot go on.
pub(super) struct Stuck {
    /// The jobs.
    pub(super) jobs: Vec<InQueue>,
    /// What the store says.
    pub(super) cause: String,
}

/// Returns the jobs in the queue that cannot be taken, if the store has no room.
pub(super) async fn look(shared: &Arc<Shared>) -> Option<Stuck> {
    let room = shared.store.put_blob(Bytes::from_static(PROBE)).await;
    let Err(error @ store::Error::Full { .. }) = room else {
        return None;
    };
    let released = shared.lock().machine.in_queue();
    let mut jobs = Vec::new();
    for part in released.chunks(STATES_CHUNK) {
        let keys: Vec<Key> = part.iter().map(|job| job.key).collect();
        // It is looked again.
        let states = shared.queue.states(&keys).await.ok()?;
        let is_idle = |state: &JobState| matches!(state, JobState::Waiting { .. });
        let idle = part.iter().zip(&states).filter(|(_, state)| is_idle(state));
        jobs.extend(idle.map(|(job, _)| job.clone()));
    }
    (!jobs.is_empty()).then(|| Stuck {
        jobs,
        cause: error.to_string(),
    })
}
