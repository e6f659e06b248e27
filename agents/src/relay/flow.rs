//! An answer on its way from the provider to the CLI.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Frame;
use serde_json::Value;
use skillopt_backends::{CallError, Passed, Permit};
use tokio::time::{Instant, Sleep};

use super::log::{Counted, Log, TOKEN_BYTES};
use super::record::Exchange;
use super::sse::Events;
use super::tap::Tap;
use super::translate::{self, Answering, Names};
use super::way_out::Body;

/// Largest answer, in bytes.
const ANSWER_MAX: usize = 64 << 20;
/// A silence of this part of the one that ends an answer is the provider's fault, if the task ends in it.
const STALLED_PART: u32 = 12;

/// How an answer is turned into what the CLI speaks.
pub(super) enum Turn {
    Stream(Events, Box<Answering>),
    Whole(Vec<u8>, Names),
}

impl Turn {
    pub(super) fn new(names: Names, is_stream: bool) -> Self {
        if is_stream {
            Self::Stream(Events::default(), Box::new(Answering::new(names)))
        } else {
            Self::Whole(Vec::new(), names)
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> String {
        match self {
            Self::Stream(events, answering) => {
                let mut out = String::new();
                events.feed(bytes, |data| answering.event(data, &mut out));
                out
            }
            Self::Whole(whole, _) => {
                whole.extend_from_slice(bytes);
                String::new()
            }
        }
    }

    fn end(self) -> String {
        match self {
            Self::Stream(mut events, mut answering) => {
                let mut out = String::new();
                events.end(|data| answering.event(data, &mut out));
                answering.end(&mut out);
                out
            }
            Self::Whole(bytes, names) => match serde_json::from_slice::<Value>(&bytes) {
                Ok(chat) => translate::whole(&chat, &names).to_string(),
                Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
            },
        }
    }
}

/// An answer on its way.
pub(super) struct Flow {
    inner: Body,
    left: usize,
    turn: Option<Turn>,
    silence: Duration,
    asleep: Pin<Box<Sleep>>,
    is_over: bool,
    ending: Option<Ending>,
}

impl hyper::body::Body for Flow {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        loop {
            if this.is_over {
                return Poll::Ready(None);
            }
            match Pin::new(&mut this.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    this.asleep.as_mut().reset(Instant::now() + this.silence);
                    let Ok(bytes) = frame.into_data() else {
                        continue;
                    };
                    let Some(left) = this.left.checked_sub(bytes.len()) else {
                        let words = format!("the answer is larger than {ANSWER_MAX} bytes");
                        this.close(Some(words.clone()));
                        return Poll::Ready(Some(Err(io::Error::other(words))));
                    };
                    this.left = left;
                    if let Some(ending) = &mut this.ending {
                        ending.tap.feed(&bytes);
                    }
                    let Some(turn) = &mut this.turn else {
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    };
                    let turned = turn.feed(&bytes);
                    if !turned.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(turned.into()))));
                    }
                }
                Poll::Ready(Some(Err(e))) => {
                    this.close(Some(e.to_string()));
                    return Poll::Ready(Some(Err(e)));
                }
                Poll::Ready(None) => {
                    this.close(None);
                    let last = this.turn.take().map(Turn::end).unwrap_or_default();
                    if last.is_empty() {
                        return Poll::Ready(None);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(last.into()))));
                }
                Poll::Pending => {
                    if this.asleep.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let words = format!("the provider was silent for {:?}", this.silence);
                    this.close(Some(words.clone()));
                    return Poll::Ready(Some(Err(io::Error::other(words))));
                }
            }
        }
    }
}

impl Flow {
    pub(super) fn new(inner: Body, turn: Option<Turn>, silence: Duration, ending: Ending) -> Self {
        Self {
            inner,
            left: ANSWER_MAX,
            turn,
            silence,
            asleep: Box::pin(tokio::time::sleep(silence)),
            is_over: false,
            ending: Some(ending),
        }
    }

    fn close(&mut self, broken: Option<String>) {
        self.is_over = true;
        if let Some(ending) = self.ending.take() {
            ending.write(broken.map_or(Over::Ended, Over::Broken));
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // The CLI went away, or was ended: what came so far was billed. Whose fault it is that it did
        // not come to an end is told by how long the provider had been silent.
        let Some(ending) = self.ending.take() else {
            return;
        };
        let since = self.asleep.deadline().checked_sub(self.silence);
        let silent = since.map_or(Duration::ZERO, |since| since.elapsed());
        ending.write(if silent >= self.silence / STALLED_PART {
            Over::Broken(format!(
                "the provider was silent for {} s",
                silent.as_secs()
            ))
        } else {
            Over::Abandoned
        });
    }
}

/// What is written when an answer is over, however it ends.
pub(super) struct Ending {
    pub(super) tap: Tap,
    pub(super) request: Arc<Value>,
    pub(super) permit: Box<dyn Permit>,
    pub(super) counted: Counted,
    pub(super) tries: u32,
    pub(super) log: Arc<Log>,
}

/// How an answer came to its end.
enum Over {
    /// By itself.
    Ended,
    /// It broke.
    Broken(String),
    /// Nobody wanted the rest.
    Abandoned,
}

impl Ending {
    fn write(self, over: Over) {
        let (mut said, mut tokens) = self.tap.end();
        let log = &self.log;
        for text in [
            Some(&mut said.text),
            Some(&mut said.reasoning),
            said.error.as_mut(),
        ] {
            let Some(text) = text else { continue };
            *text = log.redacted(text);
        }
        let broken = |words: &str| {
            log.trouble(0, words, None);
            Passed::Failed(CallError::Connection {
                endpoint: log.endpoint().to_owned(),
                detail: words.to_owned(),
            })
        };
        // CLIs leave at the last event; what the connection says after it is nobody's concern.
        let is_whole = said.finish.is_some() && said.error.is_none() && tokens.output > 0;
        let over = match over {
            Over::Abandoned if is_whole => Over::Ended,
            over => over,
        };
        let passed = match over {
            Over::Broken(words) => {
                said.finish = None;
                let passed = broken(&words);
                said.error = Some(words);
                passed
            }
            Over::Ended => match &said.error {
                Some(words) => broken(words),
                None if said.finish.is_none() => broken("the answer broke off"),
                None => Passed::Answered(tokens.usage()),
            },
            Over::Abandoned => {
                said.finish = None;
                // Else whoever goes away before the count comes has used nothing.
                let received = (said.text.len() + said.reasoning.len()) as u64;
                tokens.input = tokens.input.max(self.counted.input());
                tokens.output = tokens.output.max(received / TOKEN_BYTES);
                Passed::Abandoned
            }
        };
        self.permit.close(passed);
        let exchange = Exchange {
            request: self.request,
            status: 200,
            tries: self.tries,
            said,
            tokens,
        };
        log.add(exchange);
        self.counted.keep();
    }
}
