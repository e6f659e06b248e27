//! Tokens that a service gives over HTTP: for the machine's own identity, or for an application.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use skillopt_core::secret::Secret;

use super::super::route::escaped;
use super::cli::seconds;
use crate::address::Address;
use crate::error::CallError;
use crate::failure;
use crate::http::{Call, Ends, Http, secret_header};
use crate::tokens::{Fetched, Source, ends_in};

/// How long a request for a token may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a token lasts whose end is not told, in seconds.
const LASTS: u64 = 3_000;

/// The identity of the machine: the App Service form where the environment names it, else the
/// metadata service of virtual machines.
pub(crate) struct ManagedIdentity {
    pub(super) http: Arc<Http>,
    /// Address and header of the App Service form.
    pub(super) service: Option<(String, Header)>,
    /// Address of the metadata service.
    pub(super) metadata: String,
    /// A particular identity, where a machine has several.
    pub(super) client_id: Option<String>,
    pub(super) resource: String,
}

/// The value that proves that a request comes from the machine itself.
pub(crate) struct Header(Secret);

impl From<String> for Header {
    fn from(value: String) -> Self {
        Self(Secret::new(value))
    }
}

#[async_trait]
impl Source for ManagedIdentity {
    async fn fetch(&self) -> Result<Fetched, CallError> {
        let mut headers = HeaderMap::new();
        let (base, path, version) = match &self.service {
            Some((base, Header(secret))) => {
                let name = HeaderName::from_static("x-identity-header");
                headers.insert(name, secret_header(secret.expose(), base)?);
                (base, "", "2019-08-01")
            }
            None => (
                &self.metadata,
                "/metadata/identity/oauth2/token",
                "2018-02-01",
            ),
        };
        // Proof that this is no request that somebody was tricked into.
        headers.insert("metadata", HeaderValue::from_static("true"));
        let mut query = format!("api-version={version}&resource={}", escaped(&self.resource));
        if let Some(client_id) = &self.client_id {
            query.push_str("&client_id=");
            query.push_str(&escaped(client_id));
        }
        let address = Address::new(base, path)?.with_query(&query)?;
        let secret = self
            .service
            .as_ref()
            .map_or("", |(_, Header(s))| s.expose());
        let call = Call {
            method: Method::GET,
            uri: &address.uri,
            endpoint: &address.shown,
            headers,
            body: Bytes::new(),
            ends: Ends::after(LIMIT),
        };
        fetch(&self.http, call, &[secret]).await
    }
}

/// An application with a secret of its own.
pub(crate) struct ClientCredentials {
    pub(super) http: Arc<Http>,
    pub(super) authority: String,
    pub(super) tenant: String,
    pub(super) client_id: String,
    pub(super) secret: Secret,
    pub(super) scope: String,
}

#[async_trait]
impl Source for ClientCredentials {
    async fn fetch(&self) -> Result<Fetched, CallError> {
        let path = format!("/{}/oauth2/v2.0/token", escaped(&self.tenant));
        let address = Address::new(&self.authority, &path)?;
        let secret = self.secret.expose().trim();
        let as_sent = escaped(secret);
        let body = format!(
            "grant_type=client_credentials&client_id={}&client_secret={as_sent}&scope={}",
            escaped(&self.client_id),
            escaped(&self.scope)
        );
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(http::header::CONTENT_TYPE, form);
        let call = Call {
            method: Method::POST,
            uri: &address.uri,
            endpoint: &address.shown,
            headers,
            body: body.into(),
            ends: Ends::after(LIMIT),
        };
        fetch(&self.http, call, &[secret, &as_sent]).await
    }
}

#[derive(Deserialize)]
struct Answer {
    access_token: String,
    /// Seconds since 1970.
    #[serde(default)]
    expires_on: Option<Value>,
    /// Seconds from now.
    #[serde(default)]
    expires_in: Option<Value>,
}

async fn fetch(http: &Http, call: Call<'_>, secrets: &[&str]) -> Result<Fetched, CallError> {
    let endpoint = call.endpoint.to_owned();
    let answer = http.send(call).await?;
    match answer.status {
        StatusCode::OK => {}
        // A wrong secret, tenant or identity is told by 400 as well.
        StatusCode::BAD_REQUEST => {
            return Err(CallError::Unauthorized {
                endpoint,
                status: 400,
                detail: failure::detail(&answer.body, secrets),
            });
        }
        _ => return Err(failure::classify(&answer, &endpoint, secrets)),
    }
    let token: Answer =
        serde_json::from_slice(&answer.body).map_err(|_| CallError::Connection {
            endpoint,
            detail: "it gave no token".to_owned(),
        })?;
    let ends_ms = match (
        seconds(token.expires_on.as_ref()),
        seconds(token.expires_in.as_ref()),
    ) {
        (Some(at), _) => at.saturating_mul(1_000),
        (None, Some(lasts)) => ends_in(lasts),
        (None, None) => ends_in(LASTS),
    };
    Ok(Fetched {
        token: Secret::new(token.access_token),
        ends_ms,
    })
}
