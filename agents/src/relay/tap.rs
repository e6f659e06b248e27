//! Reads answers on their way: what was said, and what it came to.

use super::Wire;
use super::lean::Lean;
use super::record::{Said, Tokens};
use super::sse::Events;

/// Most of a text that is recorded, in bytes.
const TEXT_MAX: usize = 8 << 20;

/// Reads one answer.
pub(super) struct Tap {
    wire: Wire,
    is_stream: bool,
    events: Events,
    whole: Vec<u8>,
    said: Said,
    tokens: Tokens,
    /// Calls of Chat Completions under way, by their index.
    open_calls: Vec<(u64, String, String)>,
}

impl Tap {
    pub(super) fn new(wire: Wire, is_stream: bool) -> Self {
        Self {
            wire,
            is_stream,
            events: Events::default(),
            whole: Vec::new(),
            said: Said::default(),
            tokens: Tokens::default(),
            open_calls: Vec::new(),
        }
    }

    /// Takes bytes as they come.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if !self.is_stream {
            self.whole.extend_from_slice(bytes);
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        events.feed(bytes, |data| self.event(data));
        self.events = events;
    }

    /// Returns what was read.
    pub(super) fn end(mut self) -> (Said, Tokens) {
        if self.is_stream {
            let mut events = std::mem::take(&mut self.events);
            events.end(|data| self.event(data));
        } else {
            let whole = std::mem::take(&mut self.whole);
            self.answer(&whole);
        }
        let open = std::mem::take(&mut self.open_calls).into_iter();
        self.said
            .calls
            .extend(open.map(|(_, name, arguments)| (name, arguments)));
        (self.said, self.tokens)
    }

    fn answer(&mut self, whole: &[u8]) {
        let text = std::str::from_utf8(whole).unwrap_or_default();
        if let Ok(value) = Lean::read(text) {
            match self.wire {
                Wire::Responses => self.response(&value),
                Wire::Chat => self.completion(&value),
                Wire::Messages => self.message(&value),
                Wire::Gemini => self.candidates(&value),
            }
        }
    }

    fn event(&mut self, data: &str) {
        if data == "[DONE]" {
            return;
        }
        let Ok(value) = Lean::read(data) else {
            return;
        };
        match self.wire {
            Wire::Responses => self.response_event(&value),
            Wire::Chat => self.chunk(&value),
            Wire::Messages => self.message_event(&value),
            Wire::Gemini => self.candidates(&value),
        }
    }

    fn say(&mut self, text: &str) {
        keep(&mut self.said.text, text);
    }

    fn finish(&mut self, word: Option<&str>) {
        if let Some(word) = word {
            self.said.finish = Some(word.to_owned());
        }
    }

    fn error(&mut self, error: &Lean<'_>) {
        let words = str_at(error, "message").unwrap_or("an error without words");
        self.said.error = Some(words.chars().take(300).collect());
    }

    fn response_event(&mut self, event: &Lean<'_>) {
        match str_at(event, "type") {
            Some("response.output_item.done") => self.item(&event["item"]),
            Some("response.completed" | "response.incomplete") => {
                let response = &event["response"];
                self.response_usage(response);
                let reason = str_at(&response["incomplete_details"], "reason");
                self.finish(reason.or(Some("completed")));
            }
            Some("response.failed") => self.error(&event["response"]["error"]),
            Some("error") => self.error(event),
            _ => {}
        }
    }

    fn response(&mut self, response: &Lean<'_>) {
        for item in list(response, "output") {
            self.item(item);
        }
        self.response_usage(response);
        let reason = str_at(&response["incomplete_details"], "reason");
        self.finish(reason.or_else(|| str_at(response, "status")));
        if response["error"].is_map() {
            self.error(&response["error"]);
        }
    }

    fn response_usage(&mut self, response: &Lean<'_>) {
        let usage = &response["usage"];
        self.tokens = Tokens {
            input: count(usage, "input_tokens"),
            cached: count(&usage["input_tokens_details"], "cached_tokens"),
            output: count(usage, "output_tokens"),
            reasoning: count(&usage["output_tokens_details"], "reasoning_tokens"),
            ..Tokens::default()
        };
    }

    fn item(&mut self, item: &Lean<'_>) {
        match str_at(item, "type") {
            Some("message") => {
                for part in list(item, "content") {
                    let text = str_at(part, "text").or_else(|| str_at(part, "refusal"));
                    self.say(text.unwrap_or_default());
                }
            }
            Some("reasoning") => {
                for part in list(item, "summary") {
                    keep(
                        &mut self.said.reasoning,
                        str_at(part, "text").unwrap_or_default(),
                    );
                }
            }
            Some("function_call" | "custom_tool_call") => {
                let arguments = str_at(item, "arguments").or_else(|| str_at(item, "input"));
                self.call(str_at(item, "name"), arguments);
            }
            _ => {}
        }
    }

    fn call(&mut self, name: Option<&str>, arguments: Option<&str>) {
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        self.said.calls.push((owned(name), owned(arguments)));
    }

    fn chat_usage(&mut self, value: &Lean<'_>) {
        let usage = &value["usage"];
        if usage.is_map() {
            self.tokens = Tokens {
                input: count(usage, "prompt_tokens"),
                cached: count(&usage["prompt_tokens_details"], "cached_tokens"),
                output: count(usage, "completion_tokens"),
                reasoning: count(&usage["completion_tokens_details"], "reasoning_tokens"),
                ..Tokens::default()
            };
        }
    }

    fn chunk(&mut self, chunk: &Lean<'_>) {
        self.chat_usage(chunk);
        if chunk["error"].is_map() {
            self.error(&chunk["error"]);
        }
        let Some(choice) = list(chunk, "choices").first() else {
            return;
        };
        let delta = &choice["delta"];
        self.say(str_at(delta, "content").unwrap_or_default());
        let reasoning = str_at(delta, "reasoning_content").or_else(|| str_at(delta, "reasoning"));
        keep(&mut self.said.reasoning, reasoning.unwrap_or_default());
        for call in list(delta, "tool_calls") {
            let index = count(call, "index");
            let function = &call["function"];
            let known = self
                .open_calls
                .iter()
                .position(|(known, _, _)| *known == index);
            let at = known.unwrap_or_else(|| {
                self.open_calls.push((index, String::new(), String::new()));
                self.open_calls.len() - 1
            });
            let (_, name, arguments) = &mut self.open_calls[at];
            keep(name, str_at(function, "name").unwrap_or_default());
            keep(arguments, str_at(function, "arguments").unwrap_or_default());
        }
        self.finish(str_at(choice, "finish_reason"));
    }

    fn completion(&mut self, value: &Lean<'_>) {
        self.chat_usage(value);
        let Some(choice) = list(value, "choices").first() else {
            return;
        };
        let message = &choice["message"];
        let text = str_at(message, "content").or_else(|| str_at(message, "refusal"));
        self.say(text.unwrap_or_default());
        for call in list(message, "tool_calls") {
            let function = &call["function"];
            self.call(str_at(function, "name"), str_at(function, "arguments"));
        }
        self.finish(str_at(choice, "finish_reason"));
    }

    fn message_usage(&mut self, usage: &Lean<'_>) {
        // Anthropic counts what came from the cache, and what went into it, apart.
        let cached = count(usage, "cache_read_input_tokens");
        let written = count(usage, "cache_creation_input_tokens");
        if usage.get("input_tokens").is_some() {
            self.tokens.input = count(usage, "input_tokens") + cached + written;
            self.tokens.cached = cached;
            self.tokens.cache_write = written;
        }
        if usage.get("output_tokens").is_some() {
            self.tokens.output = count(usage, "output_tokens");
        }
    }

    fn message_event(&mut self, event: &Lean<'_>) {
        match str_at(event, "type") {
            Some("message_start") => self.message_usage(&event["message"]["usage"]),
            Some("content_block_start") => {
                let block = &event["content_block"];
                if str_at(block, "type") == Some("tool_use") {
                    self.call(str_at(block, "name"), None);
                }
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                self.say(str_at(delta, "text").unwrap_or_default());
                let thinking = str_at(delta, "thinking").unwrap_or_default();
                keep(&mut self.said.reasoning, thinking);
                if let (Some(part), Some((_, arguments))) =
                    (str_at(delta, "partial_json"), self.said.calls.last_mut())
                {
                    keep(arguments, part);
                }
            }
            Some("message_delta") => {
                self.message_usage(&event["usage"]);
                self.finish(str_at(&event["delta"], "stop_reason"));
            }
            Some("error") => self.error(&event["error"]),
            _ => {}
        }
    }

    fn message(&mut self, message: &Lean<'_>) {
        self.message_usage(&message["usage"]);
        for block in list(message, "content") {
            match str_at(block, "type") {
                Some("text") => self.say(str_at(block, "text").unwrap_or_default()),
                Some("thinking") => {
                    let thinking = str_at(block, "thinking").unwrap_or_default();
                    keep(&mut self.said.reasoning, thinking);
                }
                Some("tool_use") => {
                    let input = block["input"].to_string();
                    self.call(str_at(block, "name"), Some(&input));
                }
                _ => {}
            }
        }
        self.finish(str_at(message, "stop_reason"));
    }

    fn candidates(&mut self, value: &Lean<'_>) {
        let usage = &value["usageMetadata"];
        if usage.is_map() {
            let thoughts = count(usage, "thoughtsTokenCount");
            self.tokens = Tokens {
                input: count(usage, "promptTokenCount"),
                cached: count(usage, "cachedContentTokenCount"),
                output: count(usage, "candidatesTokenCount") + thoughts,
                reasoning: thoughts,
                ..Tokens::default()
            };
        }
        if value["error"].is_map() {
            self.error(&value["error"]);
        }
        let Some(candidate) = list(value, "candidates").first() else {
            return;
        };
        for part in list(&candidate["content"], "parts") {
            let text = str_at(part, "text").unwrap_or_default();
            if part["thought"] == Lean::Bool(true) {
                keep(&mut self.said.reasoning, text);
            } else {
                self.say(text);
            }
            let call = &part["functionCall"];
            if call.is_map() {
                let arguments = call["args"].to_string();
                self.call(str_at(call, "name"), Some(&arguments));
            }
        }
        self.finish(str_at(candidate, "finishReason"));
    }
}

fn keep(text: &mut String, more: &str) {
    let room = TEXT_MAX.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(room.min(more.len()))]);
}

fn str_at<'a>(value: &'a Lean<'_>, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn count(value: &Lean<'_>, key: &str) -> u64 {
    value.get(key).and_then(Lean::as_u64).unwrap_or(0)
}

fn list<'a, 't>(value: &'a Lean<'t>, key: &str) -> &'a [Lean<'t>] {
    match value.get(key) {
        Some(Lean::List(list)) => list,
        _ => &[],
    }
}
