//! Asks after jobs of which nothing was heard: notices can get lost when a server loses its last
//! second, or hands over to its replica.

use std::sync::Arc;
use std::time::Duration;

use skillopt_core::job::Key;
use tokio::time::sleep;

use super::inbox::deliver;
use super::{Core, KEYS_MAX, nonsense, submit};
use crate::redis::letter::letter;
use crate::redis::reply;
use crate::redis::scripts::CHECK;
use crate::store::Error;

/// Shortest time between two looks.
const EVERY_MIN: Duration = Duration::from_millis(50);

/// Asks until the queue is dropped.
pub(super) async fn run(core: Arc<Core>) {
    let silence = core.link.options().ask_after;
    loop {
        sleep((silence / 2).max(EVERY_MIN)).await;
        let silent = core.waiting.silent(silence);
        for chunk in silent.chunks(KEYS_MAX) {
            // If the server cannot be asked now, it is asked again soon.
            if ask(&core, chunk).await.is_err() {
                break;
            }
        }
    }
}

async fn ask(core: &Core, keys: &[Key]) -> Result<(), Error> {
    let mut cmd = core.link.begin(&CHECK);
    cmd.arg(core.client);
    for key in keys {
        cmd.arg(key.0.as_bytes());
    }
    let answers = reply::list(core.link.send(&CHECK, &cmd).await?);
    let (mut stored, mut again) = (Vec::new(), Vec::new());
    for (key, answer) in keys.iter().zip(&answers) {
        match reply::bytes(answer) {
            b"R" => stored.push(*key),
            b"W" => core.waiting.known(*key),
            b"U" => again.extend(core.waiting.missed(*key)),
            [b'F', packed @ ..] => {
                let letter = letter(*key, packed).ok_or_else(|| nonsense(&core.link, "check"))?;
                core.waiting.found_dead(*key, &Arc::new(letter));
            }
            _ => return Err(nonsense(&core.link, "check")),
        }
    }
    if !stored.is_empty() {
        deliver(core, &stored).await?;
    }
    for (job, mailbox) in again {
        // What was taken once is not refused for want of room.
        submit::again(core, job, &mailbox).await?;
    }
    Ok(())
}
