//! Jobs on their way into the queue. Submissions that wait while a call is under way go together
//! in the next one.

use std::collections::HashSet;
use std::sync::Arc;

use ::redis::{Cmd, Value};
use skillopt_core::job::Key;
use tokio::sync::{mpsc, oneshot};

use super::inbox::deliver;
use super::pace::Pace;
use super::{Core, nonsense, time_arg};
use crate::message::Enqueue;
use crate::notice::{Mailbox, Notices};
use crate::queue::{Error, JOB_BYTES_MAX};
use crate::redis::codec;
use crate::redis::reply::{self, Reader};
use crate::redis::scripts::{FITS, SUBMIT};
use crate::store;

/// Submissions that wait for their call; further ones wait for room.
pub(super) const WAITING_MAX: usize = 64;
/// Jobs of one call, and about how many bytes: the server does nothing else meanwhile.
const BATCH_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 4 << 20;
/// The name of these calls.
const SLOT: u32 = 1;

/// A part of a submission on its way.
pub(super) struct Item {
    jobs: Vec<Enqueue>,
    /// Whether none is taken if not all fit.
    must_fit: bool,
    answer: oneshot::Sender<Result<Answer, store::Error>>,
}

/// What became of it.
enum Answer {
    /// For each job its number, or `None` if its result is stored.
    Taken(Vec<Option<u64>>),
    Full {
        new: usize,
        present: usize,
    },
}

/// Expects nothing any more unless the submission came through, also when its future is dropped.
struct Guard<'a> {
    core: &'a Core,
    mailbox: Option<Arc<Mailbox>>,
    keys: Vec<Key>,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            self.core.waiting.abandon(mailbox, &self.keys);
        }
    }
}

pub(super) async fn submit(core: &Core, mut jobs: Vec<Enqueue>) -> Result<Notices, Error> {
    if let Some(job) = jobs.iter().find(|job| job.job.len() > JOB_BYTES_MAX) {
        return Err(Error::JobTooLarge {
            key: job.key,
            bytes: job.job.len(),
            max: JOB_BYTES_MAX,
        });
    }
    let mut seen = HashSet::with_capacity(jobs.len());
    jobs.retain(|job| seen.insert(job.key));
    drop(seen);
    let mailbox = Mailbox::new(jobs.len());
    let notices = Notices::new(mailbox.clone(), Arc::new(core.store.clone()));
    core.waiting.expect(&jobs, &mailbox);
    let mut guard = Guard {
        core,
        mailbox: Some(mailbox.clone()),
        keys: jobs.iter().map(|job| job.key).collect(),
    };
    let must_fit = part(&jobs) == jobs.len();
    if !must_fit {
        fits(core, &guard.keys).await?;
    }
    let mut stored = Vec::new();
    while !jobs.is_empty() {
        let rest = jobs.split_off(part(&jobs));
        let part = std::mem::replace(&mut jobs, rest);
        stored.extend(send(core, part, must_fit, &mailbox).await?);
    }
    deliver(core, &stored).await?;
    guard.mailbox = None;
    Ok(notices)
}

/// How many of the jobs go in one call.
fn part(jobs: &[Enqueue]) -> usize {
    let mut bytes = 0;
    let fits = |job: &&Enqueue| {
        bytes += job.job.len();
        bytes <= BATCH_BYTES_MAX
    };
    jobs.iter().take(BATCH_MAX).take_while(fits).count()
}

/// Submits a job that the queue has lost.
pub(super) async fn again(
    core: &Core,
    job: Enqueue,
    mailbox: &Arc<Mailbox>,
) -> Result<(), store::Error> {
    match send(core, vec![job], false, mailbox).await {
        Ok(stored) => deliver(core, &stored).await,
        Err(Error::Store(error)) => Err(error),
        Err(_) => Ok(()),
    }
}

/// Sends a part of a submission; returns those jobs whose results are stored.
async fn send(
    core: &Core,
    jobs: Vec<Enqueue>,
    must_fit: bool,
    mailbox: &Arc<Mailbox>,
) -> Result<Vec<Key>, Error> {
    let keys: Vec<Key> = jobs.iter().map(|job| job.key).collect();
    let (answer, told) = oneshot::channel();
    let closed = || store::Error::Closed {
        place: core.link.place(),
    };
    let item = Item {
        jobs,
        must_fit,
        answer,
    };
    core.submissions.send(item).await.map_err(|_| closed())?;
    match told.await.map_err(|_| closed())?? {
        Answer::Full { new, present } => Err(full(core, new, present)),
        Answer::Taken(numbers) => {
            let numbered = keys.iter().zip(&numbers);
            let queued = numbered
                .clone()
                .filter_map(|(key, seq)| Some((*key, (*seq)?)));
            core.waiting.numbered(mailbox, queued);
            Ok(numbered
                .filter(|(_, seq)| seq.is_none())
                .map(|(key, _)| *key)
                .collect())
        }
    }
}

