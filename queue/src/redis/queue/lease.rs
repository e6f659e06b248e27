//! Waiting for work, and taking it.

use std::time::Duration;

use ::redis::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::bell::{self, Ring};

use super::slots::Slot;
use super::{Core, nonsense, to_ms};
use crate::clock::Timestamp;
use crate::message::{Fence, Leased, Ticket, Want};
use crate::queue::{Error, JOB_BYTES_MAX};
use crate::redis::codec;
use crate::redis::letter::key_of;
use crate::redis::reply::{self, Reader};
use crate::redis::scripts::LEASE;
use crate::store;

/// Jobs of one call.
const BATCH_MAX: usize = 512;
/// Longest wait before another look: for rings that got lost, and leases of dead workers.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Longest name of a worker, in bytes.
const WORKER_BYTES_MAX: usize = 255;

/// What a look found.
enum Look {
    Jobs(Vec<Leased>),
    /// Nothing: in how many milliseconds something is due, and the last ring before the look.
    Nothing {
        due_in: Option<u64>,
        rung: Ring,
    },
}

pub(super) async fn lease(
    core: &Core,
    want: Want,
    drain: &CancellationToken,
) -> Result<Vec<Leased>, Error> {
    if want.max == 0 || want.lanes.is_empty() || drain.is_cancelled() {
        return Ok(Vec::new());
    }
    let slot = core.slots.take();
    let mut waiter = None;
    loop {
        let (due_in, rung) = match look(core, &want, &slot).await {
            Ok(Look::Jobs(jobs)) => return Ok(jobs),
            Ok(Look::Nothing { due_in, rung }) => (due_in, rung),
            // Nothing new is begun until there is memory again.
            Err(Error::Store(store::Error::Full { .. })) => (None, (u64::MAX, 0)),
            Err(error) => return Err(error),
        };
        let waiter = waiter.get_or_insert_with(|| core.bell.wait());
        let clock = core.link.options().clock.as_ref();
        let due = async {
            match (due_in, clock) {
                (Some(ms), Some(clock)) => {
                    let at = clock.now().plus(Duration::from_millis(ms));
                    clock.sleep_until(at).await;
                }
                (Some(ms), None) => sleep(Duration::from_millis(ms)).await,
                (None, _) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = drain.cancelled() => return Ok(Vec::new()),
            () = waiter.after(rung) => {}
            () = due => {}
            () = sleep(LOOK_AGAIN) => {}
        }
    }
}

async fn look(core: &Core, want: &Want, slot: &Slot<'_>) -> Result<Look, Error> {
    let worker = &want.worker[..want.worker.floor_char_boundary(WORKER_BYTES_MAX)];
    let mut cmd = core.link.begin(&LEASE);
    cmd.arg(core.client)
        .arg(slot.name)
        .arg(core.slots.number())
        .arg(worker)
        .arg(want.max.min(BATCH_MAX))
        .arg(to_ms(want.ttl));
    for lane in &want.lanes {
        cmd.arg(lane.as_str());
    }
    let answer = reply::list(core.link.send(&LEASE, &cmd).await?);
    read(core, want, answer).ok_or_else(|| nonsense(&core.link, "lease").into())
}

fn read(core: &Core, want: &Want, answer: Vec<Value>) -> Option<Look> {
    match reply::bytes(answer.first()?) {
        b"e" => Some(Look::Nothing {
            due_in: reply::count(answer.get(1)?),
            rung: bell::ring(reply::bytes(answer.get(2)?))?,
        }),
        b"g" => {
            let expires_at = Timestamp::from_ms(reply::count(answer.get(1)?)?);
            let first = reply::count(answer.get(2)?)?;
            let mut heads = Reader(reply::bytes(answer.get(3)?));
            let texts = answer.get(4..)?;
            let mut jobs = Vec::with_capacity(texts.len());
            for (text, fence) in texts.iter().zip(first..) {
                let key = key_of(heads.take(32)?)?;
                let lane = usize::try_from(heads.number(2)?).ok()?;
                let (deliveries, retries) = (heads.number(2)?, heads.number(2)?);
                let text = reply::bytes(text);
                if text.is_empty() {
                    // Held no more when the answer was repeated.
                    continue;
                }
                let fence = Fence(fence);
                jobs.push(Leased {
                    ticket: Ticket { key, fence },
                    job: codec::unpack(text, JOB_BYTES_MAX)?,
                    lane: want.lanes.get(lane.checked_sub(1)?)?.clone(),
                    deliveries: u32::try_from(deliveries).ok()?,
                    retries: u32::try_from(retries).ok()?,
                    expires_at,
                    cancelled: core.held.add(key, fence, want.ttl),
                });
            }
            Some(if jobs.is_empty() {
                Look::Nothing {
                    due_in: Some(0),
                    rung: (0, 0),
                }
            } else {
                Look::Jobs(jobs)
            })
        }
        _ => None,
    }
}
