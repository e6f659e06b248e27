//! A server that answers whatever a test likes, however wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// How long a connection may be idle: longer than any test needs.
const IDLE: Duration = Duration::from_secs(30);

/// Makes the body of the answer to a request's JSON.
pub type Answer = dyn Fn(&Value) -> Vec<u8> + Send + Sync;

/// A server in this process; it ends with the value.
pub struct Fake {
    port: u16,
    calls: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Starts a server that answers every request with what `answer` makes.
    ///
    /// # Panics
    /// There is no free port.
    #[must_use]
    pub fn start(answer: impl Fn(&Value) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (calls, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, over) = (Arc::clone(&calls), Arc::clone(&is_over));
        let answer: Arc<Answer> = Arc::new(answer);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(stream), answer, count) = (stream, Arc::clone(&answer), Arc::clone(&count))
                else {
                    continue;
                };
                // Ends with its client, or with the process of the test.
                std::thread::spawn(move || drop(serve(&stream, &*answer, &count)));
            }
        });
        Self {
            port,
            calls,
            is_over,
            thread: Some(thread),
        }
    }

    /// Returns the base address for `base_url`.
    #[must_use]
    pub fn url(&self) -> String {
        super::sim::url(self.port)
    }

    /// Returns how many requests came in.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn serve(stream: &TcpStream, answer: &Answer, count: &AtomicU64) -> std::io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        count.fetch_add(1, Ordering::SeqCst);
        let body = answer(&serde_json::from_slice(&body).unwrap_or_default());
        let status = if body.starts_with(REFUSAL) {
            "400 Bad Request"
        } else {
            "200 OK"
        };
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )?;
        stream.write_all(&body)?;
    }
}

/// A body that begins like this goes out as HTTP 400.
const REFUSAL: &[u8] = b"{\"error\"";

/// Returns the body of a refusal.
#[must_use]
pub fn refusal(message: &str) -> Vec<u8> {
    json!({"error": {"message": message}})
        .to_string()
        .into_bytes()
}

/// Returns a chat completion with this text.
#[must_use]
pub fn completion(text: &str) -> Vec<u8> {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    json!({"id": "x", "object": "chat.completion", "choices": [choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    .to_string()
    .into_bytes()
}
