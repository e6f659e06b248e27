//! The other sides of the tests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// An answer.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A certificate for `localhost`, with its file.
pub(crate) struct Certificate {
    folder: tempfile::TempDir,
    key: CertifiedKey<rcgen::KeyPair>,
}

impl Certificate {
    pub(crate) fn new() -> Self {
        let key = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), key.cert.pem()).unwrap();
        Self { folder, key }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn acceptor(&self, protocols: &[&[u8]]) -> TlsAcceptor {
        let private = PrivateKeyDer::try_from(self.key.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.key.cert.der().clone()], private)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A server. Its tasks end with it.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    heads: Mutex<Vec<String>>,
    bodies: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

impl Peer {
    /// Returns what the requests began with, in order.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().unwrap().clone()
    }

    /// Returns what the requests held, in order.
    pub(crate) fn bodies(&self) -> Vec<String> {
        self.seen.bodies.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Returns an address where nobody listens.
    pub(crate) async fn closed() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }

    async fn start<F>(serve: impl Fn(TcpStream, Arc<Seen>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let seen = Arc::clone(&seen);
            async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    seen.connections.fetch_add(1, Ordering::SeqCst);
                    connections.spawn(serve(stream, Arc::clone(&seen)));
                }
            }
        });
        Self {
            address,
            seen,
            _tasks: tasks,
        }
    }

    /// Gives each request the same answer, and keeps the connection.
    pub(crate) async fn answering(answer: &str) -> Self {
        Self::scripted(&[answer]).await
    }

    /// Gives one answer after the other, the last one again and again.
    pub(crate) async fn scripted(answers: &[&str]) -> Self {
        let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        Self::start(move |stream, seen| answer_all(stream, answers.clone(), seen)).await
    }

    /// Answers with JSON.
    pub(crate) async fn json(body: &str) -> Self {
        Self::answering(&json_answer(200, body)).await
    }

    /// Speaks TLS, and HTTP/1.1 in it.
    pub(crate) async fn tls(certificate: &Certificate, protocols: &[&[u8]]) -> Self {
        let acceptor = certificate.acceptor(protocols);
        Self::start(move |stream, seen| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer_all(stream, vec![OK.to_owned()], seen).await;
                }
            }
        })
        .await
    }

    /// Speaks HTTP/2 over TLS, and answers when `calls` of them are there.
    pub(crate) async fn http2(certificate: &Certificate, calls: usize) -> Self {
        let acceptor = certificate.acceptor(&[b"h2", b"http/1.1"]);
        let all = Arc::new(Barrier::new(calls));
        Self::start(move |stream, _| {
            let (acceptor, all) = (acceptor.clone(), Arc::clone(&all));
            async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let answer = service_fn(move |_: Request<Incoming>| {
                    let all = Arc::clone(&all);
                    async move {
                        all.wait().await;
                        let body = Full::new(Bytes::from_static(b"ok"));
                        Ok::<_, Infallible>(Response::new(body))
                    }
                });
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .max_concurrent_streams(100)
                    .serve_connection(TokioIo::new(stream), answer);
                // The client closes it at the end.
                let _ = server.await;
            }
        })
        .await
    }

    /// Opens tunnels to `to`, whatever was asked for.
    pub(crate) async fn tunnel(to: SocketAddr) -> Self {
        Self::start(move |mut stream, seen| async move {
            let head = head(&mut stream).await;
            seen.heads.lock().unwrap().push(head);
            let mut other = TcpStream::connect(to).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            // Either side may close it.
            let _ = copy_bidirectional(&mut stream, &mut other).await;
        })
        .await
    }

    /// Speaks SOCKS 5 without a password, and connects to `to`.
    pub(crate) async fn socks(to: SocketAddr) -> Self {
        Self::start(move |mut stream, seen| async move {
            let mut greeting = [0; 2];
            stream.read_exact(&mut greeting).await.unwrap();
            let mut methods = vec![0; usize::from(greeting[1])];
            stream.read_exact(&mut methods).await.unwrap();
            stream.write_all(&[5, 0]).await.unwrap();
            // Version, command, reserved, kind of address (3: a name), its length.
            let mut request = [0; 5];
            stream.read_exact(&mut request).await.unwrap();
            let mut name = vec![0; usize::from(request[4]) + 2];
            stream.read_exact(&mut name).await.unwrap();
            name.truncate(name.len() - 2);
            let name = String::from_utf8(name).unwrap();
            seen.heads.lock().unwrap().push(name);
            let mut other = TcpStream::connect(to).await.unwrap();
            let granted = [5, 0, 0, 1, 127, 0, 0, 1, 0, 80];
            stream.write_all(&granted).await.unwrap();
            // Either side may close it.
            let _ = copy_bidirectional(&mut stream, &mut other).await;
        })
        .await
    }
}

async fn answer_all<S>(mut stream: S, answers: Vec<String>, seen: Arc<Seen>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let head = head(&mut stream).await;
        if head.is_empty() {
            return;
        }
        let length = head
            .to_lowercase()
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next()?.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).await.is_err() {
            return;
        }
        let at = {
            let mut heads = seen.heads.lock().unwrap();
            heads.push(head);
            heads.len() - 1
        };
        let body = String::from_utf8(body).unwrap();
        seen.bodies.lock().unwrap().push(body);
        let answer = &answers[at.min(answers.len() - 1)];
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Writes an answer that holds JSON.
pub(crate) fn json_answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Reads up to the empty line; nothing if the peer is gone.
async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return String::new(),
        }
    }
    String::from_utf8(head).unwrap()
}
