//! Pools of connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use super::connect::Connector;

/// How many calls share one HTTP/2 connection: what servers allow at least, nearly all of them.
const CALLS_PER_CONNECTION: usize = 100;
/// Most HTTP/2 connections to one server.
const CONNECTIONS_MAX: usize = 64;
/// What of an answer may be under way on one HTTP/2 stream, in bytes.
const WINDOW: u32 = 1 << 20;

/// Connections to plain addresses.
pub(super) type Plain = Client<Connector, Full<Bytes>>;
type TlsClient = Client<HttpsConnector<Connector>, Full<Bytes>>;

pub(super) fn plain(connector: Connector) -> Plain {
    builder().build(connector)
}

/// Connections to TLS addresses.
///
/// A client keeps one HTTP/2 connection to a server, which carries no more calls at once than the
/// server allows; the others would wait in line. So there are several, and a call takes the first
/// one that has room: few calls share one connection, thousands spread over some.
pub(super) struct Tls {
    clients: Vec<(TlsClient, Arc<AtomicUsize>)>,
}

/// A call's place on a connection; it is given back when this is dropped.
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tls {
    pub(super) fn new(config: ClientConfig, connector: Connector) -> Self {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector);
        let clients = (0..CONNECTIONS_MAX).map(|_| {
            let client = builder().build(https.clone());
            (client, Arc::new(AtomicUsize::new(0)))
        });
        Self {
            clients: clients.collect(),
        }
    }

    /// Returns the client for one more call, with its place.
    pub(super) fn client(&self) -> (&TlsClient, Place) {
        let has_room = |(_, calls): &&(TlsClient, Arc<AtomicUsize>)| {
            calls.load(Ordering::Relaxed) < CALLS_PER_CONNECTION
        };
        let first = self.clients.iter().find(has_room);
        let least = || {
            let all = self.clients.iter();
            all.min_by_key(|(_, calls)| calls.load(Ordering::Relaxed))
        };
        let (client, calls) = first.or_else(least).unwrap_or(&self.clients[0]);
        calls.fetch_add(1, Ordering::Relaxed);
        (client, Place(Arc::clone(calls)))
    }
}

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
