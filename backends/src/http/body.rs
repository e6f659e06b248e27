//! Reads an answer's body: bounded, and noticed when it stalls.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::ANSWER_MAX;
use crate::error::CallError;

/// Reads the whole body; `limit` is how long each piece may take.
pub(super) async fn read(
    mut body: Incoming,
    limit: Duration,
    endpoint: &str,
) -> Result<Bytes, CallError> {
    let too_large = || CallError::Malformed {
        endpoint: endpoint.to_owned(),
        detail: format!("more than {ANSWER_MAX} bytes"),
    };
    if body.size_hint().lower() > ANSWER_MAX as u64 {
        return Err(too_large());
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(limit, body.frame()).await;
        let frame = frame.map_err(|_| CallError::Stalled {
            endpoint: endpoint.to_owned(),
            limit,
            awaited: "the next piece of the answer",
        })?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|e| CallError::Connection {
            endpoint: endpoint.to_owned(),
            detail: chain(&e),
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if rest.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > ANSWER_MAX {
            return Err(too_large());
        }
        // Most answers come in one piece, which is not copied.
        match first.take() {
            None if rest.is_empty() => first = Some(data),
            None => rest.extend_from_slice(&data),
            Some(one) => {
                rest.extend_from_slice(&one);
                rest.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| rest.freeze()))
}

/// Joins an error and its causes, since the outermost one alone says little.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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
