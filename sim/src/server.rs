//! The simulated model behind HTTP, so that every real chat backend can be driven end to end on
//! loopback (chapter 7).
//!
//! Chat completions and messages, the list of models, and three control addresses: `/sim/stats`,
//! `/sim/reset` and `/sim/config`. Memory is bounded by the open connections (which the limit of
//! open files bounds), one body of at most [`BODY_MAX`] bytes each, and the remembered keys.

mod answer;
mod handle;
mod route;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::model::SimulatedModel;

/// Where the server listens if nothing else is said: loopback, a free port.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:0";

/// Largest request body, in bytes.
pub const BODY_MAX: usize = 64 << 20;

/// Connections that wait to be accepted: a load test opens thousands at once.
const BACKLOG: u32 = 4096;
/// How long calls in flight may finish after a shutdown.
const DRAIN: Duration = Duration::from_secs(1);
/// Pause after a failed accept, for example when all file handles are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}`: {source}; expected `HOST:PORT`, port 0 for a free one")]
pub struct BindError {
    /// What was asked for.
    pub address: String,
    /// The system's answer.
    pub source: std::io::Error,
}

/// Opens a listener on `HOST:PORT`; its `local_addr` tells the port that was taken.
///
/// # Errors
/// The address is none, or the system refuses it.
pub async fn bind(address: &str) -> Result<TcpListener, BindError> {
    let error = |source| BindError {
        address: address.to_owned(),
        source,
    };
    let mut last = std::io::Error::other("the name has no address");
    for resolved in tokio::net::lookup_host(address).await.map_err(error)? {
        match listen(resolved) {
            Ok(listener) => return Ok(listener),
            Err(e) => last = e,
        }
    }
    Err(error(last))
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves `model` until `shutdown` is over; then calls in flight get a second to finish.
///
/// Clients may vanish at any time: their calls count as aborted.
pub async fn serve(
    listener: TcpListener,
    model: Arc<SimulatedModel>,
    shutdown: impl Future<Output = ()>,
) {
    let (stop, stopped) = watch::channel(());
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            // Reaps ended connections, so that the set holds only open ones.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let connection = connection(stream, Arc::clone(&model), stopped.clone());
                    connections.spawn(connection);
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    drop(stop);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        connections.shutdown().await;
    }
}

/// Serves one connection; a broken one is its client's business.
async fn connection(
    stream: TcpStream,
    model: Arc<SimulatedModel>,
    mut stopped: watch::Receiver<()>,
) {
    // Answers are small and whole: waiting to fill packets only adds latency.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| handle::handle(Arc::clone(&model), request));
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // An error here means that the client vanished, spoke no HTTP, or was cut on purpose.
        _ = connection.as_mut() => {}
        // The sender never sends; it is dropped at shutdown.
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            _ = connection.await;
        }
    }
}

#[cfg(test)]
mod tests;
