//! What a CLI's words about a failure mean.

use crate::account::Outcome;

/// Names the class of a status that a provider answered with.
pub(crate) const fn of_status(status: u16) -> Option<Outcome> {
    Some(match status {
        401 | 403 => Outcome::AuthError,
        402 => Outcome::QuotaExceeded,
        429 => Outcome::RateLimited,
        408 | 409 | 425 | 500..=599 => Outcome::ServerError,
        400..=499 => Outcome::BadRequest,
        _ => return None,
    })
}

/// Words that say more than a status, most telling first.
const WORDS: &[(&str, Outcome)] = &[
    ("context window", Outcome::ContextOverflow),
    ("context_length", Outcome::ContextOverflow),
    ("context length", Outcome::ContextOverflow),
    ("prompt is too long", Outcome::ContextOverflow),
    ("max_output_tokens", Outcome::MaxOutputTokens),
    ("output token maximum", Outcome::MaxOutputTokens),
    ("content_filter", Outcome::Filtered),
    ("quota exceeded", Outcome::QuotaExceeded),
    ("insufficient_quota", Outcome::QuotaExceeded),
    ("not logged in", Outcome::AuthError),
    ("invalid api key", Outcome::AuthError),
    ("missing environment variable", Outcome::AuthError),
    ("authentication", Outcome::AuthError),
];

/// Words that count only where no status is named.
const LATER_WORDS: &[(&str, Outcome)] = &[
    ("rate limit", Outcome::RateLimited),
    ("too many requests", Outcome::RateLimited),
    ("unauthorized", Outcome::AuthError),
    ("high demand", Outcome::ServerError),
    ("overloaded", Outcome::ServerError),
    ("stream disconnected", Outcome::ServerError),
    ("idle timeout", Outcome::ServerError),
    ("connection", Outcome::ServerError),
    ("timed out", Outcome::ServerError),
];

/// Names the class of a failure by what was said; what nobody knows was the request's fault.
pub(crate) fn of_words(text: &str) -> Outcome {
    let text = text.to_lowercase();
    let first = |words: &[(&str, Outcome)]| {
        let mut known = words.iter();
        known
            .find(|(word, _)| text.contains(word))
            .map(|(_, class)| *class)
    };
    first(WORDS)
        .or_else(|| status_in(&text).and_then(of_status))
        .or_else(|| first(LATER_WORDS))
        .unwrap_or(Outcome::BadRequest)
}

/// Finds a status: a number of three digits from 400 to 599 shortly after a word that announces it.
fn status_in(text: &str) -> Option<u16> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = at
            + bytes[at..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count();
        let number = text
            .get(at..end)
            .and_then(|digits| digits.parse::<u16>().ok());
        if let Some(status) = number.filter(|n| (400..600).contains(n) && end - at == 3) {
            let before = &bytes[at.saturating_sub(ANNOUNCED_WITHIN)..at];
            let before = String::from_utf8_lossy(before);
            if ["status", "http", "error", "code"]
                .iter()
                .any(|word| before.contains(word))
            {
                return Some(status);
            }
        }
        at = end;
    }
    None
}

/// How far before a status the word that announces it begins, in bytes.
const ANNOUNCED_WITHIN: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_have_classes() {
        for (text, want) in [
            ("unexpected status 401 Unauthorized: no", Outcome::AuthError),
            (
                "exceeded retry limit, last status: 429 Too Many",
                Outcome::RateLimited,
            ),
            ("API Error: 500 mock failure", Outcome::ServerError),
            (
                r#"[API Error: {"error":{"code":400}}]"#,
                Outcome::BadRequest,
            ),
            ("Quota exceeded. Check your plan", Outcome::QuotaExceeded),
            ("Missing environment variable: `X`.", Outcome::AuthError),
            (
                "Connection failed: error sending request",
                Outcome::ServerError,
            ),
            (
                "unexpected status 404 Not Found: the model 500",
                Outcome::BadRequest,
            ),
            (
                "the prompt is too long: 210000 tokens > 500",
                Outcome::ContextOverflow,
            ),
            ("something else", Outcome::BadRequest),
            ("there were 429 files", Outcome::BadRequest),
        ] {
            assert_eq!(of_words(text), want, "{text}");
        }
    }
}
