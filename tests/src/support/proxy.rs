//! A TCP proxy that behaves as badly as a test likes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How it behaves now.
#[derive(Clone, Copy, Debug, Default)]
struct Mode {
    /// Nobody gets through: connections are closed, new ones at once.
    is_cut: bool,
    /// Connections stay, but nothing comes through.
    is_stalled: bool,
    /// Time that each piece of data takes.
    delay: Duration,
    /// Grows when all connections are reset.
    resets: u64,
}

/// A proxy on a port of its own; it ends with the value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    /// Connections that were not let through.
    refused: Arc<AtomicU64>,
    mode: watch::Sender<Mode>,
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts a proxy to a port of this machine.
    ///
    /// # Panics
    /// There is no free port.
    #[must_use]
    pub fn start(target: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (mode, seen) = watch::channel(Mode::default());
        let bound = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = bound.expect("a free port");
        let refused = Arc::new(AtomicU64::new(0));
        let port = listener.local_addr().expect("its address").port();
        // Ends with the runtime.
        drop(runtime.spawn(accept(
            listener,
            SocketAddr::from(([127, 0, 0, 1], target)),
            seen,
            Arc::clone(&refused),
        )));
        Self {
            port,
            refused,
            mode,
            runtime: Some(runtime),
        }
    }

    /// Returns its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns how many connections were not let through.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Closes all connections and lets no new one through.
    pub fn cut(&self) {
        self.mode.send_modify(|mode| mode.is_cut = true);
    }

    /// Keeps all connections, but lets nothing through.
    pub fn stall(&self) {
        self.mode.send_modify(|mode| mode.is_stalled = true);
    }

    /// Lets everything through again; what was held back by [`Self::stall`] comes, too.
    pub fn heal(&self) {
        self.mode.send_modify(|mode| {
            mode.is_cut = false;
            mode.is_stalled = false;
            mode.delay = Duration::ZERO;
        });
    }

    /// Makes each piece of data take so long, both ways.
    pub fn delay(&self, delay: Duration) {
        self.mode.send_modify(|mode| mode.delay = delay);
    }

    /// Resets all connections; new ones get through.
    pub fn reset(&self) {
        self.mode.send_modify(|mode| mode.resets += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    mode: watch::Receiver<Mode>,
    refused: Arc<AtomicU64>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else {
                    continue;
                };
                if mode.borrow().is_cut {
                    refused.fetch_add(1, Ordering::SeqCst);
                } else {
                    connections.spawn(serve(client, target, mode.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(client: TcpStream, target: SocketAddr, mut mode: watch::Receiver<Mode>) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    drop(client.set_nodelay(true));
    drop(server.set_nodelay(true));
    // A connection with this set is reset when it is closed.
    drop(client.set_zero_linger());
    drop(server.set_zero_linger());
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let resets = mode.borrow().resets;
    let broken = {
        let mut mode = mode.clone();
        async move { drop(mode.wait_for(|m| m.is_cut || m.resets != resets).await) }
    };
    tokio::select! {
        () = broken => {}
        () = async {
            let there = pump(from_client, to_server, mode.clone());
            let back = pump(from_server, to_client, mode.clone());
            // Either side closing ends both.
            tokio::select! { () = there => {} () = back => {} }
        } => {}
    }
    mode.mark_unchanged();
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => n,
        };
        let delay = mode.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if mode.wait_for(|m| !m.is_stalled).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
