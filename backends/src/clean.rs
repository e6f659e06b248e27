//! Takes credentials out of what came of an exchange, by value: a server may say whatever it was
//! sent.

use skillopt_runtime::redact::redact;

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
