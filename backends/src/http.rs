//! One HTTP exchange: pooled connections, proxies, own roots, limits of time and size.
//!
//! A redirect is never followed, so a credential cannot reach another host. Connections are pooled
//! per address without a limit of our own: the slots of the worker bound them.

mod body;
mod clock;
mod connect;
mod gate;
mod pool;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;

use crate::address::without_credentials;
use crate::error::CallError;
use connect::Connector;
use pool::{Plain, Tls};

pub use transport::Transport;

/// The largest answer that is read, in bytes.
pub(crate) const ANSWER_MAX: usize = 32 << 20;
/// How long a connection may take to open.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("skillopt/", env!("CARGO_PKG_VERSION")));

/// What came back: any status, with the whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// One exchange to make.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) uri: &'a Uri,
    /// The address for messages, without credentials.
    pub(crate) endpoint: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// When the whole exchange has to be over.
    pub(crate) ends: Ends,
}

const A_YEAR: Duration = Duration::from_hours(365 * 24);

/// A limit of time, and when it is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) at: tokio::time::Instant,
    pub(crate) limit: Duration,
}

impl Ends {
    /// Begins now.
    pub(crate) fn after(limit: Duration) -> Self {
        let now = tokio::time::Instant::now();
        Self {
            // A limit beyond all time is none.
            at: now.checked_add(limit).unwrap_or(now + A_YEAR),
            limit,
        }
    }
}

/// Returns the headers of a JSON exchange.
pub(crate) fn json_headers() -> HeaderMap {
    let json = HeaderValue::from_static("application/json");
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(http::header::CONTENT_TYPE, json.clone());
    headers.insert(http::header::ACCEPT, json);
    // Some gateways refuse calls that do not say what makes them.
    headers.insert(http::header::USER_AGENT, USER_AGENT);
    headers
}

/// Asks for an answer in pieces. Only then is there a limit for the first of them: other answers
/// come when they are whole.
pub(crate) fn accept_events(headers: &mut HeaderMap) {
    headers.insert(http::header::ACCEPT, HeaderValue::from_static(EVENTS));
}

/// Returns whether headers speak of an answer in pieces: those of a request ask for one, those of
/// an answer announce one.
pub(crate) fn is_events(headers: &HeaderMap, name: http::HeaderName) -> bool {
    let value = headers.get(name);
    value.is_some_and(|value| value.as_bytes().starts_with(EVENTS.as_bytes()))
}

const EVENTS: &str = "text/event-stream";

/// Writes a body.
pub(crate) fn json_body(body: &impl serde::Serialize, endpoint: &str) -> Result<Bytes, CallError> {
    let bytes = serde_json::to_vec(body).map_err(|e| CallError::Rejected {
        endpoint: endpoint.to_owned(),
        status: 0,
        detail: e.to_string(),
    })?;
    Ok(bytes.into())
}

/// Returns the header that carries a bearer token.
///
/// # Errors
/// The token has characters that a header cannot carry.
pub(crate) fn bearer(token: &str, endpoint: &str) -> Result<HeaderValue, CallError> {
    secret_header(&format!("Bearer {token}"), endpoint)
}

