//! A way out over plain HTTP, for benches and tests against a scripted model on this machine.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use skillopt_agents::relay::{Answer, WayOut};

pub(crate) type Http = Client<HttpConnector, Full<Bytes>>;

pub(crate) struct Out(pub(crate) Http);

#[async_trait]
impl WayOut for Out {
    async fn post(
        &self,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
        _: Duration,
    ) -> Result<Answer, String> {
        let request = Request::post(to.clone()).body(Full::new(body));
        let mut request = request.map_err(|e| e.to_string())?;
        *request.headers_mut() = headers;
        let answer = self.0.request(request).await.map_err(|e| e.to_string())?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }
}
