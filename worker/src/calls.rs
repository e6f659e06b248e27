//! Every model call of a worker goes through here.

use skillopt_backends::{CallError, ChatReply, ChatRequest};
use skillopt_core::job::Envelope;
use skillopt_queue::Ticket;

use crate::blobs::Model;
use crate::metrics::Metrics;

/// Makes the calls of one delivery of a job.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    /// The job, and who pays for it.
    pub(crate) envelope: &'a Envelope,
    /// Names this delivery.
    pub(crate) ticket: Ticket,
    pub(crate) metrics: &'a Metrics,
}

impl Calls<'_> {
    /// Makes one call, number `turn` of this delivery.
    pub(crate) async fn ask(
        &self,
        model: &Model,
        request: &ChatRequest,
        turn: u32,
    ) -> Result<ChatReply, CallError> {
        let answer = model.client.chat(request).await;
        self.metrics.call(&answer);
        answer
    }
}
