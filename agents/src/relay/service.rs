//! Takes requests of one sandbox, and hands answers on as they come.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use skillopt_runtime::redact::redact;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use super::allow::{self, Asked, Refusal};
use super::gate::{Gate, Permit};
use super::record::{Exchange, Record, Trouble, Writing};
use super::sse::Events;
use super::tap::Tap;
use super::translate::{self, Answering, Names};
use super::way_out::{Answer, Body, WayOut};
use super::{Plan, Wire};

/// Largest request, in bytes.
const BODY_MAX: usize = 64 << 20;
/// Most of a provider's error that is handed on and recorded, in bytes.
const ERROR_MAX: usize = 64 << 10;
/// Most connections of one sandbox at the same time.
const CONNECTIONS_MAX: usize = 64;
/// Pause after a failed accept, for example when all file handles are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// A silence of this part of the one that ends an answer is the provider's fault, if the task ends in it.
const STALLED_PART: u32 = 12;
/// Headers of a CLI that reach the provider.
const PASSED: &[&str] = &["anthropic-version", "anthropic-beta", "openai-beta"];

/// The way out of one sandbox.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    plan: Plan,
    way_out: Arc<dyn WayOut>,
    gate: Arc<dyn Gate>,
    record: Writing,
    secrets: Vec<String>,
    connections: Mutex<JoinSet<()>>,
}

impl Relay {
    /// Makes a relay; it serves nobody yet.
    #[must_use]
    pub fn new(plan: Plan, way_out: Arc<dyn WayOut>, gate: Arc<dyn Gate>) -> Self {
        let values = plan
            .credential
            .values()
            .filter_map(|value| value.to_str().ok());
        let secrets = values.map(|value| value.trim_start_matches("Bearer ").to_owned());
        Self(Arc::new(Inner {
            secrets: secrets.collect(),
            plan,
            way_out,
            gate,
            record: Writing::default(),
            connections: Mutex::new(JoinSet::new()),
        }))
    }

    /// Returns what went through so far.
    #[must_use]
    pub fn record(&self) -> Record {
        self.0.record.lock().clone()
    }

    /// Serves a Unix socket until dropped; [`Self::close`] ends what is still under way.
    pub async fn serve_unix(&self, listener: UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.take(stream),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// Serves a port until dropped, where a sandbox shares the network of its host.
    pub async fn serve(&self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if stream.set_nodelay(true).is_ok() => self.take(stream),
                Ok(_) => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    /// Takes a connection; one too many is closed at once.
    fn take<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut connections = self.connections();
        while connections.try_join_next().is_some() {}
        if connections.len() < CONNECTIONS_MAX {
            connections.spawn(connection(stream, self.clone()));
        }
    }

    fn connections(&self) -> MutexGuard<'_, JoinSet<()>> {
        // No section under this lock can panic half-way.
        self.0
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is under way and waits until it is recorded.
    pub async fn close(&self) {
        let mut connections = std::mem::take(&mut *self.connections());
        connections.shutdown().await;
    }
}

async fn connection<S>(stream: S, relay: Relay)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let relay = relay.clone();
        async move { Ok::<_, std::convert::Infallible>(relay.0.handle(request).await) }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    // An error means that the CLI went away.
    drop(connection.await);
}

/// A request that may leave.
struct Leaving {
    request: Arc<Value>,
    body: Bytes,
    uri: Uri,
    headers: HeaderMap,
    is_stream: bool,
    names: Option<Names>,
}

