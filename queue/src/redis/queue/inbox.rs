//! Reads what the queue tells this client.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};
use bytes::Bytes;
use skillopt_core::job::Key;
use tokio::time::{Instant, sleep, timeout};

use super::Core;
use crate::message::{Fence, RunId};
use crate::notice::Ended;
use crate::redis::letter::{key_of, letter};
use crate::redis::link::Conn;
use crate::redis::reply::{self, Reader};
use crate::redis::store::Found;
use crate::store::Error;

/// One blocking read.
const BLOCK: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(5);
/// An inbox that nobody reads is forgotten after this time.
const LIFE_MS: u64 = 600_000;
/// Its life is lengthened this often.
const LIVE_AGAIN: Duration = Duration::from_secs(120);

/// Reads until the queue is dropped.
pub(super) async fn run(core: Arc<Core>) {
    let key = core.link.key(&format!("i:{}", core.client));
    let mut conn: Option<Conn> = None;
    let mut last = Bytes::from_static(b"0-0");
    let mut lived = Instant::now();
    loop {
        let Some(open) = &mut conn else {
            match core.link.own().await {
                Ok(opened) => conn = Some(opened),
                Err(_) => sleep(Duration::from_millis(500)).await,
            }
            // What was read is gone from the stream, so that all that is there is news. (After a
            // failover the numbers may be lower than those before.)
            last = Bytes::from_static(b"0-0");
            continue;
        };
        let mut read = cmd("XREAD");
        read.arg("COUNT")
            .arg(64)
            .arg("BLOCK")
            .arg(BLOCK.as_millis() as u64);
        read.arg("STREAMS").arg(&key).arg(&last[..]);
        let entries = match timeout(BLOCK + GRACE, open.send(&read)).await {
            Ok(Ok(answer)) => reply::entries(answer),
            Ok(Err(_)) | Err(_) => {
                conn = None;
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some((newest, _)) = entries.last() else {
            if lived.elapsed() > LIVE_AGAIN {
                lived = Instant::now();
                // If this fails, the jobs are asked for again.
                drop(open.send(&expire(&key)).await);
            }
            continue;
        };
        last = newest.clone();
        let mut read_off = cmd("XTRIM");
        read_off.arg(&key).arg("MINID").arg(after(&last));
        // Answered before the next read.
        drop(timeout(GRACE, open.send(&read_off)).await);
        hear(&core, entries).await;
        if lived.elapsed() > LIVE_AGAIN {
            lived = Instant::now();
            drop(timeout(GRACE, open.send(&expire(&key))).await);
        }
    }
}

fn expire(key: &str) -> Cmd {
    let mut expire = cmd("PEXPIRE");
    expire.arg(key).arg(LIFE_MS);
    expire
}

/// The id after `id`.
fn after(id: &[u8]) -> String {
    let (ms, number) = super::bell::ring(id).unwrap_or_default();
    format!("{ms}-{}", number + 1)
}

async fn hear(core: &Core, entries: Vec<(Bytes, Vec<Value>)>) {
    let mut results = Vec::new();
    for (_, fields) in entries {
        for pair in fields.chunks_exact(2) {
            let value = reply::bytes(&pair[1]);
            match reply::bytes(&pair[0]) {
                b"r" => results.extend(value.chunks_exact(32).filter_map(key_of)),
                kind => drop(one(core, kind, value)),
            }
        }
    }
    let results = core.waiting.wanted(results.into_iter());
    if !results.is_empty() {
        // If the results cannot be read now, the jobs are asked for again later.
        drop(deliver(core, &results).await);
    }
}

/// Hears one piece of news other than a result; `None` if it is not understood.
fn one(core: &Core, kind: &[u8], value: &[u8]) -> Option<()> {
    let mut value = Reader(value);
    let key = key_of(value.take(32)?)?;
    let number = value.number(7)?;
    match kind {
        b"f" => {
            let letter = Arc::new(letter(key, value.0)?);
            core.waiting.failed(key, number, &letter);
        }
        b"c" => {
            let run = RunId::new(std::str::from_utf8(value.0).ok()?);
            core.waiting.cancelled(key, number, &run);
        }
        b"s" => core.held.cancel(key, Fence(number)),
        _ => return None,
    }
    Some(())
}

/// Reads stored results and hands them to everyone who waits for them.
pub(super) async fn deliver(core: &Core, keys: &[Key]) -> Result<(), Error> {
    let found = core.store.find(keys).await?;
    for (key, found) in keys.iter().zip(found) {
        match found {
            Found::Small(result) => core.waiting.result(*key, |mailbox| {
                mailbox.put(*key, Ended::Result(result.clone()));
            }),
            Found::Large(_) => core
                .waiting
                .result(*key, |mailbox| mailbox.put_stored(*key)),
            Found::Nothing => {}
        }
    }
    Ok(())
}