/// Refuses more jobs than there is room for, before the first part of them is sent.
async fn fits(core: &Core, keys: &[Key]) -> Result<(), Error> {
    let mut cmd = core.link.begin(&FITS);
    for key in keys {
        cmd.arg(key.0.as_bytes());
    }
    let answer = reply::list(core.link.send(&FITS, &cmd).await?);
    let count = |i: usize| {
        answer
            .get(i)
            .and_then(reply::count)
            .and_then(|n| usize::try_from(n).ok())
    };
    let (Some(new), Some(present)) = (count(0), count(1)) else {
        return Err(nonsense(&core.link, "fits").into());
    };
    let max = core.link.options().limits.jobs_max;
    if new > max.saturating_sub(present) {
        return Err(full(core, new, present));
    }
    Ok(())
}

fn full(core: &Core, new: usize, present: usize) -> Error {
    Error::QueueFull {
        new,
        present,
        max: core.link.options().limits.jobs_max,
    }
}

/// Sends submissions until the queue is dropped.
pub(super) async fn run(core: Arc<Core>, mut submitted: mpsc::Receiver<Item>) {
    let mut next = None;
    let mut pace = Pace::default();
    loop {
        let Some(first) = (match next.take() {
            Some(item) => Some(item),
            None => submitted.recv().await,
        }) else {
            return;
        };
        let mut jobs = first.jobs.len();
        pace.turn(jobs + submitted.len()).await;
        let mut items = vec![first];
        while let Ok(item) = submitted.try_recv() {
            jobs += item.jobs.len();
            if jobs > BATCH_MAX {
                next = Some(item);
                break;
            }
            items.push(item);
        }
        let answers = call(&core, &items).await;
        match answers {
            Ok(answers) => {
                for (item, answer) in items.into_iter().zip(answers) {
                    drop(item.answer.send(Ok(answer)));
                }
            }
            Err(error) => {
                for item in items {
                    drop(item.answer.send(Err(error.clone())));
                }
            }
        }
    }
}

async fn call(core: &Core, items: &[Item]) -> Result<Vec<Answer>, store::Error> {
    let mut cmd = core.link.begin(&SUBMIT);
    cmd.arg(core.link.options().limits.jobs_max)
        .arg(core.client)
        .arg(SLOT)
        .arg(core.slots.number())
        .arg(items.len());
    let mut text = Vec::new();
    for item in items {
        item.write(&mut cmd, &mut text);
    }
    let answers = reply::list(core.link.send(&SUBMIT, &cmd).await?);
    let read = items
        .iter()
        .zip(answers)
        .map(|(item, answer)| item.read(answer));
    let read = read
        .collect::<Option<Vec<_>>>()
        .filter(|read| read.len() == items.len());
    read.ok_or_else(|| nonsense(&core.link, "submit"))
}

/// Whether two jobs are told with one head.
fn is_alike(a: &Enqueue, b: &Enqueue) -> bool {
    a.lane == b.lane && a.priority == b.priority && a.run == b.run && a.not_before == b.not_before
}

impl Item {
    fn write(&self, cmd: &mut Cmd, text: &mut Vec<u8>) {
        let segments = || self.jobs.chunk_by(is_alike);
        cmd.arg(self.jobs.len())
            .arg(u8::from(self.must_fit))
            .arg(segments().count());
        for segment in segments() {
            let head = &segment[0];
            cmd.arg(head.lane.as_str())
                .arg(head.priority.level())
                .arg(head.run.as_str())
                .arg(head.not_before.map_or(0, time_arg))
                .arg(segment.len());
            for job in segment {
                text.clear();
                codec::pack(&job.job, text);
                cmd.arg(job.key.0.as_bytes()).arg(&text[..]);
            }
        }
    }

    fn read(&self, answer: Value) -> Option<Answer> {
        if let Value::Array(counts) = &answer {
            let count = |i: usize| usize::try_from(reply::count(counts.get(i)?)?).ok();
            return Some(Answer::Full {
                new: count(0)?,
                present: count(1)?,
            });
        }
        let mut reader = Reader(reply::bytes(&answer));
        let number = |_: &Enqueue| {
            let kind = reader.number(1)?;
            let seq = reader.number(7)?;
            Some((kind == u64::from(b'Q')).then_some(seq))
        };
        let numbers = self.jobs.iter().map(number).collect::<Option<Vec<_>>>()?;
        Some(Answer::Taken(numbers))
    }
}
