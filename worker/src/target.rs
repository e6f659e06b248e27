//! The agent under training as a benchmark sees it: a model with its settings and limits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skillopt_backends::declare::Work;
use skillopt_backends::{
    CallError, ChatReply, ChatRequest, Finish, Message, Role, Worked, Workspace, registry,
};
use skillopt_benchmarks::Target;
use skillopt_core::Hash;
use skillopt_core::job::{Answer, ChatRecord, Key, Usage};

use crate::blobs::{Blobs, Model};
use crate::calls::Calls;

/// One rollout's view of its model.
pub(crate) struct SlotTarget<'a> {
    pub(crate) model: &'a Model,
    pub(crate) calls: Calls<'a>,
    pub(crate) timeout: Duration,
    pub(crate) answered: AtomicU32,
    /// Where each answer is kept by itself, if the rollout may fail after one.
    pub(crate) memory: Option<Memory<'a>>,
}

/// Keeps single answers of a rollout, by what was asked.
pub(crate) struct Memory<'a> {
    pub(crate) blobs: &'a Blobs,
    /// Stands for the model, the scope and the repeat.
    pub(crate) base: Hash,
}

impl Memory<'_> {
    fn key(&self, request: &ChatRequest, turn: u32) -> Key {
        let (turn, limit) = (turn.to_le_bytes(), request.max_tokens.to_le_bytes());
        let head: [&[u8]; 4] = [b"answer", self.base.as_bytes(), &turn, &limit];
        // Serialising plain data cannot fail; if it did, the answer is only not found again.
        let messages = serde_json::to_vec(&request.messages).unwrap_or_default();
        let head = head.into_iter().chain([messages.as_slice()]);
        Key(Hash::of_parts(head))
    }

    /// Stands for a task of an agent: what it is told, and what it finds.
    fn key_of_task(&self, request: &ChatRequest, workspace: &Workspace, turn: u32) -> Key {
        let asked = self.key(request, turn).0;
        let mut parts: Vec<&[u8]> = vec![b"task", asked.as_bytes(), workspace.skill.as_bytes()];
        for (path, text) in &workspace.skill_files {
            parts.extend([path.as_bytes(), text.as_bytes()]);
        }
        parts.push(b"files");
        for (path, bytes) in &workspace.files {
            parts.extend([path.as_bytes(), bytes.as_slice()]);
        }
        parts.push(b"collect");
        parts.extend(workspace.collect.iter().map(String::as_bytes));
        Key(Hash::of_parts(parts))
    }

    /// Returns a kept task.
    async fn find_task(&self, key: Key) -> Option<(ChatReply, Worked)> {
        let keys = [key];
        let found = self.blobs.ask(|store| store.results(&keys)).await;
        let bytes = found.ok()?.pop()??;
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        let worked = Worked {
            failed: kept.failed,
            files: kept.files,
            facts: kept.facts,
            trace: kept.trace,
        };
        Some((ChatReply::text(kept.text, kept.usage), worked))
    }

    async fn keep_task(&self, key: Key, reply: &ChatReply, worked: &Worked) {
        if worked.files.values().map(Vec::len).sum::<usize>() > KEPT_BYTES_MAX {
            return;
        }
        let kept = Kept {
            text: reply.text.clone(),
            usage: reply.usage,
            failed: worked.failed.clone(),
            files: worked.files.clone(),
            facts: worked.facts.clone(),
            trace: worked.trace.clone(),
        };
        if let Ok(bytes) = serde_json::to_vec(&kept) {
            let bytes = Bytes::from(bytes);
            // If this fails, so will storing the rollout, and that is told.
            let kept = self.blobs.ask(|store| store.put_result(key, bytes.clone()));
            drop(kept.await);
        }
    }

    /// Returns a kept answer; a store that cannot be read for good has none.
    async fn find(&self, key: Key) -> Option<ChatReply> {
        let keys = [key];
        let found = self.blobs.ask(|store| store.results(&keys)).await;
        let bytes = found.ok()?.pop()??;
        let record: ChatRecord = serde_json::from_slice(&bytes).ok()?;
        let Answer::Text(text) = record.answer else {
            return None;
        };
        let finish = match record.usage.truncated_calls {
            0 => Finish::Stop,
            _ => Finish::Length,
        };
        Some(ChatReply {
            finish,
            ..ChatReply::text(text, record.usage)
        })
    }

    async fn keep(&self, key: Key, reply: &ChatReply) {
        let record = ChatRecord {
            answer: Answer::Text(reply.text.clone()),
            usage: reply.usage,
        };
        if let Ok(bytes) = serde_json::to_vec(&record) {
            let bytes = Bytes::from(bytes);
            // If this fails, so will storing the rollout, and that is told.
            let kept = self.blobs.ask(|store| store.put_result(key, bytes.clone()));
            drop(kept.await);
        }
    }
}

