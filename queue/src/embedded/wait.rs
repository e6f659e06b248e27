//! Waiting for work.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::clock::Timestamp;
use crate::message::{Leased, Want};

/// Waits until there is work or `drain` fires.
///
/// A wake-up that a leaser has taken must not get lost: whoever leaves while there is work in its
/// lanes wakes another one.
pub(super) async fn lease(shared: &Shared, want: &Want, drain: &CancellationToken) -> Vec<Leased> {
    if !drain.is_cancelled() {
        let (granted, _) = take(shared, want);
        if !granted.is_empty() {
            return granted;
        }
    }
    let lanes = lanes(shared, want);
    while !drain.is_cancelled() {
        // Made before the look at the queue, so that nothing is missed in between.
        let mut work: Vec<Pin<Box<Notified<'_>>>> =
            lanes.iter().map(|lane| Box::pin(lane.notified())).collect();
        let rearmed = shared.rearm.notified();
        let (granted, deadline) = take(shared, want);
        if !granted.is_empty() {
            return granted;
        }
        let any_work = poll_fn(|cx| {
            let is_ready = work
                .iter_mut()
                .any(|lane| lane.as_mut().poll(cx).is_ready());
            if is_ready {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        tokio::select! {
            () = drain.cancelled() => {}
            () = any_work => {}
            () = rearmed => {}
            () = until(shared, deadline) => {}
        }
    }
    wake_others(shared, want);
    Vec::new()
}

/// Takes what there is; also returns when to look again.
fn take(shared: &Shared, want: &Want) -> (Vec<Leased>, Option<Timestamp>) {
    let (granted, deadline) =
        shared.step(|state, now, fx| (state.lease(now, want, fx), state.next_deadline()));
    if !granted.is_empty() {
        wake_others(shared, want);
    }
    (granted, deadline)
}

fn lanes(shared: &Shared, want: &Want) -> Vec<Arc<Notify>> {
    let mut inner = shared.lock();
    want.lanes
        .iter()
        .map(|lane| inner.lanes.entry(lane.clone()).or_default().clone())
        .collect()
}

fn wake_others(shared: &Shared, want: &Want) {
    let inner = shared.lock();
    for lane in want.lanes.iter().filter(|lane| inner.state.has_ready(lane)) {
        if let Some(lane) = inner.lanes.get(lane) {
            lane.notify_one();
        }
    }
}

async fn until(shared: &Shared, deadline: Option<Timestamp>) {
    match deadline {
        Some(deadline) => shared.clock.sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
