//! A plain HTTP client: these tests talk to this machine alone.

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

pub(crate) struct Plain(Client<HttpConnector, Full<Bytes>>);

impl Plain {
    pub(crate) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
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
        let mut request = Request::post(to.clone()).body(Full::new(body)).unwrap();
        *request.headers_mut() = headers;
        let answer = tokio::time::timeout(limit, self.0.request(request)).await;
        let answer = answer.map_err(|_| "no answer in time".to_owned())?;
        let answer = answer.map_err(|e| e.to_string())?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }
}
