//! A plain HTTP client for relays of agents: tests talk to this machine alone.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use skillopt_agents::relay::{Answer, WayOut};

/// Sends requests over plain HTTP.
#[derive(Debug)]
pub struct Plain(Client<HttpConnector, Full<Bytes>>);

impl Plain {
    /// Makes a client.
    #[must_use]
    pub fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }
}

impl Default for Plain {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl WayOut for Plain {
    async fn post(
        &self,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, String> {
        let mut request = Request::post(to.clone())
            .body(Full::new(body))
            .map_err(|e| e.to_string())?;
        *request.headers_mut() = headers;
        let answer = tokio::time::timeout(limit, self.0.request(request)).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?;
        let answer = answer.map_err(|e| e.to_string())?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }
}
