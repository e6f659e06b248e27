//! The jobs whose ends this process waits for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::job::Key;
use tokio::time::Instant;

use crate::message::{Enqueue, RunId};
use crate::notice::{Ended, Mailbox, Post};
use crate::queue::{DeadLetter, Which};

/// By job, everyone in this process who waits for it.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<Key, Job>>);

struct Job {
    waits: Vec<Wait>,
    /// When the queue last said that it has the job; `None` while it is being submitted.
    known_at: Option<Instant>,
    /// Whether the queue said last time that it does not know the job.
    is_missed: bool,
}

struct Wait {
    mailbox: Arc<Mailbox>,
    job: Enqueue,
    /// The job's number in the queue, once it is known.
    seq: Option<u64>,
    /// Ends that were told before the number was known.
    early: Vec<(u64, Ended)>,
    /// Whether this process has withdrawn it.
    is_withdrawn: bool,
}

impl Waiting {
    /// Expects the end of jobs, before they are submitted.
    pub(super) fn expect(&self, jobs: &[Enqueue], mailbox: &Arc<Mailbox>) {
        let mut all = self.lock();
        for job in jobs {
            let entry = all.entry(job.key).or_insert_with(|| Job {
                waits: Vec::with_capacity(1),
                known_at: None,
                is_missed: false,
            });
            entry.waits.push(Wait {
                mailbox: mailbox.clone(),
                job: job.clone(),
                seq: None,
                early: Vec::new(),
                is_withdrawn: false,
            });
        }
    }

    /// Notes the numbers that the queue gave to jobs.
    pub(super) fn numbered(
        &self,
        mailbox: &Arc<Mailbox>,
        numbers: impl Iterator<Item = (Key, u64)>,
    ) {
        let now = Instant::now();
        let mut told = Vec::new();
        {
            let mut all = self.lock();
            for (key, seq) in numbers {
                let Some(job) = all.get_mut(&key) else {
                    continue;
                };
                job.known_at = Some(now);
                job.is_missed = false;
                let is_ours = |wait: &&mut Wait| Arc::ptr_eq(&wait.mailbox, mailbox);
                let Some(wait) = job.waits.iter_mut().find(is_ours) else {
                    continue;
                };
                wait.seq = Some(seq);
                let early = std::mem::take(&mut wait.early);
                if let Some((_, ended)) = early.into_iter().find(|(number, _)| *number == seq) {
                    job.waits
                        .retain(|wait| !Arc::ptr_eq(&wait.mailbox, mailbox));
                    told.push((key, ended));
                }
                if job.waits.is_empty() {
                    all.remove(&key);
                }
            }
        }
        for (key, ended) in told {
            mailbox.put(key, ended);
        }
    }

    /// Expects nothing for this mailbox any more.
    pub(super) fn abandon(&self, mailbox: &Arc<Mailbox>, keys: &[Key]) {
        let mut all = self.lock();
        for key in keys {
            if let Some(job) = all.get_mut(key) {
                job.waits
                    .retain(|wait| !Arc::ptr_eq(&wait.mailbox, mailbox));
                if job.waits.is_empty() {
                    all.remove(key);
                }
            }
        }
    }

    /// Those of the keys that somebody waits for.
    pub(super) fn wanted(&self, keys: impl Iterator<Item = Key>) -> Vec<Key> {
        let all = self.lock();
        keys.filter(|key| all.contains_key(key)).collect()
    }

    /// Ends jobs for everyone who waits for them; `None` is a result that has to be read from the
    /// store. A stored result is true for whoever asks.
    pub(super) fn results(&self, found: impl Iterator<Item = (Key, Option<Bytes>)>) {
        let mut post = Post::default();
        {
            let mut all = self.lock();
            for (key, result) in found {
                let job = all.remove(&key);
                for wait in job.into_iter().flat_map(|job| job.waits) {
                    post.add(wait.mailbox, key, result.clone().map(Ended::Result));
                }
            }
        }
        post.deliver();
    }

