//! Whether a request was refused for what its own prompt holds: others may be answered.
//!
//! A refusal that is counted against the prompt becomes a score, so that only the provider's own words
//! are believed. Whatever else refuses a request, as a gateway that takes no long bodies, would refuse
//! others too: that is the configuration's fault, and pauses the run.
//!
//! Where the prompt fits, but not together with the answer that was asked for, a lower limit of the
//! answer helps: the configuration's fault again, unless less than [`ANSWER_MIN`] would be left. A
//! limit that alone is above what the model can hold refuses every prompt.

use serde_json::Value;

/// Tokens that an answer needs at least: a prompt that leaves fewer is too long by itself.
const ANSWER_MIN: u64 = 256;

/// What is said of a prompt that does not fit, in small letters.
const TOO_LONG: &[&str] = &[
    CODE,
    "request_too_large",
    "exceed_context_size",
    "context length",
    "context size",
    "context window",
    "maximum context",
    "maximum prompt length",
    "maximum model length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "messages are too long",
    "conversation is too long",
    "range of input length",
    "reduce the length of the messages",
    "reduce the length of the input",
    "reduce the length of the prompt",
    "too many tokens",
    "exceeds the maximum number of tokens",
];

/// The code of OpenAI, and of many servers that speak like it.
const CODE: &str = "context_length_exceeded";

/// What is said of the limit of the answer.
const OF_ANSWER: &[&str] = &["max_tokens", "max_completion_tokens", "in the completion"];

/// What is said of an image that cannot be read.
const BAD_IMAGE: &[&str] = &[
    "invalid_image",
    "invalid_base64_image",
    "image_parse_error",
    "image_too_large",
    "image_too_small",
    "image_file_too_large",
    "empty_image_file",
    "unsupported_image_media_type",
    "unsupported image",
    "cannot identify image file",
    "failed to load image",
    "could not process image",
    "image exceeds",
    "unable to process input image",
    "provided image is not valid",
];

/// Returns whether the prompt is at fault, by all that was told.
pub(crate) fn is_at_fault(told: &str) -> bool {
    let words = told.to_lowercase();
    if words.contains("string_above_max_length") {
        return is_string_of_prompt(told, &words);
    }
    does_not_fit(&words) || BAD_IMAGE.iter().any(|part| words.contains(part))
}

/// A description of a tool can be too long as well, and it is the same in every request.
fn is_string_of_prompt(told: &str, words: &str) -> bool {
    let told: Value = serde_json::from_str(told).unwrap_or_default();
    let param = told["error"]["param"].as_str().or(told["param"].as_str());
    let Some(param) = param else {
        return words.contains("invalid 'messages") || words.contains("invalid 'input");
    };
    let rest = ["messages", "input"]
        .iter()
        .find_map(|name| param.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
}

fn does_not_fit(words: &str) -> bool {
    if let Some(by_numbers) = by_numbers(words) {
        return by_numbers;
    }
    let blames_answer = OF_ANSWER.iter().any(|part| words.contains(part));
    if blames_answer && !words.contains(CODE) {
        return false;
    }
    TOO_LONG.iter().any(|part| words.contains(part))
}

/// Decides by the numbers that are told, where they are enough.
fn by_numbers(words: &str) -> Option<bool> {
    // Anthropic's: the prompt, the limit of the answer, and what the model can hold.
    let (maximum, prompt, answer) = if let Some(sum) = after(words, "exceed context limit: ") {
        let (prompt, rest) = sum.split_once(" + ")?;
        let (answer, maximum) = rest.split_once(" > ")?;
        (leading(maximum)?, prompt.parse().ok(), answer.parse().ok())
    } else {
        let maximum = first_after(
            words,
            &[
                "maximum context length is ",
                "maximum context length of ",
                "context length is only ",
            ],
        )?;
        (maximum, of_prompt(words), of_answer(words))
    };
    if answer.is_some_and(|answer: u64| answer >= maximum) {
        return Some(false);
    }
    prompt.map(|prompt: u64| maximum < prompt.saturating_add(ANSWER_MIN))
}

fn of_prompt(words: &str) -> Option<u64> {
    let messages = first_before(
        words,
        &[
            " in the messages",
            " in your prompt",
            " input tokens",
            " of text input",
            " tokens from the input messages",
        ],
    )
    .or_else(|| first_after(words, &["resulted in "]))?;
    let tools = first_before(words, &[" in the functions"]).unwrap_or(0);
    Some(messages.saturating_add(tools))
}

fn of_answer(words: &str) -> Option<u64> {
    first_before(
        words,
        &[
            " in the completion",
            " for the completion",
            " tokens for the completion",
            " output tokens",
            " in the output",
        ],
    )
    .or_else(|| first_after(words, &["is too large: "]))
}

fn after<'a>(words: &'a str, phrase: &str) -> Option<&'a str> {
    words.split_once(phrase).map(|(_, rest)| rest)
}

