//! Two short calls: does a model answer, and can its answers be bound to a schema?

use std::time::Duration;

use serde_json::{Value, json};
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest, Message, Outcome, Role};
use skillopt_core::job::{Profile, Schema};

/// Limit of one call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Tokens that the answer may have; models that think need some before the first word.
const TOKENS: u32 = 512;

/// What came of a short call, in words.
pub(super) struct Answered {
    pub(super) words: String,
    /// What to do about it, if it is no whole answer.
    pub(super) hint: Option<&'static str>,
}

/// Makes a short call.
///
/// # Errors
/// The call failed.
pub(super) async fn answers(
    model: &dyn ChatModel,
    profile: &Profile,
) -> Result<Answered, CallError> {
    let request = request(profile, "Answer briefly.", "Say the word ready.", None);
    let reply = model.chat(&request).await?;
    Ok(judged(&reply, profile))
}

fn judged(reply: &ChatReply, profile: &Profile) -> Answered {
    let is_mute = reply.text.trim().is_empty();
    let (said, hint) = match Outcome::of_reply(reply) {
        Outcome::Answer => ("answers", None),
        Outcome::Truncated if is_mute => (
            "thinks up to the limit of tokens and says nothing",
            Some(
                "give its answers more tokens (`env.max_completion_tokens` and the backend's \
                 `…_max_tokens`), or less `model.reasoning_effort`",
            ),
        ),
        Outcome::Truncated => (
            "does not come to an end within the limit of tokens",
            Some("look at what it says: a short answer was asked for"),
        ),
        Outcome::Empty => (
            "gives an empty answer",
            Some("check the model's name, and whether it is one that chats"),
        ),
        _ => (
            "does not answer with a text",
            Some("check the model's name, and whether it is one that chats"),
        ),
    };
    let tokens = reply.usage.prompt_tokens + reply.usage.completion_tokens;
    Answered {
        words: format!(
            "`{}` by `{}` {said} ({tokens} tokens)",
            profile.model, profile.backend
        ),
        hint,
    }
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

#[cfg(test)]
mod tests {
    use skillopt_backends::Finish;
    use skillopt_core::job::Usage;

    use super::*;

    #[test]
    fn only_a_whole_answer_is_fine() {
        let profile = Profile::bare("target", "openai_compatible", "m");
        for (text, finish, words, is_fine) in [
            ("ready", Finish::Stop, "answers", true),
            ("", Finish::Length, "says nothing", false),
            ("ready or", Finish::Length, "does not come to an end", false),
            (" ", Finish::Stop, "empty answer", false),
        ] {
            let usage = Usage {
                prompt_tokens: 5,
                completion_tokens: 512,
                ..Usage::default()
            };
            let reply = ChatReply {
                finish,
                ..ChatReply::text(text, usage)
            };
            let seen = judged(&reply, &profile);
            assert!(seen.words.contains(words), "{}", seen.words);
            assert!(seen.words.contains("(517 tokens)"), "{}", seen.words);
            assert_eq!(seen.hint.is_none(), is_fine, "{text}");
        }
    }
}
