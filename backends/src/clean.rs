//! Takes credentials out of what came of an exchange, by value: a server may say whatever it was
//! sent.

use serde_json::Value;
use skillopt_runtime::redact::{REDACTED, redact};

use crate::Worked;
use crate::contract::ChatReply;
use crate::error::CallError;

/// Shorter ones are no credentials, and taking them out would shred ordinary words.
const SECRET_MIN: usize = 8;

/// Returns what came of an exchange without the credentials, wherever they were put.
///
/// # Errors
/// That of `answer`.
pub fn clean(
    answer: Result<ChatReply, CallError>,
    secrets: &[&str],
) -> Result<ChatReply, CallError> {
    let secrets: Vec<&str> = secrets.iter().copied().filter(is_credential).collect();
    let clean = |text: &mut String| {
        if secrets.iter().any(|secret| text.contains(secret)) {
            *text = redact(text, &secrets);
        }
    };
    match answer {
        Ok(mut reply) => {
            clean(&mut reply.text);
            for call in &mut reply.tool_calls {
                clean(&mut call.id);
                clean(&mut call.name);
                clean(&mut call.arguments);
            }
            Ok(reply)
        }
        Err(mut error) => {
            if let Some(detail) = error.detail_mut() {
                clean(detail);
            }
            Err(error)
        }
    }
}

/// Takes credentials out of what an agent did.
pub fn scrub(worked: &mut Worked, secrets: &[&str]) {
    if let Some(why) = &mut worked.failed {
        *why = redact(why, secrets);
    }
    for value in worked.trace.iter_mut().chain(worked.facts.values_mut()) {
        scrub_value(value, secrets);
    }
    for bytes in worked.files.values_mut() {
        for secret in secrets {
            scrub_bytes(bytes, secret.as_bytes());
        }
    }
}

fn scrub_value(value: &mut Value, secrets: &[&str]) {
    let holds = |text: &str| secrets.iter().any(|secret| text.contains(secret));
    match value {
        Value::String(text) if holds(text) => *text = redact(text, secrets),
        Value::Array(list) => list
            .iter_mut()
            .for_each(|value| scrub_value(value, secrets)),
        Value::Object(map) => {
            map.values_mut()
                .for_each(|value| scrub_value(value, secrets));
            if map.keys().any(|name| holds(name)) {
                let fields = std::mem::take(map).into_iter();
                *map = fields
                    .map(|(name, value)| (redact(&name, secrets), value))
                    .collect();
            }
        }
        _ => {}
    }
}

/// Takes a credential out of a file; all else of it stays, for it need not be text.
fn scrub_bytes(bytes: &mut Vec<u8>, secret: &[u8]) {
    let mut from = 0;
    let find = |bytes: &[u8], from: usize| {
        let rest = bytes.get(from..)?;
        rest.windows(secret.len()).position(|part| part == secret)
    };
    while let Some(at) = find(bytes, from) {
        let at = from + at;
        bytes.splice(at..at + secret.len(), REDACTED.bytes());
        from = at + REDACTED.len();
    }
}

/// Returns whether a text is long enough for a credential.
#[must_use]
pub const fn is_credential(text: &&str) -> bool {
    text.len() >= SECRET_MIN
}

#[cfg(test)]
mod tests {
    use skillopt_core::job::Usage;

    use super::*;
    use crate::contract::ToolCall;

    const KEY: &str = "sk-0123456789";

    #[test]
    fn a_credential_is_taken_out_wherever_it_was_put() {
        let said = |what: &str| format!("{what} {KEY}");
        let mut reply = ChatReply::text(said("text"), Usage::default());
        reply.tool_calls = vec![ToolCall {
            id: said("id"),
            name: said("name"),
            arguments: said("arguments"),
        }];
        let cleaned = clean(Ok(reply), &["short", KEY]).unwrap();
        let shown = format!("{cleaned:?}");
        assert!(!shown.contains(KEY), "{shown}");
        for what in ["text", "id", "name", "arguments"] {
            assert!(shown.contains(&format!("\"{what} [redacted]\"")), "{shown}");
        }
        let error = CallError::SignIn(Box::new(CallError::Unauthorized {
            endpoint: "e".to_owned(),
            status: 401,
            detail: said("bad"),
        }));
        let shown = clean(Err(error), &[KEY]).unwrap_err().to_string();
        assert!(!shown.contains(KEY) && shown.contains("bad"), "{shown}");
    }

    #[test]
    fn ordinary_words_stay() {
        let reply = ChatReply::text("a dummy answer", Usage::default());
        let cleaned = clean(Ok(reply), &["dummy", ""]).unwrap();
        assert_eq!(cleaned.text, "a dummy answer");
    }
}
