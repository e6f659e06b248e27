//! A way out to named hosts, for a CLI that asks servers of its vendor by itself.
//!
//! It is an HTTP proxy that knows `CONNECT` alone: what passes is between the program and its
//! vendor, and is neither read nor counted.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 8 * 1024;
/// How long a request may take to arrive, and a connection to be made.
const PATIENCE: Duration = Duration::from_secs(20);
/// Connections at the same time.
const CONNECTIONS_MAX: usize = 64;
/// How many refusals are kept.
const REFUSED_MAX: usize = 20;

/// A host with its port, or all hosts below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// In small letters; begins with a dot if it stands for what is below.
    name: String,
    port: u16,
}

impl Host {
    /// Reads a list, e.g. `*.cursor.sh:443, 127.0.0.1:8080`.
    ///
    /// # Errors
    /// A part of it is no host with a port.
    pub(crate) fn list(text: &str) -> Result<Vec<Self>, String> {
        let parts = text.split(',').map(str::trim);
        let parts = parts.filter(|part| !part.is_empty());
        parts.map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no host with a port, such as `*.cursor.sh:443`");
        let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let name = name.strip_prefix('*').unwrap_or(name).to_lowercase();
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        };
        if !is_name(name.trim_start_matches('.')) {
            return Err(wrong());
        }
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self { name, port })
    }

    fn is(&self, name: &str, port: u16) -> bool {
        let name = name.to_lowercase();
        let is_below = self.name.starts_with('.') && name.ends_with(&self.name);
        self.port == port && (is_below || name == self.name)
    }
}

/// A tunnel of one task.
#[derive(Clone)]
pub(crate) struct Tunnel {
    hosts: Arc<[Host]>,
    refused: Arc<Mutex<Vec<String>>>,
    meter: Arc<Meter>,
}

impl Tunnel {
    pub(crate) fn new(hosts: &[Host]) -> Self {
        Self {
            hosts: hosts.into(),
            refused: Arc::default(),
            meter: Arc::default(),
        }
    }

    /// Returns what went through so far.
    pub(crate) fn passed(&self) -> Passed {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Passed {
            connections: count(&self.meter.connections),
            bytes_sent: count(&self.meter.sent),
            bytes_received: count(&self.meter.received),
        }
    }

    /// Serves until dropped; connections end with it.
    pub(crate) async fn serve(&self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            let taken = listener.accept().await;
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = taken else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            if connections.len() < CONNECTIONS_MAX {
                let tunnel = self.clone();
                // An end of either side is an end, and nothing to tell.
                connections.spawn(async move { drop(tunnel.connection(stream).await) });
            }
        }
    }

    /// Returns where the program wanted to go and was not let.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        // No section under this lock can panic half-way.
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connection(&self, mut inside: UnixStream) -> io::Result<()> {
        let Ok(head) = timeout(PATIENCE, head(&mut inside)).await else {
            return Ok(());
        };
        let (head, surplus) = head?;
        let line = head.lines().next().unwrap_or_default();
        let Some((name, port)) = wanted(line) else {
            self.refuse(line);
            return inside
                .write_all(answer("405 Method Not Allowed").as_bytes())
                .await;
        };
        if !self.hosts.iter().any(|host| host.is(name, port)) {
            self.refuse(&format!("{name}:{port}"));
            return inside.write_all(answer("403 Forbidden").as_bytes()).await;
        }
        match timeout(PATIENCE, TcpStream::connect((name, port))).await {
            Ok(Ok(outside)) => {
                self.meter.connections.fetch_add(1, Ordering::Relaxed);
                let mut outside = Metered(outside, Arc::clone(&self.meter));
                inside
                    .write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n")
                    .await?;
                outside.write_all(&surplus).await?;
                copy_bidirectional(&mut inside, &mut outside).await?;
                Ok(())
            }
            _ => inside.write_all(answer("502 Bad Gateway").as_bytes()).await,
        }
    }

    fn refuse(&self, what: &str) {
        let mut refused = self.lock();
        if refused.len() < REFUSED_MAX {
            let short: String = what.chars().take(120).collect();
            refused.push(short);
        }
    }
}

