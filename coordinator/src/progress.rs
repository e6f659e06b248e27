//! What a person may watch while a run goes on. Never part of a result.

use std::sync::Arc;

/// One piece of news.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress<'a> {
    /// `n` more of the `of` rollouts of a stage are in; `n` is 0 when the stage begins.
    Rolled {
        /// Folder of the stage below the run folder.
        stage: &'a str,
        /// How many came in.
        n: usize,
        /// How many the stage has.
        of: usize,
    },
    /// The skill was not in a request of every task of a stage that an agent did.
    Unread {
        /// Folder of the stage below the run folder.
        stage: &'a str,
        /// In so many it was.
        read: usize,
        /// Tasks whose requests were seen.
        of: usize,
    },
    /// An optimizer call was sent.
    Asked {
        /// Its stage label.
        stage: &'a str,
    },
    /// An optimizer call was answered.
    Answered {
        /// Its stage label.
        stage: &'a str,
    },
    /// A commit event was written to the run's log.
    Committed(&'a crate::events::Event),
}

/// Somebody who is told; cheap to clone.
#[derive(Clone)]
pub struct Watcher(Arc<dyn Fn(Progress<'_>) + Send + Sync>);

impl Watcher {
    /// Tells `listener` everything. It is called from several threads and must be quick.
    #[must_use]
    pub fn new(listener: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// Tells nobody.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_| {})
    }

    pub(crate) fn tell(&self, news: Progress<'_>) {
        (self.0)(news);
    }
}
