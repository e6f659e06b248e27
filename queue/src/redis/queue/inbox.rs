//! Reads what the queue tells this client.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Value, pipe};
use bytes::Bytes;
use skillopt_core::job::Key;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::Core;
use super::pace::Pace;
use crate::message::{Fence, RunId};
use crate::redis::letter::{key_of, letter};
use crate::redis::link::Conn;
use crate::redis::reply::{self, Reader};
use crate::redis::store::Found;
use crate::store::Error;

/// One blocking read.
const BLOCK: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(5);
/// Reads that may wait to be understood.
const AHEAD: usize = 2;
/// An inbox that nobody reads is forgotten after this time.
const LIFE_MS: u64 = 600_000;
/// Its life is lengthened this often.
const LIVE_AGAIN: Duration = Duration::from_secs(120);

/// News of one read.
type News = Vec<(Bytes, Vec<Value>)>;

/// Reads until the queue is dropped. The next news are read while those before are understood.
pub(super) async fn run(core: Arc<Core>) {
    let (read, mut news) = mpsc::channel(AHEAD);
    let understand = async {
        while let Some(entries) = news.recv().await {
            hear(&core, entries).await;
        }
    };
    tokio::join!(listen(&core, read), understand);
}

async fn listen(core: &Core, news: mpsc::Sender<News>) {
    let key = core.link.key(&format!("i:{}", core.client));
    let mut conn: Option<Conn> = None;
    let mut last = Bytes::from_static(b"0-0");
    let mut has_read = false;
    let mut lived = Instant::now();
    let mut pace = Pace::default();
    loop {
        let Some(open) = &mut conn else {
            match core.link.own().await {
                Ok(opened) => conn = Some(opened),
                Err(_) => sleep(Duration::from_millis(500)).await,
            }
            // What was read is gone from the stream, so that all that is there is news. (After a
            // failover the numbers may be lower than those before.)
            last = Bytes::from_static(b"0-0");
            has_read = false;
            continue;
        };
        pace.turn(0).await;
        let mut calls = pipe();
        if has_read {
            calls.cmd("XTRIM").arg(&key).arg("MINID").arg(after(&last));
        }
        if lived.elapsed() > LIVE_AGAIN {
            lived = Instant::now();
            calls.cmd("PEXPIRE").arg(&key).arg(LIFE_MS);
        }
        calls
            .cmd("XREAD")
            .arg("COUNT")
            .arg(64)
            .arg("BLOCK")
            .arg(BLOCK.as_millis() as u64)
            .arg("STREAMS")
            .arg(&key)
            .arg(&last[..]);
        let count = calls.len();
        // A server that takes no writes for a while still tells the news; what was read of it is not
        // read again, for `last` is behind it.
        let entries = match timeout(BLOCK + GRACE, open.send_last(&calls, count)).await {
            Ok(Ok(answer)) => reply::entries(answer),
            Ok(Err(_)) | Err(_) => {
                conn = None;
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        has_read = !entries.is_empty();
        if let Some((newest, _)) = entries.last() {
            last = newest.clone();
            if news.send(entries).await.is_err() {
                return;
            }
        }
    }
}

/// The id after `id`.
fn after(id: &[u8]) -> String {
    let (ms, number) = super::bell::ring(id).unwrap_or_default();
    format!("{ms}-{}", number + 1)
}

async fn hear(core: &Core, entries: News) {
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
    let results = keys.iter().zip(found).filter_map(|(key, found)| {
        let result = match found {
            Found::Small(result) => Some(result),
            Found::Large(_) => None,
            Found::Nothing => return None,
        };
        Some((*key, result))
    });
    core.waiting.results(results);
    Ok(())
}
