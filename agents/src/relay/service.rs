//! Takes requests of one sandbox, and hands answers on as they come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use skillopt_backends::{Gate, retry_after};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::allow::{self, Asked, Refusal};
use super::asking::{Asking, Tried, Waiting, read};
use super::flow::{Ending, Flow, Turn};
use super::leaving::Leaving;
use super::log::{Counted, Log};
use super::record::{Exchange, Record, Said, Tokens};
use super::tap::Tap;
use super::way_out::{Answer, WayOut};
use super::{Plan, fault};

/// Largest request, in bytes.
const BODY_MAX: usize = 32 << 20;
/// Most bytes of requests of one sandbox at the same time.
const BODIES_MAX: usize = 2 * BODY_MAX;
/// Most bytes that are made room for before they have come.
const ANNOUNCED_MAX: usize = 1 << 20;
/// Largest head of a request, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Most connections of one sandbox at the same time.
const CONNECTIONS_MAX: usize = 64;
/// Pause after a failed accept, for example when all file handles are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The way out of one sandbox.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    plan: Plan,
    /// What a request has to show; `None` lets anybody ask.
    key: Option<String>,
    way_out: Arc<dyn WayOut>,
    gate: Arc<dyn Gate>,
    log: Arc<Log>,
    /// Bytes of requests that there is room for.
    room: Arc<Semaphore>,
    connections: Mutex<JoinSet<()>>,
}

impl Relay {
    /// Makes a relay that serves whoever shows `key`; it serves nobody yet.
    #[must_use]
    pub fn new(
        plan: Plan,
        key: Option<&str>,
        way_out: Arc<dyn WayOut>,
        gate: Arc<dyn Gate>,
    ) -> Self {
        Self(Arc::new(Inner {
            log: Arc::new(Log::new(&plan, key)),
            plan,
            key: key.map(str::to_owned),
            way_out,
            gate,
            room: Arc::new(Semaphore::new(BODIES_MAX)),
            connections: Mutex::new(JoinSet::new()),
        }))
    }

    /// Returns what went through so far.
    #[must_use]
    pub fn record(&self) -> Record {
        self.0.log.record()
    }

