//! The least that a round could cost: the commands that move a job and its result, in large
//! batches, and nothing else. No lease, no fence, nobody told, nothing packed, nothing counted.

use std::error::Error;

use redis::aio::MultiplexedConnection;
use redis::{Value, cmd, pipe};

/// Jobs of one batch.
const BATCH: usize = 500;
const BATCHES: usize = 100;
/// About what a job and a result of 1 KiB are when they are packed.
const PACKED_BYTES: usize = 400;
const KEEP_MS: u64 = 600_000;

/// Processor time per job in microseconds.
pub(crate) struct Floor {
    pub(crate) clients_us: f64,
    pub(crate) redis_us: f64,
}

/// Measures plain commands; `cpu` tells the processor time of this process and of Redis.
pub(crate) async fn measure(
    server: &mut MultiplexedConnection,
    namespace: &str,
    cpu: impl Fn() -> (f64, f64),
) -> Result<Floor, Box<dyn Error>> {
    let stream = format!("{namespace}:floor");
    let mut group = cmd("XGROUP");
    group.arg("CREATE").arg(&stream).arg("g").arg("0");
    let _: Value = group.arg("MKSTREAM").query_async(server).await?;
    let text = vec![b'x'; PACKED_BYTES];
    let before = cpu();
    for batch in 0..BATCHES {
        round(server, &stream, &text, batch).await?;
    }
    let after = cpu();
    let jobs = (BATCH * BATCHES) as f64;
    let _: Value = cmd("DEL").arg(&stream).query_async(server).await?;
    Ok(Floor {
        clients_us: (after.0 - before.0) * 1e6 / jobs,
        redis_us: (after.1 - before.1) * 1e6 / jobs,
    })
}

async fn round(
    server: &mut MultiplexedConnection,
    stream: &str,
    text: &[u8],
    batch: usize,
) -> Result<(), Box<dyn Error>> {
    let name = |n: usize| format!("{stream}:r:{:032}", batch * BATCH + n);
    let mut submit = pipe();
    for _ in 0..BATCH {
        submit.cmd("XADD").arg(stream).arg("*").arg("j").arg(text);
    }
    let ids: Vec<String> = submit.query_async(server).await?;
    let mut take = cmd("XREADGROUP");
    take.arg("GROUP").arg("g").arg("w").arg("COUNT").arg(BATCH);
    take.arg("NOACK").arg("STREAMS").arg(stream).arg(">");
    let _: Value = take.query_async(server).await?;
    let mut finish = pipe();
    for n in 0..BATCH {
        let set = finish.cmd("SET").arg(name(n)).arg(text);
        set.arg("NX").arg("PX").arg(KEEP_MS).ignore();
    }
    finish.cmd("XDEL").arg(stream).arg(ids).ignore();
    let _: Value = finish.query_async(server).await?;
    let mut gather = cmd("MGET");
    for n in 0..BATCH {
        gather.arg(name(n));
    }
    let results: Vec<Vec<u8>> = gather.query_async(server).await?;
    if results.len() != BATCH {
        return Err("a batch lost results".into());
    }
    Ok(())
}
