//! One HTTP exchange with JSON in and out: keep-alive, bounded answers, a deadline, no redirects.
//!
//! A redirect is never followed, so a credential cannot reach another host. Connections are pooled
//! per address without a limit of our own: the slots of the worker bound them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::error::CallError;

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

/// Connections that are kept open.
type Pool<C> = Client<C, Full<Bytes>>;

/// One exchange to make.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) uri: &'a Uri,
    /// The address for messages, without credentials.
    pub(crate) endpoint: &'a str,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Limit of the whole exchange.
    pub(crate) limit: Duration,
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
    plain: Pool<HttpConnector>,
    /// Built at the first `https` call: a plain address then needs no root certificates.
    tls: OnceLock<Result<Pool<HttpsConnector<HttpConnector>>, String>>,
}

impl Http {
    /// Makes a client; opens no connection.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            plain: builder().build(connector()),
            tls: OnceLock::new(),
        })
    }

    /// Sends a body and reads the whole answer, whatever its status.
    pub(crate) async fn send(&self, call: Call<'_>) -> Result<Answer, CallError> {
        let Call {
            method,
            uri,
            endpoint,
            headers,
            body,
            limit,
        } = call;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = headers;
        match tokio::time::timeout(limit, self.exchange(request, endpoint)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Timeout {
                endpoint: endpoint.to_owned(),
                limit,
            }),
        }
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        endpoint: &str,
    ) -> Result<Answer, CallError> {
        let broken = |detail: String| CallError::Connection {
            endpoint: endpoint.to_owned(),
            detail,
        };
        let response = if request.uri().scheme_str() == Some("https") {
            let client = self.tls.get_or_init(tls_client).as_ref().map_err(|e| {
                CallError::Misconfigured {
                    endpoint: endpoint.to_owned(),
                    status: 0,
                    detail: e.clone(),
                }
            })?;
            client.request(request).await
        } else {
            self.plain.request(request).await
        }
        .map_err(|e| broken(chain(&e)))?;
        let (parts, body) = response.into_parts();
        let body = match Limited::new(body, ANSWER_MAX).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(e) if e.is::<LengthLimitError>() => {
                let detail = format!("more than {ANSWER_MAX} bytes");
                return Err(CallError::Malformed {
                    endpoint: endpoint.to_owned(),
                    detail,
                });
            }
            Err(e) => return Err(broken(chain(&*e))),
        };
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }
}

fn builder() -> hyper_util::client::legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(30));
    builder
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector
}

fn tls_client() -> Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>, String> {
    let https = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls_provider())
        .map_err(|e| {
            format!("no root certificates were found ({e}); install the system's CA certificates or set SSL_CERT_FILE")
        })?
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector());
    Ok(builder().build(https))
}

fn rustls_provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// Joins an error and its causes, since the outermost one alone says little.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
