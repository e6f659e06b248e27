//! Many calls at once, and a server that can take them and fails in a share of them.
//!
//! The other server of the suite has a thread for each connection; this one is for thousands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;

use crate::{ChatModel, ChatRequest, Outcome};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A whole answer.
    Answered,
    /// HTTP 429.
    Throttled,
    /// HTTP 500.
    Failed,
    /// The connection ends within the answer.
    Cut,
    /// No answer, until the client goes.
    Hung,
}

impl Fate {
    /// Returns what a client should make of it.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Answered => Outcome::Answer,
            Self::Throttled => Outcome::Throttled,
            Self::Failed => Outcome::ServerError,
            Self::Cut => Outcome::ConnectionFailed,
            Self::Hung => Outcome::TimedOut,
        }
    }

    /// Returns the fate of a request in a bad hour: of each thousand in a row, 50 are throttled, 20
    /// fail, 10 are cut and 2 hang.
    #[must_use]
    pub const fn in_a_bad_hour(number: u64) -> Self {
        // 617 and 1,000 have no common divisor, so each thousand is a permutation.
        match number * 617 % 1_000 {
            0..50 => Self::Throttled,
            50..70 => Self::Failed,
            70..80 => Self::Cut,
            80..82 => Self::Hung,
            _ => Self::Answered,
        }
    }
}

/// What a server of many connections does, and what it has seen.
pub struct Crowd {
    answer: Vec<u8>,
    wait: Duration,
    fate: fn(u64) -> Fate,
    requests: AtomicU64,
    under_way: AtomicU64,
    most: AtomicU64,
}

impl Crowd {
    /// Answers with `body` after `wait`, unless the fate of the request is another.
    #[must_use]
    pub fn new(body: &str, wait: Duration, fate: fn(u64) -> Fate) -> Arc<Self> {
        Arc::new(Self {
            answer: reply(200, body),
            wait,
            fate,
            requests: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            most: AtomicU64::new(0),
        })
    }

    /// Returns how many requests came.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Returns how many of them were there at once, at most.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }

    /// Serves one connection until an end of it is closed.
    ///
    /// # Errors
    /// The client has gone.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        while take(&mut stream).await? {
            let number = self.requests.fetch_add(1, Ordering::SeqCst);
            let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            if !self.wait.is_zero() {
                tokio::time::sleep(self.wait).await;
            }
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            match (self.fate)(number) {
                Fate::Answered => stream.write_all(&self.answer).await?,
                Fate::Throttled => stream.write_all(&reply(429, "{}")).await?,
                Fate::Failed => stream.write_all(&reply(500, "{}")).await?,
                Fate::Cut => {
                    let half = &self.answer[..self.answer.len() - 2];
                    stream.write_all(half).await?;
                    return stream.shutdown().await;
                }
                Fate::Hung => {
                    // A client that gives up closes its connection.
                    stream.read_u8().await?;
                }
            }
            stream.flush().await?;
        }
        Ok(())
    }
}

fn reply(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    (head + body).into_bytes()
}

/// Reads a request to its end. Returns whether there was one.
async fn take(stream: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<bool> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(false);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(true)
}

/// Makes `count` calls, at most `width` at once. Returns how many came to what.
///
/// # Panics
/// A call does.
pub async fn ask(
    client: &Arc<dyn ChatModel>,
    request: &ChatRequest,
    count: u64,
    width: usize,
) -> BTreeMap<Outcome, u64> {
    let (begun, request) = (Arc::new(AtomicU64::new(0)), Arc::new(request.clone()));
    let mut tasks = JoinSet::new();
    for _ in 0..width {
        let (begun, request) = (Arc::clone(&begun), Arc::clone(&request));
        let client = Arc::clone(client);
        tasks.spawn(async move {
            let mut seen: BTreeMap<Outcome, u64> = BTreeMap::new();
            while begun.fetch_add(1, Ordering::SeqCst) < count {
                let answer = client.chat(&request).await;
                *seen.entry(Outcome::of(&answer)).or_default() += 1;
            }
            seen
        });
    }
    let mut all: BTreeMap<Outcome, u64> = BTreeMap::new();
    while let Some(seen) = tasks.join_next().await {
        for (outcome, count) in seen.expect("a call does not panic") {
            *all.entry(outcome).or_default() += count;
        }
    }
    all
}

/// Returns what `count` calls in a bad hour come to.
#[must_use]
pub fn expected(count: u64) -> BTreeMap<Outcome, u64> {
    let mut all: BTreeMap<Outcome, u64> = BTreeMap::new();
    for number in 0..count {
        *all.entry(Fate::in_a_bad_hour(number).outcome())
            .or_default() += 1;
    }
    all
}

/// Returns how many files and sockets this process has open; 0 where the system does not say.
#[must_use]
pub fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
