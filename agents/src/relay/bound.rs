//! What a request can come to at most, and the limit that its answer gets so that this can be said.

use serde_json::{Value, json};
use skillopt_backends::AtMost;
use skillopt_backends::gate::{IMAGE_TOKENS_MAX, OVERHEAD_TOKENS};

use super::Wire;
use super::allow::Refusal;

/// Models that know the limit of Chat Completions by its new name alone; other servers may know only
/// the old one.
const NEW_NAME: [&str; 4] = ["gpt-5", "o1", "o3", "o4"];
/// Where Gemini's limit stands.
const CONFIG: &str = "generationConfig";
/// Shorter texts are no pictures.
const PICTURE_MIN: usize = 64;

/// The limit of an answer.
#[derive(Debug, PartialEq)]
pub(super) struct Limited {
    /// The most tokens that it may have.
    pub(super) tokens: Option<u64>,
    /// What a request that names none has to say for that: a part of it, and its name.
    pub(super) added: Option<(&'static str, Value)>,
}

/// Returns the limit of the answer of a request; one that names none gets `limit`, if there is one.
///
/// # Errors
/// A limit that is no number.
pub(super) fn limit(wire: Wire, request: &Value, limit: Option<u64>) -> Result<Limited, Refusal> {
    let model = request.get("model").and_then(Value::as_str);
    let model = model.unwrap_or_default();
    let is_new = NEW_NAME.iter().any(|begin| model.starts_with(begin));
    let names: &[&'static str] = match wire {
        Wire::Responses => &["max_output_tokens"],
        Wire::Chat if is_new => &["max_completion_tokens", "max_tokens"],
        Wire::Chat => &["max_tokens", "max_completion_tokens"],
        Wire::Messages => &["max_tokens"],
        Wire::Gemini => &["maxOutputTokens"],
    };
    let config = match wire {
        Wire::Gemini => request.get(CONFIG),
        _ => Some(request),
    };
    let mut own = None;
    for name in names {
        match config.and_then(|config| config.get(*name)) {
            None | Some(Value::Null) => {}
            Some(value) => {
                let number = value.as_u64().ok_or_else(|| {
                    Refusal::Body(format!("`{name}` is no whole number of tokens"))
                })?;
                own = own.max(Some(number));
            }
        }
    }
    let is_open = config.is_none_or(|config| config.is_object() || config.is_null());
    let Some(limit) = limit.filter(|_| own.is_none() && is_open) else {
        return Ok(Limited {
            tokens: own,
            added: None,
        });
    };
    let added = match wire {
        Wire::Gemini => {
            let mut config = config.cloned().unwrap_or(Value::Null);
            config[names[0]] = json!(limit);
            (CONFIG, config)
        }
        _ => (names[0], json!(limit)),
    };
    Ok(Limited {
        tokens: Some(limit),
        added: Some(added),
    })
}

/// Returns what a request of `bytes` comes to at most: a token is at least a byte, but for pictures.
pub(super) fn at_most(request: &Value, bytes: usize, completion_tokens: Option<u64>) -> AtMost {
    let mut pictures = Pictures::default();
    pictures.find(request);
    let text = (bytes as u64).saturating_sub(pictures.bytes);
    AtMost {
        prompt_tokens: text + OVERHEAD_TOKENS + pictures.count * IMAGE_TOKENS_MAX,
        completion_tokens,
    }
}

#[derive(Default)]
struct Pictures {
    count: u64,
    bytes: u64,
}

impl Pictures {
    fn find(&mut self, value: &Value) {
        match value {
            Value::Array(list) => list.iter().for_each(|value| self.find(value)),
            Value::Object(map) => {
                let kind = ["media_type", "mimeType", "mime_type"]
                    .iter()
                    .find_map(|key| map.get(*key)?.as_str());
                let is_picture = kind.is_some_and(|kind| kind.starts_with("image/"));
                for (key, value) in map {
                    // A text that only begins like a picture is a text.
                    let may_be_one = matches!(key.as_str(), "image_url" | "url");
                    match value.as_str() {
                        Some(text) if is_picture && key == "data" => self.add(text),
                        Some(text) if may_be_one && text.starts_with("data:image/") => {
                            self.add(text);
                        }
                        Some(_) => {}
                        None if key == "tools" => {}
                        None => self.find(value),
                    }
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        if text.len() >= PICTURE_MIN {
            self.count += 1;
            self.bytes += text.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_limit_gets_one_where_a_cap_has_to_be_kept() {
        for (wire, request, wanted, want) in [
            (Wire::Responses, json!({}), None, (json!({}), None)),
            (
                Wire::Responses,
                json!({}),
                Some(9),
                (json!({"max_output_tokens": 9}), Some(9)),
            ),
            (
                Wire::Chat,
                json!({"max_tokens": null}),
                Some(9),
                (json!({"max_tokens": 9}), Some(9)),
            ),
            (
                Wire::Chat,
                json!({"max_tokens": 5, "max_completion_tokens": 50}),
                Some(9),
                (
                    json!({"max_tokens": 5, "max_completion_tokens": 50}),
                    Some(50),
                ),
            ),
            (
                Wire::Chat,
                json!({"model": "gpt-5.5"}),
                Some(9),
                (
                    json!({"model": "gpt-5.5", "max_completion_tokens": 9}),
                    Some(9),
                ),
            ),
            (
                Wire::Messages,
                json!({"max_tokens": 500}),
                Some(9),
                (json!({"max_tokens": 500}), Some(500)),
            ),
            (Wire::Gemini, json!({}), None, (json!({}), None)),
            (
                Wire::Gemini,
                json!({"contents": []}),
                Some(9),
                (
                    json!({"contents": [], "generationConfig": {"maxOutputTokens": 9}}),
                    Some(9),
                ),
            ),
        ] {
            let mut limited = request.clone();
            let Limited { tokens, added } = limit(wire, &request, wanted).unwrap();
            if let Some((name, value)) = added {
                limited[name] = value;
            }
            assert_eq!((limited, tokens), want, "{wire:?} {request}");
        }
        for request in [json!({"max_tokens": "9"}), json!({"max_tokens": 1.5})] {
            assert!(limit(Wire::Chat, &request, None).is_err(), "{request}");
        }
    }

    #[test]
    fn a_token_is_at_least_a_byte_and_a_picture_has_its_own_price() {
        let data = "A".repeat(1_000_000);
        for (request, want) in [
            (json!({"input": "0123456789"}), 22 + OVERHEAD_TOKENS),
            (
                json!({"image_url": format!("data:image/png;base64,{data}")}),
                IMAGE_TOKENS_MAX + 16 + OVERHEAD_TOKENS,
            ),
            (
                json!({"source": {"media_type": "image/png", "data": data}}),
                IMAGE_TOKENS_MAX + 47 + OVERHEAD_TOKENS,
            ),
        ] {
            let bytes = request.to_string().len();
            let found = at_most(&request, bytes, None).prompt_tokens;
            assert!(found.abs_diff(want) <= 4, "{found}, about {want}");
        }
        // What only looks like a picture is text.
        for text in [
            json!({"media_type": "text/plain", "data": data}),
            json!({"text": format!("data:image/png;base64,{data}")}),
            json!({"tools": [{"image_url": format!("data:image/png;base64,{data}")}]}),
        ] {
            assert!(at_most(&text, text.to_string().len(), None).prompt_tokens > 1_000_000);
        }
    }
}
