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
    /// When the last piece came.
    since: Instant,
    /// Wakes when it may have been silent for too long; set anew only then, not for each piece.
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
                    this.since = Instant::now();
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
                    let until = this.since + this.silence;
                    if until > this.asleep.deadline() {
                        this.asleep.as_mut().reset(until);
                        continue;
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
        let since = Instant::now();
        Self {
            inner,
            left: ANSWER_MAX,
            turn,
            silence,
            since,
            asleep: Box::pin(tokio::time::sleep_until(since + silence)),
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
        // The CLI went away, or was ended: what came so far was billed. Whether it would have come to its
        // end is told by how long the provider had been silent.
        let Some(ending) = self.ending.take() else {
            return;
        };
        ending.write(Over::Abandoned(self.since.elapsed()));
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
    /// Nobody wanted the rest; the provider had been silent for so long.
    Abandoned(Duration),
}

impl Ending {
    fn write(self, over: Over) {
        let (mut said, mut tokens) = self.tap.end();
        let log = &self.log;
        let texts = [&mut said.text, &mut said.reasoning];
        let calls = said.calls.iter_mut().map(|(_, arguments)| arguments);
        for text in texts.into_iter().chain(said.error.as_mut()).chain(calls) {
            log.redact(text);
        }
        let broken = |words: &str| {
            log.trouble(0, words, None);
            Passed::Failed(CallError::Connection {
                endpoint: log.endpoint().to_owned(),
                detail: words.to_owned(),
            })
        };
        // CLIs leave at the last event, be it an error; what the connection says after it is nobody's
        // concern.
        let is_counted = tokens.output > 0;
        let is_whole = said.finish.is_some() && is_counted;
        let over = match over {
            Over::Abandoned(_) if is_whole || said.error.is_some() => Over::Ended,
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
                None if said.finish.is_none() => {
                    let words = "the answer broke off";
                    said.error = Some(words.to_owned());
                    broken(words)
                }
                None => Passed::Answered(tokens.usage()),
            },
            Over::Abandoned(silent) => {
                // Behind the last event there is nothing to wait for.
                if said.finish.is_none() {
                    log.stalled(silent);
                }
                said.finish = None;
                Passed::Abandoned
            }
        };
        // Else whoever goes away before the count comes, or whose provider counts nothing, has used
        // nothing, and the task's cap is never reached.
        let calls = said
            .calls
            .iter()
            .map(|(name, said)| name.len() + said.len());
        let received = said.text.len() + said.reasoning.len() + calls.sum::<usize>();
        if !is_counted && (received > 0 || said.error.is_none()) {
            tokens.input = tokens.input.max(self.counted.input());
            tokens.output = tokens.output.max(received as u64 / TOKEN_BYTES);
        }
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body_util::BodyExt as _;
    use hyper::body::Body as _;

    use super::*;
    use crate::relay::{AtMost, Gate as _, Open, Plan, Record, Trouble, Wire};

    const SILENCE: Duration = Duration::from_secs(120);

    /// Says something once, and then nothing.
    struct Provider(Option<&'static str>);

    impl hyper::body::Body for Provider {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            match self.0.take() {
                Some(said) => Poll::Ready(Some(Ok(Frame::data(said.into())))),
                None => Poll::Pending,
            }
        }
    }

    /// An answer that begins and then says nothing, which the task leaves after so long.
    async fn left_after(begins: &'static str, silent: Duration) -> Record {
        let log = Arc::new(Log::new(&Plan::plain(), None));
        let ending = Ending {
            tap: Tap::new(Wire::Chat, true),
            request: Arc::default(),
            permit: Open.enter(AtMost::default()).await.unwrap(),
            counted: log.count(1, None).await.unwrap(),
            tries: 1,
            log: Arc::clone(&log),
        };
        let body = Provider(Some(begins)).boxed_unsync();
        let mut flow = Flow::new(body, None, SILENCE, ending);
        let first = flow.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), begins);
        let is_pending =
            poll_fn(|cx| Poll::Ready(Pin::new(&mut flow).poll_frame(cx).is_pending())).await;
        assert!(is_pending, "nothing more comes");
        tokio::time::advance(silent).await;
        drop(flow);
        log.record()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_left_in_its_midst_tells_how_long_it_had_not_gone_on() {
        let midst = "data: {\"choices\":[{\"delta\":{\"content\":\"We\"}}]}\n\n";
        for seconds in [0, 9, 11, 100] {
            let silent = Duration::from_secs(seconds);
            let record = left_after(midst, silent).await;
            assert_eq!(record.stalled, silent);
            // Whether it was too long is not told here.
            assert_eq!((record.trouble, record.failures), (None, 0));
            assert_eq!(record.exchanges[0].said.text, "We");
            assert_eq!(record.exchanges[0].said.finish, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_behind_the_last_event() {
        let last = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        let record = left_after(last, Duration::from_secs(100)).await;
        assert_eq!((record.stalled, record.trouble), (Duration::ZERO, None));
        let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
        let record = left_after(error, Duration::from_secs(1)).await;
        assert_eq!((record.stalled, record.failures), (Duration::ZERO, 1));
        let is_told = matches!(record.trouble, Some(Trouble::Provider { status: 0, .. }));
        assert!(is_told, "{:?}", record.trouble);
    }
}
