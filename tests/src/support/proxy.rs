//! A TCP proxy that behaves as badly as a test likes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A word, and the one of the same length that comes in its place.
pub type Word = (&'static str, &'static str);

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
    /// What a request says whose answer may be swallowed; nothing: none is.
    marked: &'static str,
}

/// What does not change while it lives, and what it counts.
#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    /// Put in place of others on the way there, and on the way back.
    words: [&'static [Word]; 2],
    /// Connections that were not let through.
    refused: AtomicU64,
    /// Answers that are still to be swallowed.
    to_swallow: AtomicU64,
}

/// A proxy on a port of its own; it ends with the value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
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
        Self::start_translating(target, &[], &[])
    }

    /// Starts a proxy that puts words in place of others of the same length: `there` on the way to its
    /// target, `back` on the way from it.
    ///
    /// # Panics
    /// There is no free port, or two words are not of the same length.
    #[must_use]
    pub fn start_translating(target: u16, there: &'static [Word], back: &'static [Word]) -> Self {
        for (from, to) in there.iter().chain(back) {
            assert_eq!(from.len(), to.len(), "`{from}` and `{to}`");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (mode, seen) = watch::channel(Mode::default());
        let bound = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = bound.expect("a free port");
        let shared = Arc::new(Shared {
            target: SocketAddr::from(([127, 0, 0, 1], target)),
            words: [there, back],
            refused: AtomicU64::new(0),
            to_swallow: AtomicU64::new(0),
        });
        let port = listener.local_addr().expect("its address").port();
        // Ends with the runtime.
        drop(runtime.spawn(accept(listener, seen, Arc::clone(&shared))));
        Self {
            port,
            shared,
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
        self.shared.refused.load(Ordering::SeqCst)
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

    /// Lets `n` answers never arrive, of HTTP requests from now on that say `marked`: the connection of
    /// each stays, and is silent from then on.
    pub fn swallow(&self, n: u64, marked: &'static str) {
        self.shared.to_swallow.fetch_add(n, Ordering::SeqCst);
        self.mode.send_modify(|mode| mode.marked = marked);
    }

    /// Returns how many answers are still to be swallowed.
    #[must_use]
    pub fn to_swallow(&self) -> u64 {
        self.shared.to_swallow.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, mode: watch::Receiver<Mode>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else {
                    continue;
                };
                if mode.borrow().is_cut {
                    shared.refused.fetch_add(1, Ordering::SeqCst);
                } else {
                    connections.spawn(serve(client, mode.clone(), Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(client: TcpStream, mut mode: watch::Receiver<Mode>, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(shared.target).await else {
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
    let is_marked = AtomicBool::new(false);
    let pump = |way, words| Pump {
        way,
        mode: mode.clone(),
        translator: Translator::new(words),
        is_marked: &is_marked,
        to_swallow: &shared.to_swallow,
    };
    let [there, back] = shared.words;
    tokio::select! {
        () = broken => {}
        () = async {
            let there = pump(Way::There, there).run(from_client, to_server);
            let back = pump(Way::Back, back).run(from_server, to_client);
            // Either side closing ends both.
            tokio::select! { () = there => {} () = back => {} }
        } => {}
    }
    mode.mark_unchanged();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    There,
    Back,
}

/// One way of a connection.
struct Pump<'a> {
    way: Way,
    mode: watch::Receiver<Mode>,
    translator: Translator,
    /// Whether the answer to the request under way may be swallowed.
    is_marked: &'a AtomicBool,
    to_swallow: &'a AtomicU64,
}

impl Pump<'_> {
    async fn run(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = match from.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => n,
            };
            let piece = &buffer[..n];
            let delay = self.mode.borrow().delay;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if self.mode.wait_for(|m| !m.is_stalled).await.is_err() {
                return;
            }
            match self.way {
                Way::There => self.look_for_mark(piece),
                Way::Back if self.is_swallowed() => std::future::pending().await,
                Way::Back => {}
            }
            let written = match self.translator.translate(piece) {
                Some(translated) => to.write_all(&translated).await,
                None => to.write_all(piece).await,
            };
            if written.is_err() {
                return;
            }
        }
    }

    /// Head and body of a request may come by themselves.
    fn look_for_mark(&self, piece: &[u8]) {
        let marked = self.mode.borrow().marked.as_bytes();
        if marked.is_empty() {
            return;
        }
        let says = piece.windows(marked.len()).any(|part| part == marked);
        if piece.starts_with(b"POST ") || says {
            self.is_marked.store(says, Ordering::SeqCst);
        }
    }

    fn is_swallowed(&self) -> bool {
        let order = Ordering::SeqCst;
        self.is_marked.load(order)
            && self
                .to_swallow
                .fetch_update(order, order, |left| left.checked_sub(1))
                .is_ok()
    }
}

/// Puts words in place of others, also where a piece of data ends within one.
struct Translator {
    words: &'static [Word],
    /// The beginning of what may become a word.
    held: Vec<u8>,
}

impl Translator {
    const fn new(words: &'static [Word]) -> Self {
        Self {
            words,
            held: Vec::new(),
        }
    }

    /// Returns what goes on; nothing if it is the piece as it came.
    fn translate(&mut self, piece: &[u8]) -> Option<Vec<u8>> {
        if self.words.is_empty() {
            return None;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(piece);
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let whole = |(from, _): &&Word| rest.starts_with(from.as_bytes());
            let may_become = |(from, _): &Word| from.as_bytes().starts_with(rest);
            if let Some((from, to)) = self.words.iter().find(whole) {
                text[at..at + from.len()].copy_from_slice(to.as_bytes());
                at += from.len();
            } else if self.words.iter().any(may_become) {
                self.held = text.split_off(at);
            } else {
                at += 1;
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_also_where_they_are_cut() {
        let words: &[Word] = &[("v1 chat ", "v2 chat "), ("v2 chat ", "v3 chat ")];
        let text = b"$12\r\nv1 chat here\r\nv1 chit v2 chat v1 c\r\n";
        let wanted = b"$12\r\nv2 chat here\r\nv1 chit v3 chat v1 c\r\n";
        for cut in 0..text.len() {
            let mut translator = Translator::new(words);
            let mut told = Vec::new();
            for piece in [&text[..cut], &text[cut..]] {
                told.extend(translator.translate(piece).expect("there are words"));
            }
            assert_eq!(told, wanted, "cut at {cut}");
        }
    }

    #[test]
    fn without_words_a_piece_goes_on_as_it_came() {
        assert_eq!(Translator::new(&[]).translate(b"v1 chat "), None);
    }
}
