//! A way to a server on which answers can be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Forwards connections to a server. When it is dropped, they end.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    doomed: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let doomed = Arc::new(AtomicUsize::new(0));
        let mut task = JoinSet::new();
        let shared = doomed.clone();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, to, shared.clone()));
            }
        });
        Self {
            port,
            doomed,
            _task: task,
        }
    }

    /// Loses the answer of the next call of a script, and the connection with it.
    pub(crate) fn lose_next(&self) {
        self.doomed.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether all answers that were to be lost are lost.
    pub(crate) fn is_done(&self) -> bool {
        self.doomed.load(Ordering::SeqCst) == 0
    }
}

async fn forward(mut client: TcpStream, to: u16, doomed: Arc<AtomicUsize>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await else {
        return;
    };
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut is_doomed = false;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(len @ 1..) = read else { return };
                let is_script = asked[..len].windows(7).any(|part| part == b"EVALSHA");
                let one_less = |count: usize| count.checked_sub(1);
                is_doomed |= is_script
                    && doomed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
                if server.write_all(&asked[..len]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(len @ 1..) = read else { return };
                if is_doomed || client.write_all(&answered[..len]).await.is_err() {
                    return;
                }
            }
        }
    }
}
