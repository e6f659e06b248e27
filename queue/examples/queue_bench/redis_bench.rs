//! The queue on a server: one process that submits and gathers, two that work.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_core::job::Key;
use skillopt_queue::queue::Which;
use skillopt_queue::redis::{Link, Options, RedisQueue, RedisStore};
use skillopt_queue::{Ended, Enqueue, Lane, Priority, Queue as _, RunId, Want};
use skillopt_runtime::clock::Stopwatch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::floor;

type Failure = Box<dyn Error>;

const JOBS: usize = 100_000;
/// Jobs in the queue at once; more are submitted as results come.
const WINDOW: usize = 8_000;
/// Jobs of one submission.
const PART: usize = 1_000;
/// Jobs that one worker has in work at once.
const SLOTS: usize = 1_000;
/// Jobs at light load, one every so often.
const LIGHT: (usize, Duration) = (300, Duration::from_millis(10));
const BYTES: usize = 1_024;

pub(crate) fn main(args: &[String]) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match args {
        [url, role, namespace] if role == "--work" => runtime.block_on(work(url, namespace)),
        [url] => runtime.block_on(measure(url, JOBS)),
        [url, jobs] => runtime.block_on(measure(url, jobs.parse()?)),
        _ => Err("give `--redis URL [JOBS]`".into()),
    }
}

async fn open(url: &str, namespace: &str) -> Result<RedisQueue, Failure> {
    let options = Options {
        namespace: namespace.to_owned(),
        ..Options::default()
    };
    let link = Link::open(url, options).await?;
    Ok(RedisQueue::open(RedisStore::new(link)?).await?)
}

