//! One exchange with a server that takes and gives JSON: signed, sent, and its failures named.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Serialize;
use skillopt_core::secret::Secret;

use crate::address::Address;
use crate::auth::Auth;
use crate::error::CallError;
use crate::failure;
use crate::http::{Call, Http, json_body, json_headers};

/// Makes exchanges with one server.
pub(crate) struct Exchange {
    pub(crate) http: Arc<Http>,
    pub(crate) auth: Auth,
}

/// The body of a success.
pub(crate) struct Success {
    pub(crate) body: Bytes,
    secret: Option<Arc<Secret>>,
}

impl Success {
    /// Returns the credential that was sent, to be kept out of messages.
    pub(crate) fn secret(&self) -> &str {
        self.secret.as_deref().map_or("", Secret::expose)
    }
}

impl Exchange {
    /// Posts a body and reads the whole answer.
    ///
    /// # Errors
    /// See [`CallError`]: any answer but 200 is one.
    pub(crate) async fn post(
        &self,
        address: &Address,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<Success, CallError> {
        let endpoint = address.shown.as_str();
        let mut headers = json_headers();
        let secret = self.auth.sign(&mut headers);
        let call = Call {
            method: Method::POST,
            uri: &address.uri,
            endpoint,
            headers,
            body: json_body(body, endpoint)?,
            limit,
        };
        let answer = self.http.send(call).await?;
        let success = Success {
            body: answer.body.clone(),
            secret,
        };
        if answer.status == StatusCode::OK {
            Ok(success)
        } else {
            Err(failure::classify(&answer, endpoint, &[success.secret()]))
        }
    }
}
