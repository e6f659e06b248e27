//! What a worker is told when it is made.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use skillopt_core::capability::Kind;
use skillopt_queue::Lane;

use crate::offers;

/// Whom a worker works with, which decides what it does about troubles that are not its jobs'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The only worker of a queue in this process: trouble with the queue or in the worker ends
    /// the run, which says so.
    Alone,
    /// One of many: it waits for a queue that is away, and leaves jobs to others when it is sick.
    Cluster,
}

/// What a worker needs to be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in evidence and lists: unique, also after a restart.
    pub name: Arc<str>,
    /// Version of the program, for lists.
    pub program: String,
    /// Jobs that it runs at the same time, by kind.
    pub slots: BTreeMap<Kind, usize>,
    /// The lanes whose jobs it takes.
    pub lanes: Vec<Lane>,
    /// How long a lease lasts unless renewed.
    pub lease_ttl: Duration,
    /// Memory for items, skills and prompts, in bytes.
    pub cache_bytes: usize,
    /// How long jobs under way may take to finish once it drains; then they are handed back.
    pub drain: Duration,
    /// The folder of temporary files, if it has to be writable.
    pub scratch: Option<PathBuf>,
    /// How often it looks at itself.
    pub check_every: Duration,
    /// Whom it works with.
    pub place: Place,
}

impl Settings {
    /// How long the place of large values may be away before jobs are left to workers that may reach
    /// it.
    pub(crate) fn away_max(&self) -> Duration {
        self.lease_ttl.saturating_mul(2)
    }

    /// Returns the settings of the worker of one process, with `slots` slots and jobs for the
    /// given backends.
    #[must_use]
    pub fn local(slots: usize, backends: &[&str]) -> Self {
        let lanes = offers::lanes(backends);
        let kinds = lanes.iter().map(offers::kind);
        Self {
            name: "local".into(),
            program: String::new(),
            slots: kinds.map(|kind| (kind, slots.max(1))).collect(),
            lanes,
            lease_ttl: Duration::from_secs(60),
            cache_bytes: 8 << 20,
            // Whoever started the process decides how long it waits.
            drain: Duration::MAX,
            scratch: None,
            check_every: Duration::from_secs(30),
            place: Place::Alone,
        }
    }

    /// Returns the settings of a worker of a cluster.
    #[must_use]
    pub fn cluster(name: &str, slots: BTreeMap<Kind, usize>, backends: &[&str]) -> Self {
        let mut lanes = offers::lanes(backends);
        lanes.retain(|lane| slots.get(&offers::kind(lane)).is_some_and(|n| *n > 0));
        Self {
            name: name.into(),
            slots,
            lanes,
            lease_ttl: Duration::from_secs(30),
            cache_bytes: 64 << 20,
            drain: Duration::from_secs(25),
            scratch: Some(std::env::temp_dir()),
            place: Place::Cluster,
            ..Self::local(1, &[])
        }
    }
}
