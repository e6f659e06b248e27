//! How a request reaches its provider; whoever has connections provides it.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;

/// The bytes of an answer as they come.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An answer whose head has come.
pub type Answer = Response<Body>;

/// Sends requests to providers.
#[async_trait]
pub trait WayOut: Send + Sync {
    /// Posts a body and returns as soon as the head of the answer is there.
    ///
    /// # Errors
    /// No connection, or no head within `limit`; in words, without a credential.
    async fn post(
        &self,
        to: &Uri,
        headers: HeaderMap,
        body: Bytes,
        limit: Duration,
    ) -> Result<Answer, String>;
}
