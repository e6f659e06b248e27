//! One request: read, answered, and what is to go wrong done.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use skillopt_core::Hash;
use tokio::sync::mpsc::Sender;

use super::api::{self, Event};
use super::ask::{Api, Ask};
use super::body::pieces;
use super::control;
use super::log::Entry;
use super::pick::{self, Said};
use super::script::{Fault, FaultKind, Reply};
use super::state::{Running, State};

/// Largest request body, in bytes.
const BODY_MAX: usize = 64 << 20;
/// How long a fault that says nothing hangs.
const HANG: Duration = Duration::from_secs(600);
/// Events of a stream that are sent before it goes wrong.
const BEFORE_FAULT: usize = 2;
/// Headers that carry credentials.
const CREDENTIALS: &[&str] = &["authorization", "x-api-key", "api-key", "x-goog-api-key"];

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Answers a request; an error closes the connection.
pub(super) async fn handle(state: Arc<State>, request: Request<Incoming>) -> io::Result<Answer> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await;
    let body = body
        .map_err(|e| io::Error::other(e.to_string()))?
        .to_bytes();
    let path = parts.uri.path().to_owned();
    if path.starts_with("/__mock/") {
        let (status, value) = control::answer(&state, &path, &body);
        return Ok(whole(status, &value, &BTreeMap::new()));
    }
    let number = state.log.begin();
    let _open = Open(Arc::clone(&state));
    let query = parts.uri.path_and_query();
    let mut entry = Entry {
        request: number,
        method: parts.method.to_string(),
        path: query.map_or_else(|| path.clone(), ToString::to_string),
        headers: shown(&parts.headers),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        api: "",
        rule: 0,
        turn: 0,
        status: 200,
        fault: String::new(),
        tokens: (0, 0),
    };
    let running = state.running();
    let answer = Exchange {
        running: &running,
        headers: &parts.headers,
        number,
    }
    .answer(&parts.method, &path, &mut entry)
    .await;
    match &answer {
        Ok(answer) => entry.status = answer.status().as_u16(),
        Err(_) => entry.status = 0,
    }
    state.log.add(entry);
    answer
}

/// A request under way.
struct Open(Arc<State>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.log.end();
    }
}

struct Exchange<'a> {
    running: &'a Running,
    headers: &'a HeaderMap,
    number: u64,
}

impl Exchange<'_> {
    async fn answer(&self, method: &Method, path: &str, entry: &mut Entry) -> io::Result<Answer> {
        let none = BTreeMap::new();
        if self.headers.contains_key("upgrade") {
            return Ok(whole(
                StatusCode::NOT_FOUND,
                &api::error(None, 404, None, None),
                &none,
            ));
        }
        if path == "/" && (method == Method::HEAD || method == Method::GET) {
            return Ok(whole(StatusCode::OK, &json!({"ok": true}), &none));
        }
        if !self.brings_key() {
            let api = Api::of_path(path);
            let body = api::error(api, 401, None, Some("Incorrect API key provided."));
            return Ok(whole(StatusCode::UNAUTHORIZED, &body, &none));
        }
        if method == Method::GET && path.ends_with("/models") {
            return Ok(whole(StatusCode::OK, &models(), &none));
        }
        if method == Method::POST && path.ends_with("/messages/count_tokens") {
            let tokens = entry.body.to_string().len().div_ceil(4);
            return Ok(whole(
                StatusCode::OK,
                &json!({"input_tokens": tokens}),
                &none,
            ));
        }
        if method == Method::POST && path.ends_with(":countTokens") {
            let tokens = entry.body.to_string().len().div_ceil(4);
            return Ok(whole(
                StatusCode::OK,
                &json!({"totalTokens": tokens}),
                &none,
            ));
        }
        match Api::of_path(path) {
            Some(api) if method == Method::POST => self.speak(api, path, entry).await,
            _ => {
                let words = format!("no such address: {method} {path}");
                let body = api::error(None, 404, None, Some(&words));
                Ok(whole(StatusCode::NOT_FOUND, &body, &none))
            }
        }
    }

    fn brings_key(&self) -> bool {
        let Some(key) = &self.running.script.key else {
            return true;
        };
        let given = |name: &str| {
            let value = self.headers.get(name).and_then(|value| value.to_str().ok());
            value.is_some_and(|value| value.trim_start_matches("Bearer ") == key)
        };
        CREDENTIALS.iter().any(|name| given(name))
    }

    async fn speak(&self, api: Api, path: &str, entry: &mut Entry) -> io::Result<Answer> {
        let mut ask = Ask {
            headers: entry.headers.clone(),
            ..Ask::default()
        };
        api::read(api, path, &entry.body, &mut ask);
        let Running { script, counters } = self.running;
        let (reply, rule) = pick::pick(script, counters, api, &ask);
        let said = pick::fill(reply, &ask, self.number);
        entry.api = api.as_str();
        entry.rule = rule;
        entry.turn = ask.turn;
        entry.tokens = (said.usage.input, said.usage.output);
        tokio::time::sleep(Duration::from_millis(script.latency_ms + reply.latency_ms)).await;
        let fault = reply
            .fault
            .as_ref()
            .filter(|_| pick::strikes(reply, counters, rule));
        if let Some(fault) = fault {
            entry.fault = format!("{:?}", fault.kind);
            if let Some(answer) = before_events(fault, api, reply).await {
                return answer;
            }
        }
        if let Some(json) = &reply.json {
            return Ok(whole(StatusCode::OK, json, &reply.headers));
        }
        if !ask.stream {
            // What only a stream can show ends an answer in one piece before it begins.
            if fault.is_some() {
                return Err(io::Error::other("cut by the script"));
            }
            return Ok(whole(
                StatusCode::OK,
                &api::whole(api, &said, &ask),
                &reply.headers,
            ));
        }
        Ok(stream(api, &said, &ask, reply, fault.cloned()))
    }
}