    /// Tells that the job with this number is dead.
    pub(super) fn failed(&self, key: Key, seq: u64, letter: &Arc<DeadLetter>) {
        self.end(key, seq, &Ended::Failed(letter.clone()), |_| true);
    }

    /// Tells that a run has withdrawn the job with this number.
    pub(super) fn cancelled(&self, key: Key, seq: u64, run: &RunId) {
        self.end(key, seq, &Ended::Cancelled, |wait| wait.job.run == *run);
    }

    fn end(&self, key: Key, seq: u64, ended: &Ended, is_meant: impl Fn(&Wait) -> bool) {
        let mut told = Vec::new();
        {
            let mut all = self.lock();
            let Some(job) = all.get_mut(&key) else {
                return;
            };
            for wait in job.waits.iter_mut().filter(|wait| is_meant(wait)) {
                if wait.seq.is_none() {
                    wait.early.push((seq, ended.clone()));
                }
            }
            let is_over = |wait: &mut Wait| wait.seq == Some(seq) && is_meant(wait);
            told.extend(job.waits.extract_if(.., is_over));
            if job.waits.is_empty() {
                all.remove(&key);
            }
        }
        for wait in told {
            wait.mailbox.put(key, ended.clone());
        }
    }

    /// Remembers what this process withdraws, should the notice get lost.
    pub(super) fn withdraw(&self, run: &RunId, which: Which<'_>) {
        let mut all = self.lock();
        let mark = |job: &mut Job| {
            for wait in job.waits.iter_mut().filter(|wait| wait.job.run == *run) {
                wait.is_withdrawn = true;
            }
        };
        match which {
            Which::All => all.values_mut().for_each(mark),
            // Which these are only the server knows; whoever waits asks after them in time.
            Which::Idle => {}
            Which::Keys(keys) => {
                for key in keys {
                    if let Some(job) = all.get_mut(key) {
                        mark(job);
                    }
                }
            }
        }
    }

    /// Jobs of which nothing was heard for `silence`.
    pub(super) fn silent(&self, silence: Duration) -> Vec<Key> {
        let all = self.lock();
        let is_silent = |job: &Job| {
            let is_heard = |wait: &Wait| !wait.mailbox.is_closed();
            job.known_at.is_some_and(|at| at.elapsed() >= silence) && job.waits.iter().any(is_heard)
        };
        let silent = all.iter().filter(|(_, job)| is_silent(job));
        silent.map(|(key, _)| *key).collect()
    }

    /// Notes that the queue has a job.
    pub(super) fn known(&self, key: Key) {
        if let Some(job) = self.lock().get_mut(&key) {
            job.known_at = Some(Instant::now());
            job.is_missed = false;
        }
    }

    /// Tells that a job is dead, whatever its number.
    pub(super) fn found_dead(&self, key: Key, letter: &Arc<DeadLetter>) {
        let seqs: Vec<u64> = {
            let all = self.lock();
            let waits = all.get(&key).into_iter().flat_map(|job| &job.waits);
            waits.filter_map(|wait| wait.seq).collect()
        };
        for seq in seqs {
            self.failed(key, seq, letter);
        }
    }

    /// Notes that the queue does not know a job; returns what to submit again. The first time
    /// nothing is done: the notice may be on its way.
    pub(super) fn missed(&self, key: Key) -> Vec<(Enqueue, Arc<Mailbox>)> {
        let mut withdrawn = Vec::new();
        let again = {
            let mut all = self.lock();
            let Some(job) = all.get_mut(&key) else {
                return Vec::new();
            };
            if !std::mem::replace(&mut job.is_missed, true) {
                return Vec::new();
            }
            withdrawn.extend(job.waits.extract_if(.., |wait| wait.is_withdrawn));
            let again = job.waits.iter().filter(|wait| !wait.mailbox.is_closed());
            let again = again
                .map(|wait| (wait.job.clone(), wait.mailbox.clone()))
                .collect();
            if job.waits.is_empty() {
                all.remove(&key);
            }
            again
        };
        for wait in withdrawn {
            wait.mailbox.put(key, Ended::Cancelled);
        }
        again
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
