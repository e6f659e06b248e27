//! Opens connections, straight or through a proxy.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::gate::{Gates, Live};
use super::{CONNECT_TIMEOUT, Transport};

/// Where a machine asks for its own identity: never through a proxy.
const METADATA: &str = "169.254.169.254";

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    proxies: Arc<Matcher>,
    /// Where open connections are counted, if they are.
    gates: Option<Arc<Gates>>,
}

impl Connector {
    pub(super) fn new(transport: &Transport) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let proxies = Matcher::builder()
            .http(transport.http_proxy.clone().unwrap_or_default())
            .https(transport.https_proxy.clone().unwrap_or_default())
            .no(format!("{METADATA},{}", transport.no_proxy))
            .build();
        Self {
            tcp,
            proxies: Arc::new(proxies),
            gates: None,
        }
    }

    /// Returns a connector whose open connections are counted.
    pub(super) fn counted(self, gates: Arc<Gates>) -> Self {
        Self {
            gates: Some(gates),
            ..self
        }
    }

    /// Adds what the proxy of a plain address wants to know.
    pub(super) fn authorize<B>(&self, request: &mut Request<B>) {
        let proxy = self.proxies.intercept(request.uri());
        let proxy = proxy.filter(|proxy| !is_socks(proxy));
        if let Some(value) = proxy.as_ref().and_then(Intercept::basic_auth) {
            let mut value = value.clone();
            value.set_sensitive(true);
            let headers = request.headers_mut();
            headers.insert(http::header::PROXY_AUTHORIZATION, value);
        }
    }
}

fn is_socks(proxy: &Intercept) -> bool {
    matches!(proxy.uri().scheme_str(), Some("socks5" | "socks5h"))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Opening = Pin<Box<dyn Future<Output = Result<Link, BoxError>> + Send>>;

impl Service<Uri> for Connector {
    type Response = Link;
    type Error = BoxError;
    type Future = Opening;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Opening {
        let proxy = self.proxies.intercept(&to);
        let mut tcp = self.tcp.clone();
        let gate = self.gates.as_ref().and_then(|gates| gates.of(&to));
        let live = gate.map(|gate| gate.connect());
        Box::pin(async move {
            let Some(proxy) = proxy else {
                let stream = tcp.call(to).await?;
                return Ok(Link::new(stream, false, live));
            };
            let address = proxy.uri().clone();
            let named = |cause: BoxError| -> BoxError {
                // Its address without a user and a password.
                let host = address.host().unwrap_or_default();
                format!("proxy `{host}`: {}", super::body::chain(&*cause)).into()
            };
            if is_socks(&proxy) {
                let mut socks = SocksV5::new(address.clone(), tcp).local_dns(false);
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                let stream = socks.call(to).await.map_err(|e| named(e.into()))?;
                return Ok(Link::new(stream, false, live));
            }
            if address.scheme_str() != Some("http") {
                return Err(named("only `http` and `socks5` proxies can be used".into()));
            }
            if to.scheme_str() == Some("https") {
                let mut tunnel = Tunnel::new(address.clone(), tcp);
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                let stream = tunnel.call(to).await.map_err(|e| named(e.into()))?;
                return Ok(Link::new(stream, false, live));
            }
            let stream = tcp.call(address.clone()).await;
            let stream = stream.map_err(|e| named(e.into()))?;
            Ok(Link::new(stream, true, live))
        })
    }
}

/// An open connection.
pub(super) struct Link {
    stream: TokioIo<TcpStream>,
    /// Whether the peer is a proxy that has to be told whole addresses.
    is_proxy: bool,
    /// Counts it among the open ones.
    _live: Option<Live>,
}

impl Link {
    const fn new(stream: TokioIo<TcpStream>, is_proxy: bool, live: Option<Live>) -> Self {
        Self {
            stream,
            is_proxy,
            _live: live,
        }
    }
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_proxy)
    }
}

impl Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl Write for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
