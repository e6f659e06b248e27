//! A model server that says what a script tells it to, for tests of chat backends and agent CLIs
//! (mock model server spec).
//!
//! It speaks OpenAI Responses, Anthropic Messages, Chat Completions and Gemini, on a port or a Unix
//! socket. Which reply is given depends on the request alone (`turn` counts the tool rounds in it),
//! so that parallel clients, retries and resumed conversations all get the right one. Start at
//! [`script`] for what a script says, at [`Mock`] to serve one.

mod api;
mod ask;
mod body;
mod control;
mod log;
mod pick;
pub mod script;
mod service;
mod state;

use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

pub use self::log::Entry;
pub use self::script::{Script, ScriptError};
use self::state::State;

/// A scripted model server.
#[derive(Clone)]
pub struct Mock {
    state: Arc<State>,
}

impl Mock {
    /// Makes a server of a script.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self {
            state: Arc::new(State::new(script)),
        }
    }

    /// Returns what was asked so far, the oldest first; at most the last 2,000 requests.
    #[must_use]
    pub fn requests(&self) -> Vec<Entry> {
        self.state.log.entries()
    }

    /// Serves a port until dropped.
    pub async fn serve(&self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    // Small events must not wait for each other.
                    if stream.set_nodelay(true).is_ok() {
                        connections.spawn(connection(stream, Arc::clone(&self.state)));
                    }
                },
            }
        }
    }

    /// Serves a Unix socket until dropped.
    pub async fn serve_unix(&self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(stream, Arc::clone(&self.state)));
                },
            }
        }
    }
}

async fn connection<S>(stream: S, state: Arc<State>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| service::handle(Arc::clone(&state), request));
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    // An error means that the client vanished, or that a fault cut it on purpose.
    drop(connection.await);
}

#[cfg(test)]
mod tests;
