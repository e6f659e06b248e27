//! A body that is written piece by piece, and may break.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Pieces on their way to a client.
pub(super) struct Pieces(Receiver<io::Result<Bytes>>);

/// Makes a body and where it is written to.
pub(super) fn pieces() -> (Sender<io::Result<Bytes>>, Pieces) {
    let (sender, receiver) = channel(8);
    (sender, Pieces(receiver))
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| piece.map(|p| p.map(Frame::data)))
    }
}
