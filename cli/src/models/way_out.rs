//! The way from a relay to a provider: the connections that all clients share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Uri};
use http_body_util::BodyExt as _;
use skillopt_agents::relay::{Answer, WayOut};
use skillopt_backends::Http;

pub(super) struct Out(pub(super) Arc<Http>);

#[async_trait]
impl WayOut for Out {
    async fn post(
        &self,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, String> {
        let answer = self.0.open(to, headers, body, limit).await;
        let answer = answer.map_err(|e| e.to_string())?;
        Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
    }
}
