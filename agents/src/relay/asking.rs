//! Asks a provider until there is an answer worth handing on.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use skillopt_backends::{CallError, Gate, Passed, Permit, out_of_quota, retry_after};
use tokio::time::Instant;

use super::leaving::Leaving;
use super::log::Log;
use super::way_out::{Answer, WayOut};
use super::{Tries, fault};

/// Most bytes of a provider's error that are read.
const ERROR_MAX: usize = 64 << 10;

/// What came of a request.
pub(super) enum Tried {
    /// An answer begins.
    Answered {
        answer: Answer,
        permit: Box<dyn Permit>,
        tries: u32,
    },
    /// The provider says no; the permit is there if nobody was told of it yet.
    Refused {
        answer: Answer,
        permit: Option<Box<dyn Permit>>,
        tries: u32,
    },
    /// There was no answer.
    Unreached(String),
    /// The gate did not let it out.
    Shut(String),
}

/// What a request is asked with.
pub(super) struct Asking<'a> {
    pub(super) leaving: &'a Leaving,
    pub(super) endpoint: &'a str,
    pub(super) way_out: &'a dyn WayOut,
    pub(super) gate: &'a dyn Gate,
    pub(super) tries: Tries,
}

impl Asking<'_> {
    /// Asks, and asks again what may yet succeed; every try goes through the gate by itself.
    pub(super) async fn ask(&self, waiting: &Waiting<'_>) -> Tried {
        let (tries, leaving) = (self.tries, self.leaving);
        let mut failed = 0;
        loop {
            let permit = match self.gate.enter(leaving.at_most).await {
                Ok(permit) => permit,
                Err(why) => return Tried::Shut(why),
            };
            waiting.is_asking();
            let answer = self.way_out.post(
                &leaving.uri,
                leaving.headers.clone(),
                leaving.body.clone(),
                tries.first_byte,
            );
            let (answer, told) = match answer.await {
                // Only its words say whether waiting helps.
                Ok(answer) if answer.status() == StatusCode::TOO_MANY_REQUESTS => {
                    let (answer, told) = read(answer, tries.silence).await;
                    (Ok(answer), told)
                }
                other => (other, String::new()),
            };
            failed += 1;
            let (error, wait) = match &answer {
                Ok(answer) if may_pass(answer.status()) && !out_of_quota(&told) => {
                    let (status, wait) = (answer.status().as_u16(), retry_after(answer.headers()));
                    waiting.has_failed(status);
                    (fault::of_status(self.endpoint, status, "", wait), wait)
                }
                Ok(_) => return over(answer, Some(permit), failed),
                Err(words) => {
                    waiting.has_failed(0);
                    let error = CallError::Connection {
                        endpoint: self.endpoint.to_owned(),
                        detail: words.clone(),
                    };
                    (error, None)
                }
            };
            permit.close(Passed::Failed(error));
            let own = tries
                .base
                .saturating_mul(1 << (failed - 1).min(16))
                .min(tries.cap);
            let wait = wait.unwrap_or(own);
            if failed >= tries.attempts.max(1) || wait > tries.cap {
                return over(answer, None, failed);
            }
            drop(answer);
            tokio::time::sleep(wait).await;
        }
    }
}

/// Reads an error to its end, and returns it with what it says; one that does not end says nothing.
pub(super) async fn read(answer: Answer, silence: Duration) -> (Answer, String) {
    let (parts, body) = answer.into_parts();
    let read = Limited::new(body, ERROR_MAX).collect();
    let bytes = match tokio::time::timeout(silence, read).await {
        Ok(Ok(bytes)) => bytes.to_bytes(),
        Ok(Err(_)) | Err(_) => Bytes::new(),
    };
    let told = String::from_utf8_lossy(&bytes).into_owned();
    let body = Full::new(bytes).map_err(|never| match never {});
    (Response::from_parts(parts, body.boxed_unsync()), told)
}

fn over(answer: Result<Answer, String>, permit: Option<Box<dyn Permit>>, tries: u32) -> Tried {
    match (answer, permit) {
        (Ok(answer), Some(permit)) if answer.status() == StatusCode::OK => Tried::Answered {
            answer,
            permit,
            tries,
        },
        (Ok(answer), permit) => Tried::Refused {
            answer,
            permit,
            tries,
        },
        (Err(words), _) => Tried::Unreached(words),
    }
}

/// Returns whether the same request may succeed later.
fn may_pass(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
}

/// A request that no answer has come to yet. If the task ends before one does, and a try had failed,
/// that was not the agent's doing; else it is told by how long the provider had been silent.
pub(super) struct Waiting<'a> {
    log: &'a Log,
    /// Status of the last try that failed (0: no connection), and whether one has.
    last: AtomicU16,
    has_failed: AtomicBool,
    since: Instant,
    /// When the last try began, in milliseconds after `since`.
    asked_at: AtomicU64,
    is_over: bool,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(log: &'a Log) -> Self {
        Self {
            log,
            last: AtomicU16::new(0),
            has_failed: AtomicBool::new(false),
            since: Instant::now(),
            asked_at: AtomicU64::new(0),
            is_over: false,
        }
    }

    fn is_asking(&self) {
        let ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.asked_at.store(ms, Ordering::Relaxed);
    }

    fn has_failed(&self, status: u16) {
        self.last.store(status, Ordering::Relaxed);
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(mut self) {
        self.is_over = true;
        let ms = self.asked_at.load(Ordering::Relaxed);
        self.log.held_up(Duration::from_millis(ms));
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.has_failed.load(Ordering::Relaxed) {
            let status = self.last.load(Ordering::Relaxed);
            let words = "no answer came before the task's time was over";
            self.log.trouble(status, words, None);
            return;
        }
        let asked = Duration::from_millis(self.asked_at.load(Ordering::Relaxed));
        // How long says whether the agent would have been done without it.
        let silent = self.since.elapsed().saturating_sub(asked);
        self.log.unanswered(silent);
        self.log.held_up(asked);
    }
}
