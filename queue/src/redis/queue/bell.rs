//! The bell that rings when there is work: one blocking read for all who wait in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::redis::cmd;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::Core;
use crate::redis::link::Conn;
use crate::redis::reply;

/// One blocking read; afterwards it is seen whether anybody still waits.
const BLOCK: Duration = Duration::from_secs(1);
/// A blocking read that takes so much longer is given up.
const GRACE: Duration = Duration::from_secs(5);

/// A ring: the id of an entry of the bell's stream.
pub(super) type Ring = (u64, u64);

/// What was heard of the bell.
#[derive(Default)]
pub(super) struct Bell {
    heard: watch::Sender<Ring>,
    waiters: AtomicUsize,
    wanted: Notify,
}

/// Somebody who waits for the bell.
pub(super) struct Waiter<'a> {
    bell: &'a Bell,
    heard: watch::Receiver<Ring>,
}

impl Bell {
    pub(super) fn wait(&self) -> Waiter<'_> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        self.wanted.notify_one();
        Waiter {
            bell: self,
            heard: self.heard.subscribe(),
        }
    }
}

impl Waiter<'_> {
    /// Waits for a ring later than `last`.
    pub(super) async fn after(&mut self, last: Ring) {
        if self.heard.wait_for(|heard| *heard > last).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.bell.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads the id of an entry.
pub(super) fn ring(id: &[u8]) -> Option<Ring> {
    let (ms, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
    Some((ms.parse().ok()?, number.parse().ok()?))
}

/// Listens while anybody waits.
pub(super) async fn run(core: Arc<Core>) {
    let mut conn: Option<Conn> = None;
    let key = core.link.key("a");
    loop {
        while core.bell.waiters.load(Ordering::Relaxed) == 0 {
            core.bell.wanted.notified().await;
        }
        let Some(open) = &mut conn else {
            match core.link.own().await {
                Ok(opened) => conn = Some(opened),
                // Whoever waits looks again on its own meanwhile.
                Err(_) => sleep(BLOCK).await,
            }
            continue;
        };
        let (ms, number) = *core.bell.heard.borrow();
        let mut read = cmd("XREAD");
        read.arg("COUNT")
            .arg(1)
            .arg("BLOCK")
            .arg(BLOCK.as_millis() as u64);
        read.arg("STREAMS").arg(&key).arg(format!("{ms}-{number}"));
        match timeout(BLOCK + GRACE, open.send(&read)).await {
            Ok(Ok(answer)) => {
                let entries = reply::entries(answer);
                if let Some(heard) = entries.last().and_then(|(id, _)| ring(id)) {
                    core.bell.heard.send_replace(heard);
                }
            }
            Ok(Err(_)) | Err(_) => {
                conn = None;
                // A server that comes back may have lost its last rings.
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