/// Most bytes of an agent's files that are kept beside the rollout: its result does not hold them.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// A task that an agent has done.
#[derive(Serialize, Deserialize)]
struct Kept {
    text: String,
    usage: Usage,
    failed: Option<String>,
    files: BTreeMap<String, Vec<u8>>,
    facts: Map<String, Value>,
    trace: Vec<Value>,
}

/// A failed call fails the delivery, which goes back to the queue: its slot is free while it waits,
/// and what was answered before is found in the memory at the next try.
#[async_trait]
impl Target for SlotTarget<'_> {
    async fn ask(&self, messages: Vec<Message>, max_tokens: u32) -> Result<ChatReply, CallError> {
        let request = request(self.model, messages, max_tokens, self.timeout, "rollout");
        let turn = self.answered.fetch_add(1, Ordering::Relaxed);
        let Some(memory) = &self.memory else {
            return self.call(&request, turn).await;
        };
        let key = memory.key(&request, turn);
        if let Some(reply) = memory.find(key).await {
            return Ok(reply);
        }
        let reply = self.call(&request, turn).await?;
        memory.keep(key, &reply).await;
        Ok(reply)
    }

    fn is_agent(&self) -> bool {
        let backend = registry::find(&self.model.profile.backend);
        backend.is_some_and(|backend| backend.target == Some(Work::Agent))
    }

    async fn work(
        &self,
        prompt: String,
        workspace: Workspace,
        max_tokens: u32,
    ) -> Result<(ChatReply, Worked), CallError> {
        let messages = vec![Message::text(Role::User, prompt)];
        let request = request(self.model, messages, max_tokens, self.timeout, "rollout");
        let turn = self.answered.fetch_add(1, Ordering::Relaxed);
        let memory = self.memory.as_ref();
        let memory = memory.map(|m| (m, m.key_of_task(&request, &workspace, turn)));
        if let Some((memory, key)) = memory
            && let Some(done) = memory.find_task(key).await
        {
            return Ok(done);
        }
        let done = self
            .calls
            .work(self.model, &request, &workspace, turn)
            .await;
        let (mut reply, worked) = done?;
        cut(&mut reply.text, max_tokens);
        if let Some((memory, key)) = memory {
            memory.keep_task(key, &reply, &worked).await;
        }
        Ok((reply, worked))
    }
}

impl SlotTarget<'_> {
    async fn call(&self, request: &ChatRequest, turn: u32) -> Result<ChatReply, CallError> {
        let mut reply = self.calls.ask(self.model, request, turn).await?;
        cut(&mut reply.text, request.max_tokens);
        Ok(reply)
    }
}

/// No token is longer than this in the answers of any model, in bytes.
const TOKEN_BYTES_MAX: usize = 32;

/// Cuts off what no answer within the limit of tokens can hold: a server that sends more ignores
/// the limit, and trajectories must not grow without bound.
fn cut(text: &mut String, max_tokens: u32) {
    let bytes_max = (max_tokens as usize).saturating_mul(TOKEN_BYTES_MAX);
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
}

/// Builds a call with the model's own settings.
pub(crate) fn request(
    model: &Model,
    messages: Vec<Message>,
    max_tokens: u32,
    timeout: Duration,
    stage: &str,
) -> ChatRequest {
    let profile = &model.profile;
    let cap = if profile.max_tokens == 0 {
        u32::MAX
    } else {
        profile.max_tokens
    };
    ChatRequest {
        temperature: profile.temperature,
        reasoning_effort: Some(profile.reasoning_effort.clone()).filter(|e| !e.is_empty()),
        stage: stage.to_owned(),
        ..ChatRequest::new(&profile.model, messages, max_tokens.min(cap), timeout)
    }
}