/// Returns the first number that follows one of the phrases.
fn first_after(words: &str, phrases: &[&str]) -> Option<u64> {
    let number = |phrase: &&str| leading(after(words, phrase)?);
    phrases.iter().find_map(number)
}

/// Returns the first number that one of the phrases follows.
fn first_before(words: &str, phrases: &[&str]) -> Option<u64> {
    let number = |phrase: &&str| {
        let (head, _) = words.split_once(*phrase)?;
        let rest = head.trim_end_matches(|c: char| c.is_ascii_digit());
        head[rest.len()..].parse().ok()
    };
    phrases.iter().find_map(number)
}

fn leading(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(told: &str, expected: bool) {
        assert_eq!(is_at_fault(told), expected, "{told}");
        let whole = json!({"error": {"message": told, "type": "x", "param": null, "code": null}});
        assert_eq!(is_at_fault(&whole.to_string()), expected, "{whole}");
    }

    #[test]
    fn a_prompt_that_alone_does_not_fit_is_at_fault() {
        for told in [
            "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens \
             (8900 in the messages, 100 in the completion). Please reduce the length of the messages \
             or completion.",
            "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens \
             (3950 in the messages, 4950 in the functions, and 100 in the completion).",
            "This model's maximum context length is 4097 tokens, however you requested 5097 tokens \
             (5000 in your prompt; 97 for the completion).",
            "This model's maximum context length is 128000 tokens. However, your messages resulted \
             in 130000 tokens. Please reduce the length of the messages.",
            "This model's maximum context length is 4096 tokens. However, your request has 9000 input \
             tokens. Please reduce the length of the input messages.",
            "You passed 4096 input tokens and requested 1 output tokens. However, the model's context \
             length is only 4096 tokens, resulting in a maximum input length of 4095 tokens.",
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You \
             requested a total of 9000 tokens: 8900 tokens from the input messages and 100 tokens \
             for the completion.",
            "This endpoint's maximum context length is 4096 tokens. However, you requested about 9000 \
             tokens (8900 of text input, 100 in the output).",
            "the request exceeds the available context size, try increasing it",
            "Your input exceeds the context window of this model.",
            "prompt is too long: 9000 tokens > 4096 maximum",
            "Range of input length should be [1, 129024]",
            "input length and `max_tokens` exceed context limit: 199900 + 8000 > 200000, decrease",
        ] {
            check(told, true);
        }
        // The words alone would blame the answer.
        let told = json!({"error": {"code": CODE, "message": "reduce the messages or max_tokens"}});
        assert!(is_at_fault(&told.to_string()));
    }

    #[test]
    fn a_limit_that_leaves_the_prompt_no_room_is_at_fault_itself() {
        for told in [
            "This model's maximum context length is 4096 tokens. However, you requested 4200 tokens \
             (200 in the messages, 4000 in the completion).",
            "This model's maximum context length is 4096 tokens. However, you requested 17000 tokens \
             (9000 in the messages, 8000 in the completion).",
            "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context \
             length is 4096 tokens and your request has 100 input tokens (8000 > 4096 - 100).",
            "This model's maximum context length is 4096 tokens. However, you requested 4000 output \
             tokens and your prompt contains at least 97 input tokens.",
            "max_tokens is too large: 8000. This model supports at most 4096 completion tokens",
            "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000, decrease",
        ] {
            check(told, false);
            let coded = json!({"error": {"message": told, "code": CODE}}).to_string();
            let has_numbers = by_numbers(&coded.to_lowercase()).is_some();
            assert!(!has_numbers || !is_at_fault(&coded), "{coded}");
        }
    }

    #[test]
    fn a_string_is_too_long_in_the_prompt_or_in_the_settings() {
        let told = |param: &str| {
            json!({"error": {
                "message": format!("Invalid '{param}': string too long."),
                "param": param, "code": "string_above_max_length",
            }})
            .to_string()
        };
        for (param, expected) in [
            ("messages[1].content", true),
            ("input", true),
            ("input[0].content[0].text", true),
            ("tools[0].function.description", false),
            ("input_schema", false),
            ("metadata", false),
        ] {
            assert_eq!(is_at_fault(&told(param)), expected, "{param}");
        }
        check(
            "string_above_max_length: Invalid 'messages[1].content'",
            true,
        );
        check("string_above_max_length: Invalid 'tools[0].name'", false);
    }

    #[test]
    fn a_gateways_page_and_a_name_that_is_too_long_say_nothing_of_the_prompt() {
        for told in [
            "",
            "<html><head><title>413 Request Entity Too Large</title></head></html>",
            "the model's name is too long",
            "Unrecognized request argument supplied: context_length",
            "image_url is only supported by certain models",
        ] {
            check(told, false);
        }
    }

    #[test]
    fn an_image_that_cannot_be_read_is_the_prompts_own() {
        for told in [
            "You uploaded an unsupported image. Please make sure your image is valid.",
            "{\"code\": \"invalid_image_format\"}",
            "Failed to load image: cannot identify image file <_io.BytesIO object>",
        ] {
            check(told, true);
        }
    }
}
