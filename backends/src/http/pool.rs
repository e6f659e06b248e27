//! Pools of connections.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tower_service::Service;

use super::connect::Connector;
use super::gate::Gates;

/// How many calls share one HTTP/2 connection: what servers allow at least, nearly all of them.
const CALLS_PER_CONNECTION: usize = 100;
/// Most HTTP/2 connections to one server.
const CONNECTIONS_MAX: usize = 64;
/// What of an answer may be under way on one HTTP/2 stream, in bytes.
const WINDOW: u32 = 1 << 20;

/// Connections to plain addresses.
pub(super) type Plain = Client<Connector, Full<Bytes>>;

pub(super) fn plain(connector: Connector) -> Plain {
    builder().build(connector)
}

/// Connections to TLS addresses.
///
/// A client keeps one HTTP/2 connection to a server, which carries no more calls at once than the
/// server allows; the others would wait in line. So there are several, and a call takes the first
/// one that has room: few calls share one connection, thousands spread over some.
pub(super) struct Tls(Vec<Connections>);

/// The connections of one client: one to a server that speaks HTTP/2.
pub(super) struct Connections {
    client: Client<Noticing, Full<Bytes>>,
    calls: Arc<AtomicUsize>,
    gates: Arc<Gates>,
}

/// A call's place on a connection; it is given back when this is dropped.
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tls {
    pub(super) fn new(config: &ClientConfig, connector: &Connector) -> Self {
        let connections = (0..CONNECTIONS_MAX).map(|_| {
            let gates = Arc::new(Gates::default());
            let https = HttpsConnectorBuilder::new()
                .with_tls_config(config.clone())
                .https_or_http()
                .enable_all_versions()
                .wrap_connector(connector.clone().counted(Arc::clone(&gates)));
            let noticing = Noticing {
                https,
                gates: Arc::clone(&gates),
            };
            Connections {
                client: builder().build(noticing),
                calls: Arc::default(),
                gates,
            }
        });
        Self(connections.collect())
    }

    /// Returns the connections for one more call, with its place.
    pub(super) fn connections(&self) -> (&Connections, Place) {
        let calls = |connections: &&Connections| connections.calls.load(Ordering::Relaxed);
        let mut all = self.0.iter();
        let first = all.find(|one| calls(one) < CALLS_PER_CONNECTION);
        let least = || self.0.iter().min_by_key(calls);
        let taken = first.or_else(least).unwrap_or(&self.0[0]);
        taken.calls.fetch_add(1, Ordering::Relaxed);
        (taken, Place(Arc::clone(&taken.calls)))
    }
}

impl Connections {
    /// Sends a request, on a connection that is open if there is one.
    pub(super) async fn request(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        let gate = self.gates.of(request.uri());
        let _opening = match &gate {
            Some(gate) => gate.pass().await,
            None => None,
        };
        self.client.request(request).await
    }
}

/// Opens TLS connections, and tells those who wait for the first one.
#[derive(Clone)]
struct Noticing {
    https: HttpsConnector<Connector>,
    gates: Arc<Gates>,
}

impl Service<Uri> for Noticing {
    type Response = <HttpsConnector<Connector> as Service<Uri>>::Response;
    type Error = <HttpsConnector<Connector> as Service<Uri>>::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let gate = self.gates.of(&to);
        let opening = self.https.call(to);
        Box::pin(async move {
            // The connector's own limit is for TCP alone; a handshake can hang as well.
            let opened = tokio::time::timeout(OPENING, opening).await;
            if let Some(gate) = gate {
                gate.open();
            }
            match opened {
                Ok(opened) => opened,
                Err(_) => Err(format!("no TLS connection within {OPENING:?}").into()),
            }
        })
    }
}

/// How long a connection may take to open, proxies and TLS included.
const OPENING: Duration = Duration::from_secs(20);

fn builder() -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(30))
        // A dead connection would otherwise hold all its calls until their limits.
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(20))
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(WINDOW * 8);
    builder
}