impl Inner {
    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let wire = self.plan.cli;
        let asked = match allow::asked(wire, &parts.method, parts.uri.path()) {
            Ok(Asked::Presence) => return json_answer(StatusCode::OK, &Value::Bool(true)),
            Ok(Asked::Models) => {
                return json_answer(StatusCode::OK, &allow::models(&self.plan.model));
            }
            Ok(Asked::Answer) => Limited::new(body, BODY_MAX).collect().await,
            Err(refusal) => return self.refuse(refusal),
        };
        let body = match asked {
            Ok(body) => body.to_bytes(),
            Err(e) => return self.refuse(Refusal::Body(e.to_string())),
        };
        let leaving = match self.check(&parts, &body) {
            Ok(leaving) => leaving,
            Err(refusal) => return self.refuse(refusal),
        };
        let permit = match self.gate.enter(leaving.body.len() as u64).await {
            Ok(permit) => permit,
            Err(why) => {
                self.record.lock().trouble = Some(Trouble::Gate(why.clone()));
                return self.say_error(StatusCode::SERVICE_UNAVAILABLE, &why);
            }
        };
        let waiting = Waiting {
            relay: &self,
            last: AtomicU16::new(0),
            is_over: false,
        };
        let (answer, tries) = self.ask(&leaving, &waiting.last).await;
        waiting.end();
        match answer {
            Ok(answer) if answer.status() == StatusCode::OK => {
                self.hand_on(answer, leaving, permit, tries)
            }
            Ok(answer) => self.fail(answer, leaving, permit, tries).await,
            Err(words) => {
                self.record.lock().requests -= 1;
                self.trouble(0, &words, None);
                self.say_error(StatusCode::BAD_GATEWAY, &words)
            }
        }
    }

    fn refuse(&self, refusal: Refusal) -> Answer {
        let (status, words) = (refusal.status(), refusal.to_string());
        self.record.refuse(refusal);
        self.say_error(status, &words)
    }

    fn say_error(&self, status: StatusCode, words: &str) -> Answer {
        let words = redact(words, &self.secrets());
        json_answer(
            status,
            &allow::error(self.plan.cli, status.as_u16(), &words),
        )
    }

    fn secrets(&self) -> Vec<&str> {
        self.secrets.iter().map(String::as_str).collect()
    }

    fn trouble(&self, status: u16, words: &str, retry_after: Option<Duration>) {
        let words = redact(words, &self.secrets());
        let retry_after_ms =
            retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self.record.lock().trouble = Some(Trouble::Provider {
            status,
            words: words.chars().take(300).collect(),
            retry_after_ms,
        });
    }

    /// Holds a request against the plan.
    fn check(&self, parts: &http::request::Parts, body: &Bytes) -> Result<Leaving, Refusal> {
        let Plan {
            cli,
            provider,
            model,
            caps,
            ..
        } = &self.plan;
        let path = parts.uri.path();
        let request: Value =
            serde_json::from_slice(body).map_err(|e| Refusal::Body(e.to_string()))?;
        allow::check(*cli, &request)?;
        let asked = allow::model_of(*cli, path, &request);
        if asked != *model {
            return Err(Refusal::Model(asked));
        }
        {
            let mut record = self.record.lock();
            if caps.requests > 0 && record.requests >= caps.requests {
                return Err(Refusal::Requests(caps.requests));
            }
            if caps.tokens > 0 && record.tokens.total() >= caps.tokens {
                return Err(Refusal::Tokens(caps.tokens));
            }
            record.requests += 1;
        }
        let is_stream = match cli {
            Wire::Gemini => path.contains(":streamGenerateContent"),
            _ => request["stream"] == true,
        };
        let mut names = None;
        let body = match (cli, provider) {
            (Wire::Responses, Wire::Chat) => {
                let (chat, known) = translate::request(&request);
                names = Some(known);
                chat.to_string()
            }
            (Wire::Chat, _) if is_stream && request["stream_options"]["include_usage"] != true => {
                // Else nobody would know what the answer came to.
                let mut counted = request.clone();
                counted["stream_options"]["include_usage"] = true.into();
                counted.to_string()
            }
            // Never the bytes themselves: a key that stands twice could mean two things.
            _ => request.to_string(),
        };
        Ok(Leaving {
            uri: self.uri(path, is_stream)?,
            headers: self.headers(&parts.headers, is_stream),
            request: Arc::new(request),
            body: body.into(),
            is_stream,
            names,
        })
    }

    fn uri(&self, path: &str, is_stream: bool) -> Result<Uri, Refusal> {
        let base = self.plan.address.trim_end_matches('/');
        let own = match self.plan.provider {
            Wire::Responses => "/responses".to_owned(),
            Wire::Chat => "/chat/completions".to_owned(),
            Wire::Messages => "/messages".to_owned(),
            Wire::Gemini => {
                let action = path
                    .rsplit_once(':')
                    .map_or("generateContent", |(_, action)| action);
                let query = if is_stream { "?alt=sse" } else { "" };
                format!("/models/{}:{action}{query}", self.plan.model)
            }
        };
        let address = format!("{base}{own}");
        address.parse().map_err(|_| Refusal::Path(own))
    }

    fn headers(&self, given: &HeaderMap, is_stream: bool) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = if is_stream {
            "text/event-stream"
        } else {
            "application/json"
        };
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        for name in PASSED {
            if let Some(value) = given.get(*name) {
                headers.insert(*name, value.clone());
            }
        }
        for (name, value) in &self.plan.credential {
            headers.insert(name, value.clone());
        }
        headers
    }

    /// Asks until there is an answer worth handing on.
    /// `last` is the status of the last try that failed.
    async fn ask(&self, leaving: &Leaving, last: &AtomicU16) -> (Result<Answer, String>, u32) {
        let tries = self.plan.tries;
        let mut failed = 0;
        loop {
            let answer = self.way_out.post(
                &leaving.uri,
                leaving.headers.clone(),
                leaving.body.clone(),
                tries.first_byte,
            );
            let answer = answer.await;
            failed += 1;
            let wait = match &answer {
                Ok(answer) if may_pass(answer.status()) => {
                    last.store(answer.status().as_u16(), Ordering::Relaxed);
                    retry_after(answer.headers())
                }
                Ok(_) => return (answer, failed),
                Err(_) => None,
            };
            let own = tries
                .base
                .saturating_mul(1 << (failed - 1).min(16))
                .min(tries.cap);
            let wait = wait.unwrap_or(own);
            if failed >= tries.attempts.max(1) || wait > tries.cap {
                return (answer, failed);
            }
            drop(answer);
            tokio::time::sleep(wait).await;
        }
    }

    /// Hands an answer on while it comes.
    fn hand_on(
        self: Arc<Self>,
        answer: Answer,
        leaving: Leaving,
        permit: Box<dyn Permit>,
        tries: u32,
    ) -> Answer {
        let (parts, body) = answer.into_parts();
        let turn = leaving.names.map(|names| {
            if leaving.is_stream {
                Turn::Stream(Events::default(), Box::new(Answering::new(names)))
            } else {
                Turn::Whole(Vec::new(), names)
            }
        });
        let silence = self.plan.tries.silence;
        let flow = Flow {
            inner: body,
            turn,
            silence,
            asleep: Box::pin(tokio::time::sleep(silence)),
            is_over: false,
            ending: Some(Ending {
                tap: Tap::new(self.plan.provider, leaving.is_stream),
                request: leaving.request,
                permit,
                tries,
                relay: self,
            }),
        };
        let mut response = Response::new(flow.boxed_unsync());
        let kind = parts.headers.get(CONTENT_TYPE).cloned();
        let json = HeaderValue::from_static("application/json");
        response
            .headers_mut()
            .insert(CONTENT_TYPE, kind.unwrap_or(json));
        response
    }

    /// Hands a provider's error on, and remembers it.
    async fn fail(
        &self,
        answer: Answer,
        leaving: Leaving,
        permit: Box<dyn Permit>,
        tries: u32,
    ) -> Answer {
        let (parts, body) = answer.into_parts();
        let status = parts.status;
        self.record.lock().requests -= 1;
        let bytes = match Limited::new(body, ERROR_MAX).collect().await {
            Ok(bytes) => bytes.to_bytes(),
            Err(_) => Bytes::new(),
        };
        let words = redact(&String::from_utf8_lossy(&bytes), &self.secrets());
        let wait = retry_after(&parts.headers);
        self.trouble(status.as_u16(), &words, wait);
        // A provider that refuses bills nothing.
        permit.settle(super::Tokens::default());
        let exchange = Exchange {
            request: leaving.request,
            status: status.as_u16(),
            tries,
            said: super::Said {
                error: Some(words.chars().take(300).collect()),
                ..super::Said::default()
            },
            tokens: super::Tokens::default(),
        };
        self.record.add(exchange, &self.plan.marker);
        let is_json = serde_json::from_str::<Value>(&words).is_ok();
        let body = if is_json && self.plan.cli == self.plan.provider {
            words
        } else {
            let words: String = words.chars().take(300).collect();
            allow::error(self.plan.cli, status.as_u16(), &words).to_string()
        };
        let mut response = plain(status, body);
        if let Some(wait) = parts.headers.get(RETRY_AFTER) {
            response.headers_mut().insert(RETRY_AFTER, wait.clone());
        }
        response
    }
}