/// Faults that leave no stream; `None` for those in the midst of one.
async fn before_events(fault: &Fault, api: Api, reply: &Reply) -> Option<io::Result<Answer>> {
    let seconds = fault.seconds.map_or(HANG, Duration::from_secs);
    Some(match fault.kind {
        FaultKind::Status => {
            let status = fault.status.unwrap_or(500);
            let body = fault.body.clone().unwrap_or_else(|| {
                api::error(
                    Some(api),
                    status,
                    fault.code.as_deref(),
                    fault.message.as_deref(),
                )
                .to_string()
            });
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Ok(plain(status, body, "application/json", &reply.headers))
        }
        FaultKind::Close => Err(io::Error::other("closed by the script")),
        FaultKind::Hang => {
            tokio::time::sleep(seconds).await;
            Err(io::Error::other("hung by the script"))
        }
        FaultKind::Empty => Ok(plain(
            StatusCode::OK,
            String::new(),
            "application/json",
            &reply.headers,
        )),
        FaultKind::Html => {
            let page = "<!doctype html><title>Sign in</title>".to_owned();
            Ok(plain(StatusCode::OK, page, "text/html", &reply.headers))
        }
        FaultKind::HangMid
        | FaultKind::Drop
        | FaultKind::Malformed
        | FaultKind::NoTerminal
        | FaultKind::ErrorEvent => return None,
    })
}

fn stream(api: Api, said: &Said, ask: &Ask, reply: &Reply, fault: Option<Fault>) -> Answer {
    let events = api::events(api, said, ask);
    let (sender, body) = pieces();
    let delay = Duration::from_millis(reply.chunk_delay_ms);
    tokio::spawn(async move {
        // `None`: the client went away, or a fault ended it.
        let _: Option<()> = write(api, events, fault, delay, &sender).await;
    });
    let mut response = Response::new(body.boxed_unsync());
    head(&mut response, "text/event-stream", &reply.headers);
    response
}

async fn write(
    api: Api,
    events: Vec<Event>,
    fault: Option<Fault>,
    delay: Duration,
    to: &Sender<io::Result<Bytes>>,
) -> Option<()> {
    let kind = fault.as_ref().map(|fault| fault.kind);
    for (n, event) in events.into_iter().enumerate() {
        if n == BEFORE_FAULT
            && let (Some(fault), Some(kind)) = (&fault, kind)
        {
            match kind {
                FaultKind::HangMid => {
                    let seconds = fault.seconds.map_or(HANG, Duration::from_secs);
                    tokio::time::sleep(seconds).await;
                    to.send(Err(io::Error::other("hung by the script")))
                        .await
                        .ok()?;
                    return None;
                }
                FaultKind::Drop => {
                    to.send(Err(io::Error::other("cut by the script")))
                        .await
                        .ok()?;
                    return None;
                }
                FaultKind::Malformed => {
                    let bytes = fault
                        .body
                        .clone()
                        .unwrap_or_else(|| "data: {\"choi\n\n".to_owned());
                    to.send(Ok(bytes.into())).await.ok()?;
                    return None;
                }
                FaultKind::ErrorEvent => {
                    let words = fault.message.as_deref().unwrap_or("mock failure");
                    to.send(Ok(api::error_event(api, words).bytes.into()))
                        .await
                        .ok()?;
                    return None;
                }
                _ => {}
            }
        }
        if kind == Some(FaultKind::NoTerminal) && event.is_terminal {
            continue;
        }
        to.send(Ok(event.bytes.into())).await.ok()?;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }
    Some(())
}

fn models() -> Value {
    json!({
        "object": "list",
        "data": [{
            "id": "mock-model", "object": "model", "created": 1, "owned_by": "mock",
            "type": "model", "display_name": "Mock", "created_at": "2026-01-01T00:00:00Z",
        }],
        "has_more": false, "first_id": "mock-model", "last_id": "mock-model", "models": [],
    })
}

fn whole(status: StatusCode, body: &Value, headers: &BTreeMap<String, String>) -> Answer {
    plain(status, body.to_string(), "application/json", headers)
}

fn plain(
    status: StatusCode,
    body: String,
    kind: &'static str,
    headers: &BTreeMap<String, String>,
) -> Answer {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    head(&mut response, kind, headers);
    response
}

fn head(response: &mut Answer, kind: &'static str, more: &BTreeMap<String, String>) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // Clients quote these in what they say of an error.
    headers.insert("x-request-id", HeaderValue::from_static("req_mock"));
    headers.insert("request-id", HeaderValue::from_static("req_mock"));
    for (name, value) in more {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
}

/// Returns the headers for the log; of a credential only a fingerprint, by which a test tells
/// which one was sent.
fn shown(headers: &HeaderMap) -> BTreeMap<String, String> {
    let shown = headers.iter().map(|(name, value)| {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let text = if CREDENTIALS.contains(&name.as_str()) {
            let key = text.trim_start_matches("Bearer ");
            format!("sha256:{}", &Hash::of(key.as_bytes()).to_string()[..16])
        } else {
            text
        };
        (name.as_str().to_owned(), text)
    });
    shown.collect()
}
