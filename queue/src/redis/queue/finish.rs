//! Ends of leases. Those that wait while a call is under way go together in the next one.

use std::sync::Arc;

use ::redis::Cmd;
use skillopt_core::job::Key;
use tokio::sync::{mpsc, oneshot};

use super::pace::Pace;
use super::{Core, nonsense};
use crate::message::Ticket;
use crate::queue::Failure;
use crate::redis::reply;
use crate::redis::scripts::FINISH;
use crate::store::Error;

/// Ends that wait for their call; further ones wait for room.
pub(super) const WAITING_MAX: usize = 4_096;
/// Ends of one call, and their bytes.
const BATCH_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// What is told of each end in one text.
const HEAD_BYTES: usize = 1 + 32 + 7;
/// The name of these calls.
const SLOT: u32 = 0;

/// How a lease ends.
pub(super) enum End {
    /// With this result, as it is stored.
    Complete(Vec<u8>),
    Retry {
        delay: u64,
        cause: String,
    },
    Postpone {
        delay: u64,
        cause: String,
    },
    HandBack,
    GiveUp(Failure),
}

/// An end on its way, and who hears the answer.
pub(super) struct Item {
    key: Key,
    fence: u64,
    end: End,
    answer: oneshot::Sender<Result<u8, Error>>,
}

/// Ends a lease.
pub(super) async fn end(core: &Core, ticket: Ticket, end: End) -> Result<u8, Error> {
    let (answer, told) = oneshot::channel();
    let item = Item {
        key: ticket.key,
        fence: ticket.fence.0,
        end,
        answer,
    };
    let closed = || Error::Closed {
        place: core.link.place(),
    };
    core.ends.send(item).await.map_err(|_| closed())?;
    let answer = told.await.unwrap_or_else(|_| Err(closed()));
    if answer.is_ok() {
        core.held.forget(ticket.key, ticket.fence);
    }
    answer
}

/// Sends ends until the queue is dropped.
pub(super) async fn run(core: Arc<Core>, mut ended: mpsc::Receiver<Item>) {
    let mut items = Vec::new();
    let mut pace = Pace::default();
    while let Some(first) = ended.recv().await {
        // Others that end at the same moment go along.
        tokio::task::yield_now().await;
        pace.turn(1 + ended.len()).await;
        let mut bytes = first.bytes();
        items.push(first);
        while items.len() < BATCH_MAX
            && bytes < BATCH_BYTES_MAX
            && let Ok(item) = ended.try_recv()
        {
            bytes += item.bytes();
            items.push(item);
        }
        let answer = send(&core, &items).await;
        for (i, item) in items.drain(..).enumerate() {
            let answer = match &answer {
                Ok(answers) => answers
                    .get(i)
                    .copied()
                    .ok_or_else(|| nonsense(&core.link, "finish")),
                Err(error) => Err(error.clone()),
            };
            // Whoever asked may be gone; the end counts all the same.
            drop(item.answer.send(answer));
        }
    }
}

async fn send(core: &Core, items: &[Item]) -> Result<Vec<u8>, Error> {
    let mut cmd = core.link.begin(&FINISH);
    cmd.arg(core.store.keep_arg())
        .arg(core.client)
        .arg(SLOT)
        .arg(core.slots.number());
    let mut heads = Vec::with_capacity(items.len() * HEAD_BYTES);
    for item in items {
        item.head(&mut heads);
    }
    cmd.arg(heads);
    for item in items {
        item.write(&mut cmd);
    }
    let answer = core.link.send(&FINISH, &cmd).await?;
    Ok(reply::bytes(&answer).to_vec())
}

impl Item {
    fn bytes(&self) -> usize {
        match &self.end {
            End::Complete(entry) => entry.len(),
            End::Retry { cause, .. } | End::Postpone { cause, .. } => cause.len(),
            End::HandBack => 0,
            End::GiveUp(failure) => failure.cause.len() + failure.detail.len(),
        }
    }

    /// Writes how it ends, which job, and under which fence.
    fn head(&self, heads: &mut Vec<u8>) {
        heads.push(match &self.end {
            End::Complete(_) => b'C',
            End::Retry { .. } => b'R',
            End::Postpone { .. } => b'P',
            End::HandBack => b'H',
            End::GiveUp(_) => b'G',
        });
        heads.extend_from_slice(self.key.0.as_bytes());
        // A fence that takes more bytes was never granted, no more than 0 was.
        let fence = Some(self.fence).filter(|fence| fence >> 56 == 0);
        heads.extend_from_slice(&fence.unwrap_or(0).to_be_bytes()[1..]);
    }

    fn write(&self, cmd: &mut Cmd) {
        match &self.end {
            End::Complete(entry) => cmd.arg(entry),
            End::Retry { delay, cause } | End::Postpone { delay, cause } => {
                cmd.arg(delay).arg(cause)
            }
            End::HandBack => cmd,
            End::GiveUp(failure) => cmd.arg(&failure.cause).arg(&failure.detail[..]),
        };
    }
}
