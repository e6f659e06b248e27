//! Every model call of a worker goes through here.

use std::sync::Arc;

use skillopt_backends::{
    CallError, ChatModel, ChatReply, ChatRequest, Finish, Gate, Open, Outcome, Worked, Workspace,
};
use skillopt_core::job::Envelope;
use skillopt_queue::Ticket;

use crate::blobs::Model;
use crate::meter::{Meter, Metered, Noted, Task, Toll, Which};
use crate::metrics::Metrics;

/// The setting that says how often an agent that says nothing is asked again.
const EMPTY_RETRIES: &str = "agent_empty_retries";

/// Makes the calls of one delivery of a job.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    /// The job, and who pays for it.
    pub(crate) envelope: &'a Envelope,
    /// Names this delivery.
    pub(crate) ticket: Ticket,
    pub(crate) metrics: &'a Metrics,
    /// Caps and rates, if there are any.
    pub(crate) meter: Option<&'a Arc<Meter>>,
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
        let (mut reply, mut worked) = self.task(model, request, workspace, name.clone()).await?;
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
            let (mut next, did) = self.task(model, request, workspace, name).await?;
            next.usage += reply.usage;
            (reply, worked) = (next, did);
        }
        Ok((reply, worked))
    }

    /// Has an agent do a task once; each of its own calls goes through the meter.
    async fn task(
        &self,
        model: &Model,
        request: &ChatRequest,
        workspace: &Workspace,
        name: String,
    ) -> Result<(ChatReply, Worked), CallError> {
        // Counts what is under way, if this is dropped.
        let toll = self.meter.map(|meter| {
            let task = Task {
                name,
                payer: self.envelope.payer.clone(),
                profile: model.profile.clone(),
                stage: request.stage.clone(),
                lifetime: request.timeout,
                answer_limit: request.max_tokens,
            };
            Toll::new(meter, task, self.noted)
        });
        let gate = match &toll {
            Some(toll) => toll.gate(),
            None => Arc::new(Open) as Arc<dyn Gate>,
        };
        let done = model.client.work(request, workspace, &gate).await;
        drop(toll);
        let (reply, worked) = match done {
            Ok((reply, worked)) => (Ok(reply), worked),
            Err(e) => (Err(e), Worked::default()),
        };
        self.metrics.call(&reply);
        Ok((reply?, worked))
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
            return answer.map(noted_if_cut);
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
                answer.map(noted_if_cut)
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

/// Counts an answer that the token limit cut: a stage that finds nothing in it must not look like one
/// whose model had nothing to say.
fn noted_if_cut(mut reply: ChatReply) -> ChatReply {
    if reply.finish == Finish::Length {
        reply.usage.truncated_calls = 1;
    }
    reply
}
