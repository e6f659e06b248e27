//! A server that does to a client whatever a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;

/// A request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// `POST`, …
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Names in small letters, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Seen {
    /// Returns the body as JSON; nothing if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns everything that came, as one text.
    #[must_use]
    pub fn echo(&self) -> String {
        let headers = self.headers.iter().map(|(k, v)| format!("{k}: {v} "));
        let body = String::from_utf8_lossy(&self.body);
        format!(
            "{} {} {}{body}",
            self.method,
            self.path,
            headers.collect::<String>()
        )
    }
}

/// What a request is answered with.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status, further headers and a body.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// The connection ends before a byte.
    Close,
    /// Further headers, and a body that ends half-way.
    Cut(Vec<(&'static str, String)>, Vec<u8>),
    /// Nothing, until the client goes.
    Hang,
}

impl Reply {
    /// A JSON body with a status.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::Answer(status, Vec::new(), body.to_string().into_bytes())
    }

    /// Server-sent events.
    #[must_use]
    pub fn events(events: Vec<String>) -> Self {
        let kind = ("content-type", "text/event-stream".to_owned());
        Self::Answer(200, vec![kind], events.concat().into_bytes())
    }

    /// The same up to the middle of its body.
    #[must_use]
    pub fn cut(self) -> Self {
        match self {
            Self::Answer(200, headers, mut body) => {
                body.truncate(body.len() / 2);
                Self::Cut(headers, body)
            }
            other => other,
        }
    }
}

type Script = dyn Fn(&Seen, usize) -> Reply + Send + Sync;

struct Shared {
    script: Box<Script>,
    seen: Mutex<Vec<Seen>>,
    streams: Mutex<Vec<TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_over: AtomicBool,
    gone: Mutex<Sender<()>>,
}

/// A server on loopback; it ends with the value.
pub struct Server {
    shared: Arc<Shared>,
    port: u16,
    listener: Option<JoinHandle<()>>,
    gone: Mutex<Receiver<()>>,
}

impl Server {
    /// Starts a server that answers each request with what `script` makes of it and of the number
    /// of requests before it.
    ///
    /// # Panics
    /// There is no free port.
    #[must_use]
    pub fn start(script: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let (sender, gone) = channel();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            streams: Mutex::default(),
            threads: Mutex::default(),
            is_over: AtomicBool::new(false),
            gone: Mutex::new(sender),
        });
        let listening = Arc::clone(&shared);
        let listener = std::thread::spawn(move || listen(&listening, &listener));
        Self {
            shared,
            port,
            listener: Some(listener),
            gone: Mutex::new(gone),
        }
    }

    /// Returns the address without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the requests that came, in order.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// Waits until a client that was kept waiting has gone.
    ///
    /// # Panics
    /// The server is over.
    pub fn wait_until_gone(&self) {
        lock(&self.gone).recv().expect("the server is there");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(listener) = self.listener.take() {
            drop(listener.join());
        }
        for stream in lock(&self.shared.streams).drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let threads = std::mem::take(&mut *lock(&self.shared.threads));
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(copy) = stream.try_clone() {
            lock(&shared.streams).push(copy);
        }
        let serving = Arc::clone(shared);
        let thread = std::thread::spawn(move || {
            // A client that goes ends its thread, whatever it was at.
            drop(serve(&serving, &stream));
            let _ = stream.shutdown(Shutdown::Both);
        });
        lock(&shared.threads).push(thread);
    }
}

fn serve(shared: &Shared, stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(seen) = read(&mut reader)? {
        let number = {
            let mut all = lock(&shared.seen);
            all.push(seen.clone());
            all.len() - 1
        };
        match (shared.script)(&seen, number) {
            Reply::Answer(status, headers, body) => {
                writer.write_all(&head(status, &headers, body.len()))?;
                writer.write_all(&body)?;
            }
            Reply::Close => return Ok(()),
            Reply::Cut(headers, body) => {
                writer.write_all(&head(200, &headers, body.len() + 100))?;
                return writer.write_all(&body);
            }
            Reply::Hang => {
                // A client that gives up closes its connection.
                let mut rest = Vec::new();
                drop(reader.read_to_end(&mut rest));
                // Nobody may be waiting for it.
                let _ = lock(&shared.gone).send(());
                return Ok(());
            }
        }
    }
    Ok(())
}

fn head(status: u16, headers: &[(&str, String)], length: usize) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} x\r\n");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        head.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {length}\r\n\r\n"));
    head.into_bytes()
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Seen>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut seen = Seen {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        ..Seen::default()
    };
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim().to_owned();
        seen.headers.push((name.to_ascii_lowercase(), value));
    }
    let length = seen.header("content-length").and_then(|n| n.parse().ok());
    seen.body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut seen.body)?;
    Ok(Some(seen))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
