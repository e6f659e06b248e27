//! Every model call of a worker goes through here.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest, Outcome, Worked, Workspace};
use skillopt_core::job::Envelope;
use skillopt_queue::Ticket;

use crate::blobs::Model;
use crate::meter::{Instead, Meter, Metered, Which};
use crate::metrics::Metrics;

/// The setting that says how often an agent that says nothing is asked again.
const EMPTY_RETRIES: &str = "agent_empty_retries";

/// What has to become of a delivery in which a call could not be made, whatever else is said of it.
#[derive(Default)]
pub(crate) struct Noted(Mutex<Option<Instead>>);

impl Noted {
    fn note(&self, instead: Instead) {
        // The first call that could not be made decides.
        self.lock().get_or_insert(instead);
    }

    pub(crate) fn take(&self) -> Option<Instead> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instead>> {
        // No section under this lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the calls of one delivery of a job.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    /// The job, and who pays for it.
    pub(crate) envelope: &'a Envelope,
    /// Names this delivery.
    pub(crate) ticket: Ticket,
    pub(crate) metrics: &'a Metrics,
    /// Caps and rates, if there are any.
    pub(crate) meter: Option<&'a Meter>,
    pub(crate) noted: &'a Noted,
}

impl Calls<'_> {
    /// Makes one call, number `turn` of this delivery. An answer without a word is asked for once
    /// more: providers send such ones now and then, and only a second one is the model's own.
    pub(crate) async fn ask(
        &self,
        model: &Model,
        request: &ChatRequest,
        turn: u32,
    ) -> Result<ChatReply, CallError> {
        let name = format!("{}/{turn}", self.ticket.fence.0);
        let client = model.client.as_ref();
        let hedge = self.envelope.limits.hedge_permille;
        let answer = self.once((client, hedge), model, request, &name).await;
        let first = match answer {
            Ok(reply) if Outcome::of_reply(&reply) == Outcome::Empty => reply,
            other => return other,
        };
        let again = format!("{name}/again");
        let mut second = self.once((client, hedge), model, request, &again).await?;
        second.usage += first.usage;
        Ok(second)
    }

    /// Returns whether somebody who pays has a cap.
    pub(crate) fn is_capped(&self) -> bool {
        let payer = self.envelope.payer.as_ref();
        self.meter.is_some() && payer.is_some_and(|payer| payer.is_capped)
    }

    /// Has an agent do a task, as turn number `turn`. One that says nothing and did not fail is asked
    /// once more.
    pub(crate) async fn work(
        &self,
        model: &Model,
        request: &ChatRequest,
        workspace: &Workspace,
        turn: u32,
    ) -> Result<(ChatReply, Worked), CallError> {
        let name = format!("{}/{turn}", self.ticket.fence.0);
        let agent = AtWork {
            agent: model.client.as_ref(),
            workspace,
            worked: Mutex::new(Worked::default()),
        };
        let mut reply = self.once((&agent, 0), model, request, &name).await?;
        let mut worked = agent.take();
        let again = model.profile.settings.get(EMPTY_RETRIES);
        let again = again
            .map_or(Some(1), serde_json::Value::as_u64)
            .unwrap_or(1);
        for time in 0..again {
            let is_mute = reply.text.trim().is_empty() && workspace.collect.is_empty();
            if !is_mute || worked.failed.is_some() {
                break;
            }
            let name = match time {
                0 => format!("{name}/again"),
                time => format!("{name}/again{time}"),
            };
            let mut next = self.once((&agent, 0), model, request, &name).await?;
            next.usage += reply.usage;
            (reply, worked) = (next, agent.take());
        }
        Ok((reply, worked))
    }

    /// Makes one call; of a thousand such, so many may be made twice.
    async fn once(
        &self,
        (client, hedge_permille): (&dyn ChatModel, u32),
        model: &Model,
        request: &ChatRequest,
        id: &str,
    ) -> Result<ChatReply, CallError> {
        let Some(meter) = self.meter else {
            let answer = client.chat(request).await;
            self.metrics.call(&answer);
            return answer;
        };
        let which = Which {
            id,
            payer: self.envelope.payer.as_ref(),
            profile: &model.profile,
            hedge_permille,
        };
        match meter.call(which, client, request).await {
            Metered::Made(answer) => {
                self.metrics.call(&answer);
                answer
            }
            Metered::Not(instead) => {
                let detail = instead.failure().cause.clone();
                self.noted.note(instead);
                // Ends the rollout; what is told to the queue was noted.
                Err(CallError::Connection {
                    endpoint: model.profile.endpoint.clone(),
                    detail,
                })
            }
        }
    }
}

/// An agent as whoever counts calls sees it: one exchange, with all that it came to.
struct AtWork<'a> {
    agent: &'a dyn ChatModel,
    workspace: &'a Workspace,
    worked: Mutex<Worked>,
}

impl AtWork<'_> {
    fn take(&self) -> Worked {
        // No section under this lock can panic half-way.
        std::mem::take(&mut self.worked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl ChatModel for AtWork<'_> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let (reply, worked) = self.agent.work(request, self.workspace).await?;
        *self.worked.lock().unwrap_or_else(PoisonError::into_inner) = worked;
        Ok(reply)
    }
}
