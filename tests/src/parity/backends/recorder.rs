//! A server on the loopback interface that keeps what it is sent and answers from a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Map, Value};

use super::setup::Places;

/// A request as it came.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) method: String,
    pub(super) path: String,
    /// The query's names and values, unescaped.
    pub(super) query: Map<String, Value>,
    /// Headers by their names in small letters.
    pub(super) headers: Map<String, Value>,
    /// The body as JSON; null if there was none.
    pub(super) body: Value,
}

struct Shared {
    script: Vec<Value>,
    /// What a second of the script lasts, in seconds.
    pace: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    recorded: Vec<Recorded>,
    connections: Vec<(TcpStream, JoinHandle<()>)>,
    is_stopped: bool,
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // No section under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server.
pub(super) struct Recorder {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

impl Recorder {
    /// Starts it. The last entry of the script repeats.
    pub(super) fn start(script: &[Value], pace: f64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on the loopback interface");
        let address = listener.local_addr().expect("its address");
        let places = Places::new(address);
        let shared = Arc::new(Shared {
            script: script.iter().map(|answer| places.fill(answer)).collect(),
            pace,
            state: Mutex::default(),
        });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Self {
            address,
            shared,
            acceptor,
        }
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it with all its threads. Returns what was sent, in order.
    pub(super) fn stop(self) -> Vec<Recorded> {
        self.shared.state().is_stopped = true;
        // Wakes the thread that waits for connections.
        drop(TcpStream::connect(self.address));
        self.acceptor.join().expect("the acceptor does not panic");
        let connections = std::mem::take(&mut self.shared.state().connections);
        for (stream, thread) in connections {
            // It may be closed already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
            thread.join().expect("a connection does not panic");
        }
        std::mem::take(&mut self.shared.state().recorded)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        if shared.state().is_stopped {
            return;
        }
        let Ok(ours) = stream.try_clone() else {
            continue;
        };
        let thread = std::thread::spawn({
            let shared = Arc::clone(shared);
            move || {
                // A peer that goes away is no trouble of the recorder's.
                let _ = serve(&stream, &shared);
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        });
        shared.state().connections.push((ours, thread));
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader)? {
        let at = {
            let mut state = shared.state();
            state.recorded.push(request);
            state.recorded.len() - 1
        };
        let Some(answer) = shared.script.get(at).or(shared.script.last()) else {
            return Ok(());
        };
        if let Some(delay) = answer["delay_s"].as_f64() {
            // The delay is what the case is about; a closed peer is seen when the answer is sent.
            std::thread::sleep(Duration::from_secs_f64(delay * shared.pace));
        }
        if answer["drop"] == true {
            return Ok(());
        }
        respond(stream, answer)?;
    }
    Ok(())
}

fn read(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Recorded>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut headers = Map::new();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':') {
            headers.insert(name.to_lowercase(), value.trim().into());
        }
    }
    let length = headers.get("content-length").and_then(Value::as_str);
    let length = length.and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Recorded {
        method,
        path: unescaped(path),
        query: query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), unescaped(value).into()))
            .collect(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }))
}

/// Reads `%41` as `A`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn respond(mut stream: &TcpStream, answer: &Value) -> std::io::Result<()> {
    let body = match answer["raw"].as_str() {
        Some(raw) => raw.to_owned(),
        None => answer["body"].to_string(),
    };
    let status = answer["status"].as_u64().unwrap_or(200);
    let mut head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n",
        body.len()
    );
    let given = answer["headers"].as_object();
    for (name, value) in given.into_iter().flatten() {
        head.push_str(&format!(
            "{name}: {}\r\n",
            value.as_str().unwrap_or_default()
        ));
    }
    if given.is_none_or(|given| !given.contains_key("content-type")) {
        head.push_str("content-type: application/json\r\n");
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    stream.flush()
}