/// Returns whether the same request may succeed later.
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms")
        .map(|ms| ms / 1_000.0)
        .or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn json_answer(status: StatusCode, body: &Value) -> Answer {
    plain(status, body.to_string())
}

fn plain(status: StatusCode, body: String) -> Answer {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// How an answer is turned into what the CLI speaks.
enum Turn {
    Stream(Events, Box<Answering>),
    Whole(Vec<u8>, Names),
}

impl Turn {
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
struct Flow {
    inner: Body,
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
struct Ending {
    tap: Tap,
    request: Arc<Value>,
    permit: Box<dyn Permit>,
    tries: u32,
    relay: Arc<Inner>,
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
        let (mut said, tokens) = self.tap.end();
        let secrets = self.relay.secrets();
        for text in [
            Some(&mut said.text),
            Some(&mut said.reasoning),
            said.error.as_mut(),
        ] {
            let Some(text) = text else { continue };
            *text = redact(text, &secrets);
        }
        match over {
            Over::Broken(words) => {
                self.relay.trouble(0, &words, None);
                said.error = Some(words);
                said.finish = None;
            }
            Over::Ended => match &said.error {
                Some(words) => self.relay.trouble(0, words, None),
                None if said.finish.is_none() => {
                    self.relay.trouble(0, "the answer broke off", None);
                }
                None => {}
            },
            Over::Abandoned => said.finish = None,
        }
        // Without counts nobody knows what it was; then it is settled as sent and unanswered.
        if tokens.total() > 0 {
            self.permit.settle(tokens);
        }
        let exchange = Exchange {
            request: self.request,
            status: 200,
            tries: self.tries,
            said,
            tokens,
        };
        self.relay.record.add(exchange, &self.relay.plan.marker);
    }
}

/// A request that no answer has come to yet: if the task ends before one does, that was the
/// provider's doing.
struct Waiting<'a> {
    relay: &'a Inner,
    last: AtomicU16,
    is_over: bool,
}

impl Waiting<'_> {
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let status = self.last.load(Ordering::Relaxed);
            self.relay.trouble(
                status,
                "no answer came before the task's time was over",
                None,
            );
        }
    }
}