    /// Waits until the gate lets nothing more out: the task is over, whatever the CLI does.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn is_shut(&self) {
        self.0.log.is_shut().await;
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
        } else {
            self.0.log.refuse(Refusal::Connections(CONNECTIONS_MAX));
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
    let log = Arc::clone(&relay.0.log);
    let service = service_fn(move |request| {
        let relay = relay.clone();
        async move { Ok::<_, std::convert::Infallible>(relay.0.handle(request).await) }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // Another error means that the CLI went away.
    if let Err(e) = connection.await
        && e.is_parse()
    {
        log.refuse(Refusal::Head(e.to_string()));
    }
}

impl Inner {
    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        match self.allowed(&parts) {
            Ok(Asked::Presence) => json_answer(StatusCode::OK, &Value::Bool(true)),
            Ok(Asked::Models) => json_answer(StatusCode::OK, &allow::models(&self.plan.model)),
            Ok(Asked::Answer) => match self.leaving(&parts, body).await {
                Ok((leaving, counted)) => self.answer(leaving, counted).await,
                Err(refusal) => self.refuse(refusal),
            },
            Err(refusal) => self.refuse(refusal),
        }
    }

    fn allowed(&self, parts: &Parts) -> Result<Asked, Refusal> {
        allow::is_for_us(&parts.method, &parts.uri, &parts.headers)?;
        let asked = allow::asked(self.plan.cli, &parts.method, parts.uri.path())?;
        if let (Some(key), Asked::Answer | Asked::Models) = (&self.key, asked) {
            allow::shows(key, &parts.headers)?;
        }
        Ok(asked)
    }

    /// Reads a request and holds it against the plan.
    async fn leaving(
        &self,
        parts: &Parts,
        body: Incoming,
    ) -> Result<((Leaving, OwnedSemaphorePermit), Counted), Refusal> {
        let (body, room) = self.read(body).await?;
        let leaving = Leaving::new(&self.plan, self.gate.answer_limit(), parts, &body)?;
        let (bytes, answer) = (leaving.body.len(), leaving.at_most.completion_tokens);
        let counted = self.log.count(bytes as u64, answer).await?;
        Ok(((leaving, room), counted))
    }

    async fn read(&self, mut body: Incoming) -> Result<(Bytes, OwnedSemaphorePermit), Refusal> {
        let unread = |why: String| Refusal::Body(why);
        let full = || unread("as many bytes as the task may send are under way".to_owned());
        let mut room = Arc::clone(&self.room)
            .try_acquire_many_owned(0)
            .map_err(|_| full())?;
        // As many as are announced: a large body would be copied again and again.
        let announced = body.size_hint().upper().unwrap_or(0);
        let announced = usize::try_from(announced).unwrap_or(0).min(ANNOUNCED_MAX);
        let mut read = BytesMut::with_capacity(announced);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| unread(e.to_string()))?;
            let Ok(bytes) = frame.into_data() else {
                continue;
            };
            if read.len() + bytes.len() > BODY_MAX {
                return Err(unread(format!("it is larger than {BODY_MAX} bytes")));
            }
            // No larger than the limit of a body, which was looked at.
            let more = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let more = Arc::clone(&self.room).try_acquire_many_owned(more);
            room.merge(more.map_err(|_| full())?);
            read.extend_from_slice(&bytes);
        }
        Ok((read.freeze(), room))
    }

    async fn answer(
        self: Arc<Self>,
        (leaving, room): (Leaving, OwnedSemaphorePermit),
        counted: Counted,
    ) -> Answer {
        let waiting = Waiting::new(&self.log);
        let asking = Asking {
            leaving: &leaving,
            endpoint: &self.plan.address,
            way_out: self.way_out.as_ref(),
            gate: self.gate.as_ref(),
            tries: self.plan.tries,
        };
        let tried = asking.ask(&waiting).await;
        waiting.end();
        drop(room);
        match tried {
            Tried::Answered {
                answer,
                permit,
                tries,
            } => {
                let (parts, body) = answer.into_parts();
                let ending = Ending {
                    tap: Tap::new(self.plan.provider, leaving.is_stream),
                    request: leaving.request,
                    permit,
                    counted,
                    tries,
                    log: Arc::clone(&self.log),
                };
                let turn = leaving
                    .names
                    .map(|names| Turn::new(names, leaving.is_stream));
                let flow = Flow::new(body, turn, self.plan.tries.silence, ending);
                let mut response = Response::new(flow.boxed_unsync());
                let kind = parts.headers.get(CONTENT_TYPE).cloned();
                let json = HeaderValue::from_static("application/json");
                response
                    .headers_mut()
                    .insert(CONTENT_TYPE, kind.unwrap_or(json));
                response
            }
            Tried::Refused {
                answer,
                permit,
                tries,
            } => {
                let (status, wait) = (answer.status().as_u16(), retry_after(answer.headers()));
                let (answer, words) = self.fail(answer, leaving, tries).await;
                if let Some(permit) = permit {
                    let error = fault::of_status(&self.plan.address, status, &words, wait);
                    permit.close(skillopt_backends::Passed::Failed(error));
                }
                answer
            }
            Tried::Unreached(words) => {
                self.log.unreached(&words);
                self.say_error(StatusCode::BAD_GATEWAY, &words)
            }
            Tried::Shut(why) => {
                self.log.shut(&why);
                self.say_error(StatusCode::SERVICE_UNAVAILABLE, &why)
            }
        }
    }

    fn refuse(&self, refusal: Refusal) -> Answer {
        let (status, words) = (refusal.status(), refusal.to_string());
        self.log.refuse(refusal);
        self.say_error(status, &words)
    }

    fn say_error(&self, status: StatusCode, words: &str) -> Answer {
        let words = self.log.redacted(words);
        json_answer(
            status,
            &allow::error(self.plan.cli, status.as_u16(), &words),
        )
    }

    /// Hands a provider's error on, and remembers it; returns all its words beside it.
    async fn fail(&self, answer: Answer, leaving: Leaving, tries: u32) -> (Answer, String) {
        let (answer, told) = read(answer, self.plan.tries.silence).await;
        let parts = answer.into_parts().0;
        let status = parts.status;
        let words = self.log.redacted(&told);
        let wait = retry_after(&parts.headers);
        self.log.trouble(status.as_u16(), &words, wait);
        let short = fault::shown(&words);
        self.log.add(Exchange {
            request: leaving.request,
            status: status.as_u16(),
            tries,
            said: Said {
                error: Some(short.clone()),
                ..Said::default()
            },
            tokens: Tokens::default(),
        });
        let is_json = serde_json::from_str::<Value>(&words).is_ok();
        let body = if is_json && self.plan.cli == self.plan.provider {
            words.clone()
        } else {
            allow::error(self.plan.cli, status.as_u16(), &short).to_string()
        };
        let mut response = plain(status, body);
        if let Some(wait) = parts.headers.get(RETRY_AFTER) {
            response.headers_mut().insert(RETRY_AFTER, wait.clone());
        }
        (response, words)
    }
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