/// Works until standard input ends.
async fn work(url: &str, namespace: &str) -> Result<(), Failure> {
    let queue = Arc::new(open(url, namespace).await?);
    let drain = CancellationToken::new();
    let fire = drain.clone();
    let watch = tokio::task::spawn_blocking(move || {
        let ended = std::io::stdin().read_line(&mut String::new());
        fire.cancel();
        ended
    });
    let mut running: JoinSet<Result<(), skillopt_queue::queue::Error>> = JoinSet::new();
    loop {
        while running.len() >= SLOTS {
            running.join_next().await;
        }
        while let Some(ended) = running.try_join_next() {
            ended??;
        }
        let want = Want {
            worker: "bench".into(),
            lanes: vec![Lane::new("v1 chat simulated searchqa@3")],
            max: SLOTS - running.len(),
            ttl: Duration::from_secs(30),
        };
        let leased = queue.lease(want, &drain).await?;
        if leased.is_empty() {
            break;
        }
        let started = unix_us();
        for leased in leased {
            let queue = queue.clone();
            running.spawn(async move {
                let result = result(leased.ticket.key, started);
                queue.complete(leased.ticket, result).await.map(|_| ())
            });
        }
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    watch.await??;
    Ok(())
}

async fn measure(url: &str, jobs: usize) -> Result<(), Failure> {
    let namespace = format!("bench{}", std::process::id());
    let queue = open(url, &namespace).await?;
    let client = redis::Client::open(url)?;
    let mut server = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").query_async(&mut server).await?;
    let pid: u32 = field(&info, "process_id").ok_or("no process_id")?.parse()?;

    // Memory: a lane that nobody serves.
    let used = |info: &str| {
        let bytes = |name| field(info, name)?.parse::<f64>().ok();
        // Buffers of the calls that brought them are not the jobs'.
        Some(bytes("used_memory")? - bytes("mem_clients_normal")? - bytes("mem_aof_buffer")?)
    };
    let before = used(&info).ok_or("no memory in INFO")?;
    let idle = RunId::new("r-idle");
    let mut kept = Vec::new();
    for start in (0..JOBS).step_by(PART) {
        let part = (start..start + PART).map(|i| job(i, "v1 chat nobody", &idle));
        kept.push(queue.submit(part.collect()).await?);
    }
    let info: String = redis::cmd("INFO").query_async(&mut server).await?;
    let queued_mb = (used(&info).ok_or("no memory in INFO")? - before) / 1e6;
    queue.cancel(&idle, Which::All).await?;
    drop(kept);

    let mut workers = Vec::new();
    for _ in 0..2 {
        workers.push(start_worker(url, &namespace)?);
    }
    let run = RunId::new("r-bench");
    // Warm up: connections, scripts, caches.
    rounds(&queue, parts(1_000_000..1_005_000, &run)).await?;
    // Made before the clock starts: what jobs cost their maker is not the queue's.
    let made = parts(0..jobs, &run);
    let pids: Vec<u32> = workers.iter().map(Child::id).collect();
    let cpu = |pid: u32| cpu_s(pid).unwrap_or(f64::NAN);
    let all = || -> f64 { pids.iter().map(|pid| cpu(*pid)).sum() };
    let before = (cpu(std::process::id()), all(), cpu(pid));
    let wall = Stopwatch::start();
    rounds(&queue, made).await?;
    let wall = wall.elapsed();
    let after = (cpu(std::process::id()), all(), cpu(pid));
    let per_job = |from: f64, to: f64| (to - from) * 1e6 / jobs as f64;
    let (client_us, worker_us, redis_us) = (
        per_job(before.0, after.0),
        per_job(before.1, after.1),
        per_job(before.2, after.2),
    );

    let of_both = || (cpu(std::process::id()), cpu(pid));
    let floor = floor::measure(&mut server, &namespace, of_both).await?;

    let mut waits = Vec::with_capacity(LIGHT.0);
    for i in 0..LIGHT.0 {
        tokio::time::sleep(LIGHT.1).await;
        let lane = "v1 chat simulated searchqa@3";
        let job = job(2_000_000 + i, lane, &run);
        let asked = unix_us();
        let mut notices = queue.submit(vec![job]).await?;
        let notice = notices.next(1).await?.pop().ok_or("no notice")?;
        let Ended::Result(result) = notice.ended else {
            return Err("a job without a result".into());
        };
        let text = std::str::from_utf8(&result)?;
        let started: u64 = field_of(text, "\"started\":").ok_or("no time")?.parse()?;
        waits.push(started.saturating_sub(asked) as f64 / 1e3);
    }
    waits.sort_by(f64::total_cmp);
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
    for mut worker in workers {
        drop(worker.stdin.take());
        worker.wait()?;
    }
    println!(
        "{{\"jobs\":{jobs},\"jobs_per_s\":{:.0},\"cpu_us\":{:.2},\"client_us\":{client_us:.2},\
         \"worker_us\":{worker_us:.2},\"redis_us\":{redis_us:.2},\"queued_mb\":{queued_mb:.1},\
         \"floor_clients_us\":{:.2},\"floor_redis_us\":{:.2},\
         \"wait_p50_ms\":{:.3},\"wait_p99_ms\":{:.3}}}",
        jobs as f64 / wall.as_secs_f64(),
        client_us + worker_us + redis_us,
        floor.clients_us,
        floor.redis_us,
        at(0.5),
        at(0.99),
    );
    Ok(())
}

fn start_worker(url: &str, namespace: &str) -> Result<Child, Failure> {
    Ok(Command::new(std::env::current_exe()?)
        .args(["--redis", url, "--work", namespace])
        .stdin(Stdio::piped())
        .stdout(Stdio::inherit())
        .spawn()?)
}

/// Makes jobs, in the parts in which they are submitted.
fn parts(numbers: std::ops::Range<usize>, run: &RunId) -> Vec<Vec<Enqueue>> {
    let part = |start: usize| {
        let numbers = start..numbers.end.min(start + PART);
        let make = |i| job(i, "v1 chat simulated searchqa@3", run);
        numbers.map(make).collect()
    };
    numbers.clone().step_by(PART).map(part).collect()
}

/// Submits jobs in a window and gathers all results.
async fn rounds(queue: &RedisQueue, parts: Vec<Vec<Enqueue>>) -> Result<(), Failure> {
    let mut open = 0;
    let mut parts = parts.into_iter().peekable();
    let mut gathering: JoinSet<Result<usize, String>> = JoinSet::new();
    while parts.peek().is_some() || open > 0 {
        while open + PART <= WINDOW
            && let Some(jobs) = parts.next()
        {
            open += jobs.len();
            let queue = queue.clone();
            gathering.spawn(async move {
                let count = jobs.len();
                let mut notices = queue
                    .submit(jobs)
                    .await
                    .map_err(|error| error.to_string())?;
                while notices.remaining() > 0 {
                    let news = notices
                        .next(PART)
                        .await
                        .map_err(|error| error.to_string())?;
                    for notice in news {
                        match notice.ended {
                            Ended::Result(result) if result.len() == BYTES => {}
                            other => return Err(format!("not what was sent: {other:?}")),
                        }
                    }
                }
                Ok(count)
            });
        }
        if let Some(gathered) = gathering.join_next().await {
            open -= gathered??;
        }
    }
    Ok(())
}

/// A job of 1 KiB as a coordinator writes it: hashes, names, limits, and who pays.
fn job(number: usize, lane: &str, run: &RunId) -> Enqueue {
    let hash = |what: &str| Hash::of(format!("{what} {}", number / 40).as_bytes());
    let key = Key(Hash::of(&number.to_le_bytes()));
    let item = Hash::of(format!("item {number}").as_bytes());
    let text = format!(
        "{{\"job\":{{\"version\":1,\"work\":{{\"kind\":\"rollout\",\"benchmark\":\"searchqa\",\
         \"benchmark_version\":\"3\",\"item_id\":\"train-{number}\",\"item\":\"{item}\",\
         \"skill\":\"{}\",\"target\":\"{}\",\"settings\":\"{}\"}},\"repeat\":{},\
         \"scope\":\"\"}},\"limits\":{{\"call_timeout_ms\":120000,\"attempts\":5,\
         \"retry_base_ms\":1000,\"retry_cap_ms\":60000}},\"payer\":{{\"run\":\"{}\",\
         \"sweep\":\"table-{}\",\"tenant\":\"lab\",\"price\":{{\"input\":150000,\
         \"output\":600000}},\"is_capped\":true}}}}",
        hash("skill"),
        hash("target"),
        hash("settings"),
        number % 7,
        hash("run").short(),
        number / 1_000,
    );
    Enqueue {
        key,
        job: spaced(text),
        lane: Lane::new(lane),
        priority: Priority::NORMAL,
        run: run.clone(),
        not_before: None,
    }
}

/// A result of 1 KiB as a worker writes it.
fn result(key: Key, started: u64) -> Bytes {
    let number = u64::from(key.0.as_bytes()[0]) * 7 + started % 1_000;
    let text = format!(
        "{{\"ending\":\"scored\",\"started\":{started},\"row\":{{\"id\":\"{}\",\"hard\":{},\
         \"soft\":0.{number},\"predicted_answer\":\"",
        key.0.short(),
        number % 2,
    );
    padded(text, usize::try_from(number).unwrap_or_default())
}

/// Fills a text up to 1 KiB with spaces: real jobs are shorter, and no longer ones differ in more.
fn spaced(mut text: String) -> Bytes {
    while text.len() < BYTES {
        text.push(' ');
    }
    text.into_bytes().into()
}

/// Fills a text up to 1 KiB with words that differ.
fn padded(mut text: String, number: usize) -> Bytes {
    const WORDS: [&str; 16] = [
        "river", "which", "answer", "seven", "between", "the", "of", "season", "found", "in",
        "capital", "named", "year", "book", "was", "context",
    ];
    let mut state = number as u64;
    while text.len() < BYTES {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push(' ');
        text.push_str(WORDS[(state >> 60) as usize]);
    }
    text.truncate(BYTES);
    text.into_bytes().into()
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

fn field_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(name)?;
    rest.split(',').next()
}

/// Processor time of a process so far, as Linux tells it.
fn cpu_s(pid: u32) -> Option<f64> {
    let mut total = 0.0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // Nanoseconds; the process's own file counts in hundredths of a second.
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        total += stat.split_whitespace().next()?.parse::<f64>().ok()? / 1e9;
    }
    Some(total)
}

/// The machine's time, which all processes here share.
#[expect(
    clippy::disallowed_methods,
    reason = "two processes compare their times"
)]
fn unix_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
}
