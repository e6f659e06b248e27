//! What a program's words about a failure mean.

use skillopt_core::job::Usage;
use skillopt_runtime::redact::redact;

use crate::error::CallError;
use crate::failure::prompt;

/// Most characters of it that are kept.
const DETAIL_CHARS_MAX: usize = 300;

/// A failure as a program tells it.
pub(crate) struct Fault<'a> {
    /// The program.
    pub(crate) endpoint: &'a str,
    /// What it said.
    pub(crate) words: &'a str,
    /// The provider's status, if the program names it apart from the words.
    pub(crate) status: Option<u16>,
    /// What to do about a missing login.
    pub(crate) login: &'a str,
    /// The model that was asked for.
    pub(crate) model: &'a str,
    /// What was billed.
    pub(crate) usage: Usage,
    /// Kept out of messages.
    pub(crate) secrets: &'a [&'a str],
}

impl Fault<'_> {
    /// Names the class of the failure.
    pub(crate) fn class(&self) -> CallError {
        let words = self.words.to_lowercase();
        let says = |any: &[&str]| any.iter().any(|part| words.contains(part));
        let endpoint = self.endpoint.to_owned();
        let detail = self.detail();
        let status = self.status.or_else(|| status_in(&words));
        if prompt::is_at_fault(&words) {
            return CallError::Rejected {
                endpoint,
                status: status.unwrap_or(400),
                detail,
            };
        }
        if says(&["content_filter", "content filtering"]) {
            return CallError::Filtered {
                endpoint,
                detail,
                usage: self.usage,
            };
        }
        // No wait within a run helps against these.
        let is_spent = says(&[
            "insufficient_quota",
            "quota exceeded",
            "usage limit",
            "your limit",
        ]);
        if is_spent {
            return CallError::Unauthorized {
                endpoint,
                status: status.unwrap_or(429),
                detail,
            };
        }
        let status = status.or_else(|| said(&words)).unwrap_or(0);
        match status {
            401..=403 => CallError::Unauthorized {
                endpoint,
                status,
                detail: format!("{detail}; {}", self.login),
            },
            404 => CallError::Misconfigured {
                endpoint,
                status,
                detail: format!("model `{}`: {detail}", self.model),
            },
            429 => CallError::Throttled {
                endpoint,
                retry_after: None,
            },
            408 | 409 | 425 | 500.. => CallError::Server {
                endpoint,
                status,
                retry_after: None,
                detail,
            },
            400..500 => CallError::Misconfigured {
                endpoint,
                status,
                detail,
            },
            _ => CallError::Malformed { endpoint, detail },
        }
    }

    fn detail(&self) -> String {
        let text = redact(self.words, self.secrets);
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(DETAIL_CHARS_MAX).collect()
    }
}

/// Returns the status that words without one stand for.
fn said(words: &str) -> Option<u16> {
    const SAID: &[(&str, u16)] = &[
        ("not logged in", 401),
        ("invalid api key", 401),
        ("authentication", 401),
        ("unauthorized", 401),
        ("login", 401),
        ("missing environment variable", 401),
        ("unknown model", 404),
        ("invalid model", 404),
        ("model_not_found", 404),
        ("use --list-models", 404),
        ("not available", 404),
        ("unknown option", 400),
        ("unexpected argument", 400),
        ("rate limit", 429),
        ("too many requests", 429),
        ("high demand", 503),
        ("overloaded", 529),
        ("stream disconnected", 502),
        ("connection", 502),
        ("timed out", 504),
        ("timeout", 504),
    ];
    let mut known = SAID.iter();
    known
        .find(|(part, _)| words.contains(part))
        .map(|(_, status)| *status)
}

/// Finds a status: a number from 400 to 599 right after a word that announces it.
fn status_in(words: &str) -> Option<u16> {
    let mut parts = words.split(|c: char| !c.is_ascii_alphanumeric());
    let mut before = parts.next()?;
    for part in parts.filter(|part| !part.is_empty()) {
        let announced = ["status", "http", "error", "code"].contains(&before);
        let number = part.parse().ok().filter(|n| (400..600).contains(n));
        if announced && number.is_some() {
            return number;
        }
        before = part;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, expected: &str) {
        let fault = Fault {
            endpoint: "claude",
            words,
            status: None,
            login: "log in",
            model: "m",
            usage: Usage::default(),
            secrets: &["sk-secret"],
        };
        let seen = format!("{:?}", fault.class());
        assert!(seen.starts_with(expected), "{words}: {seen}");
        assert!(!seen.contains("sk-secret"), "{seen}");
    }

    #[test]
    fn each_failure_has_its_class() {
        check("Not logged in · Please run /login", "Unauthorized");
        check("Invalid API key sk-secret", "Unauthorized");
        check("unexpected status 401 Unauthorized: no", "Unauthorized");
        check("Quota exceeded. Check your plan", "Unauthorized");
        check("You've hit your limit · resets 3pm", "Unauthorized");
        check("last status: 429 Too Many Requests", "Throttled");
        check(
            "API Error: 529",
            "Server { endpoint: \"claude\", status: 529",
        );
        check("currently experiencing high demand", "Server");
        check("stream disconnected before completion: x", "Server");
        check("unexpected status 404 Not Found: gone", "Misconfigured");
        check("model not available", "Misconfigured");
        check("error: unknown option '--schema'", "Misconfigured");
        check("ran out of room in the model's context window", "Rejected");
        check("Prompt is too long · 9 > 8", "Rejected");
        check("API Error: 413 <html>", "Misconfigured");
        check("API Error: 413 request_too_large", "Rejected");
        check("reason: content_filter", "Filtered");
        check("kaboom", "Malformed");
        check("there were 429 files", "Malformed");
    }
}