/// What went through a tunnel. It is encrypted for the vendor: requests, models and tokens cannot be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Connections that were let out.
    pub connections: u64,
    /// Bytes from the sandbox, those of the encryption included.
    pub bytes_sent: u64,
    /// Bytes into it.
    pub bytes_received: u64,
}

#[derive(Default)]
struct Meter {
    connections: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// A connection whose bytes are counted as they pass, so that those of one that is cut are counted, too.
struct Metered(TcpStream, Arc<Meter>);

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let done = Pin::new(&mut self.0).poll_read(cx, into);
        let count = into.filled().len() - before;
        self.1.received.fetch_add(count as u64, Ordering::Relaxed);
        done
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.0).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = done {
            self.1.sent.fetch_add(count as u64, Ordering::Relaxed);
        }
        done
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn answer(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// Reads the head of a request, and what came with it.
async fn head(stream: &mut UnixStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let surplus = bytes.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), surplus));
        }
        if bytes.len() > HEAD_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Returns where a request wants to be connected to.
fn wanted(line: &str) -> Option<(&str, u16)> {
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (name, port) = target.rsplit_once(':')?;
    Some((name, port.parse().ok()?)).filter(|_| method == "CONNECT")
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn only_named_hosts_are_let_through() {
        let hosts = Host::list("*.cursor.sh:443, 127.0.0.1:8080").unwrap();
        for (name, port, want) in [
            ("api2.cursor.sh", 443, true),
            ("API2.Cursor.SH", 443, true),
            ("cursor.sh", 443, false),
            ("evilcursor.sh", 443, false),
            ("api2.cursor.sh.evil.example", 443, false),
            ("api2.cursor.sh", 80, false),
            ("127.0.0.1", 8080, true),
            ("127.0.0.1", 6379, false),
        ] {
            let seen = hosts.iter().any(|host| host.is(name, port));
            assert_eq!(seen, want, "{name}:{port}");
        }
        for wrong in ["cursor.sh", "*:443", "a b:1", "x:99999", "http://x:1"] {
            assert!(Host::list(wrong).is_err(), "{wrong}");
        }
    }

    /// What the program gets for a request; the host behind it says `hello`.
    async fn asked(request: &str, port: u16) -> (String, Vec<String>, Passed) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("t.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let hosts = Host::list(&format!("127.0.0.1:{port}")).unwrap();
        let tunnel = Tunnel::new(&hosts);
        let mut program = UnixStream::connect(&socket).await.unwrap();
        let said = async {
            program.write_all(request.as_bytes()).await.unwrap();
            let mut said = String::new();
            program.read_to_string(&mut said).await.unwrap();
            said
        };
        tokio::select! {
            said = said => (said, tunnel.refused(), tunnel.passed()),
            () = tunnel.serve(listener) => unreachable!("it serves until dropped"),
        }
    }

    #[tokio::test]
    async fn a_connection_goes_to_its_host_and_others_are_told_no() {
        let host = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = host.local_addr().unwrap().port();
        let greets = async {
            let (mut stream, _) = host.accept().await.unwrap();
            let mut got = [0; 3];
            stream.read_exact(&mut got).await.unwrap();
            stream.write_all(b"hello").await.unwrap();
        };
        let connect = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\nabc");
        let ((said, refused, passed), ()) = tokio::join!(asked(&connect, port), greets);
        assert!(
            said.starts_with("HTTP/1.1 200") && said.ends_with("hello"),
            "{said}"
        );
        assert!(refused.is_empty());
        let want = Passed {
            connections: 1,
            bytes_sent: 3,
            bytes_received: 5,
        };
        assert_eq!(passed, want, "what the host sent and got, without the head");
        for (request, status) in [
            ("CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n", "403"),
            ("CONNECT example.com:443 HTTP/1.1\r\n\r\n", "403"),
            ("GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", "405"),
        ] {
            let (said, refused, passed) = asked(request, port).await;
            assert!(said.contains(status), "{request}: {said}");
            assert_eq!(refused.len(), 1, "{request}");
            assert_eq!(passed, Passed::default(), "{request}");
        }
    }
}
