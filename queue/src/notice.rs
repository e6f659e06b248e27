//! How a run hears that its jobs have ended.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use skillopt_core::job::Key;
use tokio::sync::Notify;

use crate::dead_letter::DeadLetter;
use crate::store::{self, Store};

/// Results that wait unread in one [`Notices`] take at most this many bytes; later ones are read
/// back from the store when their turn comes.
pub const UNREAD_BYTES_MAX: usize = 16 << 20;

/// The end of one job.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The job.
    pub key: Key,
    /// How it ended.
    pub ended: Ended,
}

/// How a job ended for the run that asked.
#[derive(Clone, Debug)]
pub enum Ended {
    /// The stored result: the first one written, by whomever.
    Result(Bytes),
    /// A worker gave up, or the job cost too many workers their lease. It is in the dead letters;
    /// submitting it again starts it afresh.
    Failed(Arc<DeadLetter>),
    /// The run withdrew it.
    Cancelled,
}

/// The notices of one submission: one per distinct job, in the order of their ends.
///
/// Dropping it does not stop the jobs; see [`crate::Queue::cancel`] for that.
pub struct Notices {
    mailbox: Arc<Mailbox>,
    store: Arc<dyn Store>,
    /// Taken from the mailbox, not yet given out. Kept here so that a dropped `next` loses nothing.
    taken: Vec<Unread>,
}

impl Notices {
    /// Joins the receiving end to the mailbox that a queue fills.
    #[must_use]
    pub fn new(mailbox: Arc<Mailbox>, store: Arc<dyn Store>) -> Self {
        Self {
            mailbox,
            store,
            taken: Vec::new(),
        }
    }

    /// Returns how many jobs of the submission have not been reported yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        let inner = self.mailbox.lock();
        inner.expected + inner.unread.len() + self.taken.len()
    }

    /// Waits for news and returns what there is, at most `max` notices (at least 1). Returns an
    /// empty list when every job of the submission has been reported.
    ///
    /// # Errors
    /// If a result has to be read back and the store cannot, or has lost it. The notice is kept
    /// for the next call.
    ///
    /// # Cancel safety
    /// A dropped call loses nothing.
    pub async fn next(&mut self, max: usize) -> Result<Vec<Notice>, store::Error> {
        if self.taken.is_empty() {
            self.taken = self.mailbox.take(max.max(1)).await;
        }
        let spilled: Vec<Key> = self
            .taken
            .iter()
            .filter(|u| u.ended.is_none())
            .map(|u| u.key)
            .collect();
        if !spilled.is_empty() {
            let mut found = self.store.results(&spilled).await?.into_iter();
            for unread in self.taken.iter_mut().filter(|u| u.ended.is_none()) {
                let Some(result) = found.next().flatten() else {
                    return Err(store::Error::Lost {
                        what: format!("result `{}`", unread.key),
                    });
                };
                unread.ended = Some(Ended::Result(result));
            }
        }
        let notice = |unread: Unread| {
            Some(Notice {
                key: unread.key,
                ended: unread.ended?,
            })
        };
        Ok(std::mem::take(&mut self.taken)
            .into_iter()
            .filter_map(notice)
            .collect())
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let mut inner = self.mailbox.lock();
        inner.is_closed = true;
        inner.unread.clear();
    }
}

/// The end of a job whose result may have been left in the store.
struct Unread {
    key: Key,
    /// `None`: a result to be read from the store.
    ended: Option<Ended>,
}

/// The sending side of [`Notices`], for implementations of [`crate::Queue`].
pub struct Mailbox {
    inner: Mutex<Inner>,
    news: Notify,
}

#[derive(Default)]
struct Inner {
    unread: VecDeque<Unread>,
    unread_bytes: usize,
    /// Jobs whose end has not been put here yet.
    expected: usize,
    is_closed: bool,
}

impl Mailbox {
    /// Makes a mailbox for the ends of `expected` jobs.
    #[must_use]
    pub fn new(expected: usize) -> Arc<Self> {
        let inner = Inner {
            expected,
            ..Inner::default()
        };
        Arc::new(Self {
            inner: Mutex::new(inner),
            news: Notify::new(),
        })
    }

    /// Puts the end of one job.
    pub fn put(&self, key: Key, ended: Ended) {
        self.push(key, Some(ended));
    }

    /// Puts the end of a job whose result has to be read from the store.
    pub fn put_stored(&self, key: Key) {
        self.push(key, None);
    }

    /// Whether nobody will read any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    fn push(&self, key: Key, ended: Option<Ended>) {
        self.push_all([Unread { key, ended }]);
    }

    fn push_all(&self, ends: impl IntoIterator<Item = Unread>) {
        {
            let mut inner = self.lock();
            for Unread { key, ended } in ends {
                inner.expected = inner.expected.saturating_sub(1);
                if inner.is_closed {
                    continue;
                }
                let ended = match ended {
                    Some(Ended::Result(result)) => inner.keep(result),
                    other => other,
                };
                inner.unread.push_back(Unread { key, ended });
            }
        }
        self.news.notify_one();
    }

    async fn take(&self, max: usize) -> Vec<Unread> {
        loop {
            {
                let mut inner = self.lock();
                if !inner.unread.is_empty() || inner.expected == 0 {
                    return inner.take(max);
                }
            }
            self.news.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The critical sections cannot panic half-way, so a poisoned lock is still consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends on their way into mailboxes. Each mailbox gets its own at once, so that whoever reads it
/// wakes once for all of them.
#[derive(Default)]
pub struct Post {
    bags: Vec<(Arc<Mailbox>, Vec<Unread>)>,
    /// By mailbox, its place in `bags`.
    places: HashMap<*const Mailbox, usize>,
}

impl Post {
    /// Adds the end of a job; `None` stands for a result that has to be read from the store.
    pub fn add(&mut self, to: Arc<Mailbox>, key: Key, ended: Option<Ended>) {
        let next = self.bags.len();
        let place = *self.places.entry(Arc::as_ptr(&to)).or_insert(next);
        if place == next {
            self.bags.push((to, Vec::new()));
        }
        if let Some((_, bag)) = self.bags.get_mut(place) {
            bag.push(Unread { key, ended });
        }
    }

    /// Puts all that was added into its mailboxes.
    pub fn deliver(self) {
        for (mailbox, ends) in self.bags {
            mailbox.push_all(ends);
        }
    }
}

impl Inner {
    /// Keeps a result in memory if there is room for it.
    fn keep(&mut self, result: Bytes) -> Option<Ended> {
        let bytes = self.unread_bytes.saturating_add(result.len());
        if bytes > UNREAD_BYTES_MAX {
            return None;
        }
        self.unread_bytes = bytes;
        Some(Ended::Result(result))
    }

    fn take(&mut self, max: usize) -> Vec<Unread> {
        let count = max.min(self.unread.len());
        let taken: Vec<Unread> = self.unread.drain(..count).collect();
        for unread in &taken {
            if let Some(Ended::Result(result)) = &unread.ended {
                self.unread_bytes = self.unread_bytes.saturating_sub(result.len());
            }
        }
        taken
    }
}
