//! Bodies of chat calls, read without copying what needs no unescaping.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// A call as its body tells it.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    /// The model that is asked; empty if the body names none.
    pub(super) model: Cow<'a, str>,
    /// All system and developer text.
    pub(super) sys: Cow<'a, str>,
    /// All user text, each message followed by a newline.
    pub(super) user: String,
    /// Number of messages; the system text of the messages shape counts as one, so that both
    /// shapes give the same work the same key.
    pub(super) n_messages: usize,
}

/// A body that is no call.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// It is no JSON of the right shape.
    #[error("the body is not a chat request: {0}")]
    Shape(#[from] serde_json::Error),
    /// It asks for a stream of events.
    #[error("streaming is not offered; leave out `stream` or set it to false")]
    Stream,
}

/// Reads a body of either shape.
pub(super) fn parse(body: &[u8]) -> Result<Parsed<'_>, WireError> {
    let body: Body<'_> = serde_json::from_slice(body)?;
    if body.stream == Some(true) {
        return Err(WireError::Stream);
    }
    let mut n_messages = body.messages.len();
    let mut sys = Cow::Borrowed("");
    if let Some(text) = body.system {
        n_messages += 1;
        sys = text.0;
    }
    let mut user = String::new();
    for message in body.messages {
        match message.role.as_ref() {
            "system" | "developer" if sys.is_empty() => sys = message.content.0,
            "system" | "developer" => {
                let sys = sys.to_mut();
                sys.push('\n');
                sys.push_str(&message.content.0);
            }
            "user" => {
                user.reserve(message.content.0.len() + 1);
                user.push_str(&message.content.0);
                user.push('\n');
            }
            _ => {}
        }
    }
    Ok(Parsed {
        model: body.model.0,
        sys,
        user,
        n_messages,
    })
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    system: Option<Text<'a>>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(default)]
    stream: Option<bool>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Text<'a>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

/// A text, a list of parts with texts (one line each), or null.
#[derive(Debug, Default)]
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts with `text`")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut all = Cow::Borrowed("");
        while let Some(part) = parts.next_element::<Part<'de>>()? {
            if all.is_empty() {
                all = part.text;
            } else if !part.text.is_empty() {
                let all = all.to_mut();
                all.push('\n');
                all.push_str(&part.text);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(body: &Value, expected: (&str, &str, usize)) {
        let body = body.to_string();
        let seen = parse(body.as_bytes()).expect("a call");
        assert_eq!((&*seen.sys, &*seen.user, seen.n_messages), expected);
    }

    #[test]
    fn both_shapes_and_parts_are_read() {
        check(
            &json!({"model": "m", "messages": [
                {"role": "system", "content": "a\n\"b\""},
                {"role": "user", "content": "c"},
                {"role": "assistant", "content": null, "tool_calls": []},
                {"role": "user", "content": [{"type": "text", "text": "d"}, {"type": "image"},
                                             {"type": "text", "text": "e"}]},
                {"role": "developer", "content": "f"},
            ]}),
            ("a\n\"b\"\nf", "c\nd\ne\n", 5),
        );
        check(
            &json!({"model": "m", "max_tokens": 5, "system": [{"type": "text", "text": "s"}],
                    "messages": [{"role": "user", "content": "u"}]}),
            ("s", "u\n", 2),
        );
        check(&json!({"messages": []}), ("", "", 0));
    }

    #[test]
    fn other_bodies_are_refused() {
        for body in [
            "",
            "[]",
            "{}",
            "{\"messages\": 1}",
            "{\"messages\":[{\"role\":1}]}",
        ] {
            assert!(
                matches!(parse(body.as_bytes()), Err(WireError::Shape(_))),
                "{body}"
            );
        }
        let stream = b"{\"messages\":[],\"stream\":true}";
        assert!(matches!(parse(stream), Err(WireError::Stream)));
    }
}
