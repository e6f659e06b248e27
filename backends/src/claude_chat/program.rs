//! The Claude program as a text model.
use crate::contract::{ChatModel, ChatReply, ChatRequest};
use crate::declare::Local;
use crate::error::CallError;
use async_trait::async_trait;
use skillopt_core::job::Profile;
pub(super) struct Client;
impl Client {
    pub(super) fn new(_: &Profile, _: &Local<'_>) -> Result<Self, CallError> {
        Ok(Self)
    }
}
#[async_trait]
impl ChatModel for Client {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply, CallError> {
        Err(CallError::Misconfigured {
            endpoint: "claude".into(),
            status: 0,
            detail: "not yet".into(),
        })
    }
}
