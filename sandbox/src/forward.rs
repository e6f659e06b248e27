//! A port of the loopback whose connections go to a Unix socket.

use std::path::Path;
use std::sync::Arc;

use tokio::net::{TcpListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections at the same time; further ones wait to be accepted.
const CONNECTIONS: usize = 256;

/// Forwards until it is dropped, and every connection with it.
pub(crate) async fn forward(listener: TcpListener, socket: &Path) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let Ok((mut client, _)) = listener.accept().await else {
            // Out of files, most likely: a connection that ends makes room for the next.
            if connections.join_next().await.is_none() {
                tokio::task::yield_now().await;
            }
            continue;
        };
        let socket = socket.to_path_buf();
        connections.spawn(async move {
            let _place = place;
            // Answers are short lines; waiting to fill a packet would hold them up.
            let _ = client.set_nodelay(true);
            // The client sees the relay's refusal as a closed connection.
            if let Ok(mut relay) = UnixStream::connect(socket).await {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut relay).await;
            }
        });
    }
}
