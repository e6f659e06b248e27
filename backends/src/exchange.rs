//! One exchange with a server that takes and gives JSON: signed, sent, and its failures named.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde::Serialize;
use skillopt_core::secret::Secret;

use crate::address::Address;
use crate::auth::Auth;
use crate::clean::clean;
use crate::contract::ChatReply;
use crate::error::CallError;
use crate::failure;
use crate::http::{Answer, Call, Ends, Http, accept_events, is_events, json_body, json_headers};

/// Makes exchanges with one server.
pub(crate) struct Exchange {
    pub(crate) http: Arc<Http>,
    pub(crate) auth: Auth,
    /// Whether answers are to come in pieces.
    pub(crate) streams: bool,
    /// Names the class of an answer that is no success.
    pub(crate) classify: Classify,
    /// A header that an interface wants in each call, such as its version.
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

/// Names the class of an answer that is no success: its address, secrets to keep out.
pub(crate) type Classify = fn(&Answer, &str, &[&str]) -> CallError;

/// The body of a success.
pub(crate) struct Success {
    pub(crate) body: Bytes,
    /// Whether it came in pieces; a gateway may do so or not, whatever it was asked for.
    pub(crate) is_stream: bool,
    secret: Option<Arc<Secret>>,
}

impl Success {
    /// Returns the credential that was sent, to be kept out of messages.
    pub(crate) fn secret(&self) -> &str {
        self.secret.as_deref().map_or("", Secret::expose)
    }
}

impl Exchange {
    /// Makes exchanges as most servers want them.
    pub(crate) fn new(http: &Arc<Http>, auth: Auth, streams: bool) -> Self {
        Self {
            http: Arc::clone(http),
            auth,
            streams,
            classify: failure::classify,
            header: None,
        }
    }

    /// Posts a body and has the whole answer read. The credential that was sent shows in nothing that
    /// comes of it, whatever the server says: one of a sign-in is known here alone. `limit` is for all
    /// of it: signing in, and doing so once more when a token was withdrawn.
    ///
    /// # Errors
    /// See [`CallError`]: any answer but 200 is one.
    pub(crate) async fn ask(
        &self,
        address: &Address,
        body: &impl Serialize,
        limit: Duration,
        read: impl FnOnce(&Success) -> Result<ChatReply, CallError>,
    ) -> Result<ChatReply, CallError> {
        let success = self.post(address, body, limit).await?;
        clean(read(&success), &[success.secret()])
    }

    async fn post(
        &self,
        address: &Address,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<Success, CallError> {
        let body = json_body(body, &address.shown)?;
        let ends = Ends::after(limit);
        let (answer, secret) = self.send(address, body.clone(), ends).await?;
        let is_rejected = answer.status == StatusCode::UNAUTHORIZED;
        let (answer, secret) = if is_rejected && self.auth.renews(secret.as_ref()) {
            // A token may be withdrawn before its end. Nothing was billed for it.
            self.send(address, body, ends).await?
        } else {
            (answer, secret)
        };
        let success = Success {
            body: answer.body.clone(),
            is_stream: is_events(&answer.headers, http::header::CONTENT_TYPE),
            secret,
        };
        if answer.status == StatusCode::OK {
            Ok(success)
        } else {
            let secrets = &[success.secret()];
            Err((self.classify)(&answer, &address.shown, secrets))
        }
    }

    async fn send(
        &self,
        address: &Address,
        body: Bytes,
        ends: Ends,
    ) -> Result<(Answer, Option<Arc<Secret>>), CallError> {
        let mut headers = json_headers();
        if self.streams {
            accept_events(&mut headers);
        }
        if let Some((name, value)) = &self.header {
            headers.insert(name, value.clone());
        }
        let signed = tokio::time::timeout_at(ends.at, self.auth.sign(&mut headers));
        let secret = match signed.await {
            Ok(signed) => signed?,
            Err(_) => {
                let error = CallError::Timeout {
                    endpoint: address.shown.clone(),
                    limit: ends.limit,
                };
                return Err(CallError::SignIn(Box::new(error)));
            }
        };
        let call = Call {
            method: Method::POST,
            uri: &address.uri,
            endpoint: &address.shown,
            headers,
            body,
            ends,
        };
        Ok((self.http.send(call).await?, secret))
    }
}
