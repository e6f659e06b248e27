//! A client whose credentials show in nothing that comes of it, and may be replaced under way.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use skillopt_backends::clean::{clean, is_credential, scrub};
use skillopt_backends::{CallError, ChatModel, ChatReply, ChatRequest, Gate, Worked, Workspace};
use skillopt_core::secret::Secret;
use skillopt_runtime::redact::redact;

/// A client with the credentials that it was given.
pub(super) struct Linked {
    pub(super) client: Arc<dyn ChatModel>,
    pub(super) secrets: Vec<Secret>,
    /// Whether a credential stands in a file, which may have changed.
    pub(super) may_change: bool,
}

/// Makes the client, with the credentials as they are now.
type Make = Box<dyn Fn() -> Result<Linked, CallError> + Send + Sync>;

/// Keeps credentials out of answers and errors by value, whatever a server or a backend puts
/// there; reads them again when a server rejects one that stands in a file.
pub(super) struct Guarded {
    make: Make,
    linked: Mutex<Arc<Linked>>,
}

impl Guarded {
    /// # Errors
    /// The client cannot be made.
    pub(super) fn new(make: Make) -> Result<Self, CallError> {
        let linked = make().map(Arc::new)?;
        Ok(Self {
            make,
            linked: Mutex::new(linked),
        })
    }

    /// Returns a JSON text without the credentials.
    pub(super) fn scrubbed(&self, json: &str) -> String {
        let linked = Arc::clone(&self.linked());
        let escaped = |secret: &&str| serde_json::Value::from(*secret).to_string();
        let plain = shown_never(&linked.secrets);
        let escaped: Vec<String> = plain.iter().map(escaped).collect();
        let inner = escaped.iter().map(|text| text.trim_matches('"'));
        redact(
            json,
            &plain.iter().copied().chain(inner).collect::<Vec<_>>(),
        )
    }

    fn linked(&self) -> std::sync::MutexGuard<'_, Arc<Linked>> {
        // No section under this lock can panic half-way.
        self.linked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a client with other credentials than `old` has; none if they are still the same.
    fn renewed(&self, old: &Arc<Linked>) -> Option<Arc<Linked>> {
        let mut current = self.linked();
        if !Arc::ptr_eq(&current, old) {
            return Some(Arc::clone(&current));
        }
        if !old.may_change {
            return None;
        }
        // A file that cannot be read now keeps the error that the server gave.
        let new = (self.make)()
            .ok()
            .filter(|new| new.secrets != old.secrets)?;
        *current = Arc::new(new);
        Some(Arc::clone(&current))
    }
}

#[async_trait]
impl ChatModel for Guarded {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let mut linked = Arc::clone(&self.linked());
        let mut answer = linked.client.chat(request).await;
        if answer.as_ref().is_err_and(CallError::is_unauthorized)
            && let Some(new) = self.renewed(&linked)
        {
            answer = new.client.chat(request).await;
            linked = new;
        }
        clean(answer, &shown_never(&linked.secrets))
    }

    async fn work(
        &self,
        request: &ChatRequest,
        workspace: &Workspace,
        gate: &Arc<dyn Gate>,
    ) -> Result<(ChatReply, Worked), CallError> {
        let mut linked = Arc::clone(&self.linked());
        let mut done = linked.client.work(request, workspace, gate).await;
        if done.as_ref().is_err_and(CallError::is_unauthorized)
            && let Some(new) = self.renewed(&linked)
        {
            done = new.client.work(request, workspace, gate).await;
            linked = new;
        }
        let secrets = shown_never(&linked.secrets);
        let (reply, mut worked) = match done {
            Ok((reply, worked)) => (Ok(reply), worked),
            Err(error) => (Err(error), Worked::default()),
        };
        // A program that is not shut in can read a credential that it was not given, and leave it in
        // whatever it writes.
        scrub(&mut worked, &secrets);
        Ok((clean(reply, &secrets)?, worked))
    }
}

fn shown_never(secrets: &[Secret]) -> Vec<&str> {
    secrets
        .iter()
        .map(|secret| secret.expose().trim())
        .filter(is_credential)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use skillopt_backends::{Message, Role};
    use skillopt_core::job::Usage;

    use super::*;

    /// Takes one key, and says it in all that it says.
    struct Server {
        key: String,
        accepted: &'static str,
    }

    #[async_trait]
    impl ChatModel for Server {
        async fn chat(&self, _: &ChatRequest) -> Result<ChatReply, CallError> {
            if self.key == self.accepted {
                return Ok(ChatReply::text(
                    format!("with {}", self.key),
                    Usage::default(),
                ));
            }
            Err(CallError::Unauthorized {
                endpoint: "http://h".to_owned(),
                status: 401,
                detail: format!("bad key {}", self.key),
            })
        }
    }

    /// Calls once; each look at the credentials finds the next of `keys`.
    async fn call(keys: &'static [&'static str], may_change: bool) -> Result<String, String> {
        let looks = AtomicUsize::new(0);
        let make = move || {
            let key = keys[looks.fetch_add(1, Ordering::SeqCst).min(keys.len() - 1)].to_owned();
            Ok(Linked {
                secrets: vec![Secret::new(key.as_str())],
                client: Arc::new(Server {
                    key,
                    accepted: "sk-second",
                }),
                may_change,
            })
        };
        let guarded = Guarded::new(Box::new(make)).unwrap();
        let messages = vec![Message::text(Role::User, "x")];
        let request = ChatRequest::new("m", messages, 1, Duration::from_secs(1));
        let answer = guarded.chat(&request).await;
        answer.map(|r| r.text).map_err(|e| e.to_string())
    }

    #[test]
    fn nothing_that_an_agent_did_holds_a_credential() {
        let key = "sk-0123456789";
        let mut worked = Worked {
            failed: Some(format!("failed with {key}")),
            files: [(
                "a.bin".to_owned(),
                [b"\xff\x00", key.as_bytes(), b"\xfe"].concat(),
            )]
            .into(),
            facts: [(
                "refused".to_owned(),
                serde_json::json!([format!("to {key}")]),
            )]
            .into_iter()
            .collect(),
            trace: vec![serde_json::json!({"output": {key: format!("{key}{key}")}, "n": 1})],
        };
        scrub(&mut worked, &[key]);
        let wanted = Worked {
            failed: Some("failed with [redacted]".to_owned()),
            files: [("a.bin".to_owned(), b"\xff\x00[redacted]\xfe".to_vec())].into(),
            facts: [("refused".to_owned(), serde_json::json!(["to [redacted]"]))]
                .into_iter()
                .collect(),
            trace: vec![
                serde_json::json!({"output": {"[redacted]": "[redacted][redacted]"}, "n": 1}),
            ],
        };
        assert_eq!(worked, wanted);
    }

    #[tokio::test]
    async fn a_key_that_was_replaced_is_read_again_and_none_is_shown() {
        let answered = Ok("with [redacted]".to_owned());
        assert_eq!(call(&["sk-first", "sk-second"], true).await, answered);
        for (keys, may_change) in [
            (&["sk-first", "sk-second"][..], false),
            (&["sk-first", "sk-first"], true),
            (&["sk-first", "sk-third"], true),
        ] {
            let refused = call(keys, may_change).await.unwrap_err();
            assert!(refused.contains("[redacted]"), "{refused}");
            assert!(!refused.contains("sk-"), "{refused}");
        }
    }
}
