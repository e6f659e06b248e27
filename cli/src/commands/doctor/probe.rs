//! Two short calls: does a model answer, and can its answers be bound to a schema?

use std::time::Duration;

use serde_json::{Value, json};
use skillopt_backends::{CallError, ChatModel, ChatRequest, Message, Role};
use skillopt_core::job::{Profile, Schema};

/// Limit of one call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Tokens that the answer may have; models that think need some before the first word.
const TOKENS: u32 = 512;

/// Makes a short call; returns what came of it in words.
///
/// # Errors
/// The call gave no answer.
pub(super) async fn answers(model: &dyn ChatModel, profile: &Profile) -> Result<String, CallError> {
    let request = request(profile, "Answer briefly.", "Say the word ready.", None);
    let reply = model.chat(&request).await?;
    Ok(format!(
        "`{}` by `{}` answers ({} tokens)",
        profile.model,
        profile.backend,
        reply.usage.prompt_tokens + reply.usage.completion_tokens
    ))
}

/// Asks for a choice without asking for JSON: only a schema makes the answer an object.
///
/// # Errors
/// Why the answers cannot be bound, in words.
pub(super) async fn is_bound(model: &dyn ChatModel, profile: &Profile) -> Result<(), String> {
    let schema = Schema {
        name: "ranking".to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "selected_indices": {"type": "array", "items": {"type": "integer"}}
            },
            "required": ["selected_indices"],
            "additionalProperties": false,
        }),
    };
    let system = "You choose lines of a list. The numbers of the chosen lines are the \
                  selected_indices.";
    let user = "[0] keep this line\n[1] drop this line\nChoose the line to keep.";
    let request = request(profile, system, user, Some(schema));
    let reply = model.chat(&request).await.map_err(|e| e.to_string())?;
    let value: Result<Value, _> = serde_json::from_str(reply.text.trim());
    let is_bound = value.is_ok_and(|v| v.get("selected_indices").is_some_and(Value::is_array));
    if is_bound {
        Ok(())
    } else {
        Err("the answer is not what the schema says".to_owned())
    }
}

fn request(profile: &Profile, system: &str, user: &str, schema: Option<Schema>) -> ChatRequest {
    let messages = vec![
        Message::text(Role::System, system),
        Message::text(Role::User, user),
    ];
    ChatRequest {
        temperature: profile.temperature,
        reasoning_effort: Some(profile.reasoning_effort.clone()).filter(|e| !e.is_empty()),
        schema,
        stage: "doctor".to_owned(),
        ..ChatRequest::new(&profile.model, messages, TOKENS, TIMEOUT)
    }
}