/// Returns a header with a credential, which is never printed.
///
/// # Errors
/// The credential has characters that a header cannot carry.
pub(crate) fn secret_header(value: &str, endpoint: &str) -> Result<HeaderValue, CallError> {
    let mut header = HeaderValue::from_str(value).map_err(|_| CallError::Misconfigured {
        endpoint: endpoint.to_owned(),
        status: 0,
        detail: "the API key has characters that a header cannot carry; does it end in a line \
            break?"
            .to_owned(),
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// A client for plain and TLS addresses; all clients of models share one, and so its connections.
pub struct Http {
    transport: Transport,
    connector: Connector,
    plain: Plain,
    clock: clock::Offset,
    /// Built at the first `https` call: a plain address then needs no root certificates.
    tls: OnceLock<Result<Tls, String>>,
}

impl Http {
    /// Makes a client without proxies, with the system's roots; opens no connection.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::with(Transport::default())
    }

    /// Makes a client; opens no connection.
    #[must_use]
    pub fn with(transport: Transport) -> Arc<Self> {
        let connector = Connector::new(&transport);
        Arc::new(Self {
            plain: pool::plain(connector.clone()),
            clock: clock::Offset::default(),
            tls: OnceLock::new(),
            connector,
            transport,
        })
    }

    /// Returns what of a machine's network all calls share, for whoever watches over an answer by
    /// itself.
    #[must_use]
    pub const fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Sends a body and reads the whole answer, whatever its status.
    pub(crate) async fn send(&self, call: Call<'_>) -> Result<Answer, CallError> {
        let Call {
            method,
            uri,
            endpoint,
            headers,
            body,
            ends,
        } = call;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        match tokio::time::timeout_at(ends.at, self.exchange(request, ends.limit, endpoint)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Timeout {
                endpoint: endpoint.to_owned(),
                limit: ends.limit,
            }),
        }
    }

    /// Posts a body and returns as soon as the head of the answer is there, for whoever hands the
    /// rest on while it comes and watches over it.
    ///
    /// # Errors
    /// No connection, or no head within `limit`.
    pub async fn open(
        &self,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<http::Response<hyper::body::Incoming>, CallError> {
        let endpoint = without_credentials(&uri.to_string());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        let head = async {
            if uri.scheme_str() == Some("https") {
                // The rest outlives this call, and so its place among those of its connection.
                let (connections, _place) = self.tls(&endpoint)?.connections();
                let response = connections.request(request);
                self.headers(response, None, &endpoint).await
            } else {
                self.connector.authorize(&mut request);
                self.headers(self.plain.request(request), None, &endpoint)
                    .await
            }
        };
        match tokio::time::timeout(limit, head).await {
            Ok(head) => head,
            Err(_) => Err(CallError::Timeout {
                endpoint: endpoint.clone(),
                limit,
            }),
        }
    }

    /// Returns by how many seconds the clock of the server that answered last is ahead of this
    /// machine's; below zero if it is behind. `None` if no answer told the time.
    #[must_use]
    pub fn clock_ahead(&self) -> Option<i64> {
        self.clock.seconds()
    }

    fn tls(&self, endpoint: &str) -> Result<&Tls, CallError> {
        let tls = self.tls.get_or_init(|| {
            tls::config(&self.transport).map(|config| Tls::new(&config, &self.connector))
        });
        tls.as_ref().map_err(|e| CallError::Misconfigured {
            endpoint: endpoint.to_owned(),
            status: 0,
            detail: e.clone(),
        })
    }

    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        limit: Duration,
        endpoint: &str,
    ) -> Result<Answer, CallError> {
        // Of an answer that comes whole, nothing is there before all of it is made.
        let first_byte = is_events(request.headers(), http::header::ACCEPT)
            .then(|| self.transport.first_byte_within(limit));
        let is_tls = request.uri().scheme_str() == Some("https");
        // Counts among the calls of its connections until the whole body is there.
        let _place;
        let response = if is_tls {
            let (connections, place) = self.tls(endpoint)?.connections();
            _place = Some(place);
            let response = connections.request(request);
            self.headers(response, first_byte, endpoint).await?
        } else {
            _place = None;
            self.connector.authorize(&mut request);
            self.headers(self.plain.request(request), first_byte, endpoint)
                .await?
        };
        let (parts, body) = response.into_parts();
        self.clock.note(&parts.headers);
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body: body::read(body, self.transport.between_chunks, endpoint).await?,
        })
    }

    /// Waits for the headers of an answer, which come with the first byte.
    async fn headers<T, E: std::error::Error + 'static>(
        &self,
        response: impl Future<Output = Result<T, E>>,
        limit: Option<Duration>,
        endpoint: &str,
    ) -> Result<T, CallError> {
        let broken = |e: E| CallError::Connection {
            endpoint: endpoint.to_owned(),
            detail: body::chain(&e),
        };
        let Some(limit) = limit else {
            return response.await.map_err(broken);
        };
        match tokio::time::timeout(limit, response).await {
            Ok(response) => response.map_err(broken),
            Err(_) => Err(CallError::Stalled {
                endpoint: endpoint.to_owned(),
                limit,
                awaited: "the first byte",
            }),
        }
    }
}
