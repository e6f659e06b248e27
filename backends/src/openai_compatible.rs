//! `openai_compatible`: Chat Completions over HTTP, as spoken by most servers.
//!
//! Body: `model`, `messages`, `max_tokens` (never `max_completion_tokens`), `temperature` only if
//! set, `response_format` only in schema-bound mode (backend spec 2.5). Reasoning effort is not
//! part of this dialect and is left out.

use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, StatusCode, Uri, header::HeaderValue};
use serde::{Deserialize, Serialize};
use skillopt_core::job::Usage;
use skillopt_runtime::redact::redact;

use crate::contract::{CallError, ChatModel, ChatReply, ChatRequest, Finish};
use crate::http::{Answer, Http};

/// How much of an error's body is looked at, in bytes; a key that crosses this border is far from
/// the part that is shown.
const DETAIL_BYTES_MAX: usize = 64 << 10;
/// Most words of it that are shown.
const DETAIL_WORDS_MAX: usize = 150;

/// Where and how to reach a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Base address, e.g. `https://api.openai.com/v1`; a trailing slash or a trailing
    /// `/chat/completions` is fine.
    pub base_url: String,
    /// Bearer key; empty or absent sends the placeholder `dummy`, as local servers expect.
    pub api_key: Option<String>,
    /// Temperature of every call that names none itself.
    pub temperature: Option<f64>,
    /// No call asks for more tokens than this.
    pub max_tokens: u32,
}

/// A client of one server.
pub struct OpenAiCompatible {
    http: Http,
    uri: Uri,
    endpoint: String,
    authorization: HeaderValue,
    secret: String,
    temperature: Option<f64>,
    max_tokens: u32,
}

impl OpenAiCompatible {
    /// Prepares a client; makes no call.
    ///
    /// # Errors
    /// [`CallError::Misconfigured`] when the address or the key cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, CallError> {
        let base = settings.base_url.trim().trim_end_matches('/');
        let address = match base.strip_suffix("/chat/completions") {
            Some(_) => base.to_owned(),
            None => format!("{base}/chat/completions"),
        };
        let bad = |detail: String| CallError::Misconfigured {
            endpoint: without_credentials(base),
            status: 0,
            detail,
        };
        let uri: Uri = address
            .parse()
            .map_err(|e| bad(format!("not an address: {e}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(bad("expected an address like `https://host/v1`".to_owned()));
        }
        if base.contains(['?', '#']) {
            return Err(bad(
                "an address takes no `?` or `#`; a key belongs into the API key".to_owned(),
            ));
        }
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(bad(
                "a password does not belong in the address; use the API key".to_owned(),
            ));
        }
        let secret = settings
            .api_key
            .as_deref()
            .map(str::trim)
            .unwrap_or_default()
            .to_owned();
        let bearer = if secret.is_empty() { "dummy" } else { &secret };
        let mut authorization = HeaderValue::from_str(&format!("Bearer {bearer}"))
            .map_err(|_| bad("the API key has characters that a header cannot carry".to_owned()))?;
        authorization.set_sensitive(true);
        Ok(Self {
            http: Http::new(),
            endpoint: without_credentials(&address),
            uri,
            authorization,
            secret,
            temperature: settings.temperature,
            max_tokens: settings.max_tokens,
        })
    }

    fn fail(&self, answer: &Answer) -> CallError {
        let endpoint = self.endpoint.clone();
        let status = answer.status.as_u16();
        let detail = self.detail(&answer.body);
        let retry_after = retry_after(&answer.headers);
        match answer.status {
            StatusCode::TOO_MANY_REQUESTS => {
                if out_of_quota(&detail) {
                    return CallError::Unauthorized {
                        endpoint,
                        status,
                        detail,
                    };
                }
                CallError::Throttled {
                    endpoint,
                    retry_after,
                }
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => CallError::Unauthorized {
                endpoint,
                status,
                detail,
            },
            StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY => {
                CallError::Server {
                    endpoint,
                    status,
                    retry_after,
                    detail,
                }
            }
            s if s.is_server_error() => CallError::Server {
                endpoint,
                status,
                retry_after,
                detail,
            },
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => CallError::Misconfigured {
                endpoint,
                status,
                detail,
            },
            s if s.is_redirection() => CallError::Misconfigured {
                endpoint,
                status,
                detail: "a redirect; give the final address (keys are never sent on)".to_owned(),
            },
            s if s.is_client_error() && (status == 413 || is_too_long(&detail)) => {
                CallError::Rejected {
                    endpoint,
                    status,
                    detail,
                }
            }
            // A parameter this server does not know would be refused in every call.
            s if s.is_client_error() => CallError::Misconfigured {
                endpoint,
                status,
                detail,
            },
            _ => CallError::Malformed {
                endpoint,
                detail: format!("unexpected HTTP {status}"),
            },
        }
    }

    /// The start of a provider's message, on one line, without our key.
    fn detail(&self, body: &[u8]) -> String {
        // Redacted before it is cut: a cut could leave half a key that is not recognised.
        let text = String::from_utf8_lossy(&body[..body.len().min(DETAIL_BYTES_MAX)]);
        let text = redact(&text, &[&self.secret]);
        let line: String = text
            .split_whitespace()
            .take(DETAIL_WORDS_MAX)
            .collect::<Vec<_>>()
            .join(" ");
        line.chars().take(300).collect()
    }

    fn read(&self, answer: &Answer) -> Result<ChatReply, CallError> {
        let malformed = |detail: String| CallError::Malformed {
            endpoint: self.endpoint.clone(),
            detail,
        };
        let reply: Reply<'_> = serde_json::from_slice(&answer.body)
            .map_err(|e| malformed(format!("{e}; it begins `{}`", self.detail(&answer.body))))?;
        let choice = reply
            .choices
            .into_iter()
            .next()
            .ok_or_else(|| malformed("no choices".to_owned()))?;
        let finish = match choice.finish_reason.as_deref() {
            Some("stop") => Finish::Stop,
            Some("length") => Finish::Length,
            Some("content_filter") => {
                let detail = "content filter".to_owned();
                return Err(CallError::Filtered {
                    endpoint: self.endpoint.clone(),
                    detail,
                });
            }
            _ => Finish::Other,
        };
        let text = choice
            .message
            .content
            .map(std::borrow::Cow::into_owned)
            .unwrap_or_default();
        if text.is_empty()
            && let Some(refusal) = choice.message.refusal
        {
            let detail = redact(&refusal, &[&self.secret])
                .chars()
                .take(300)
                .collect();
            return Err(CallError::Filtered {
                endpoint: self.endpoint.clone(),
                detail,
            });
        }
        let usage = reply.usage.unwrap_or_default();
        Ok(ChatReply {
            text,
            finish,
            usage: Usage {
                calls: 1,
                prompt_tokens: usage.prompt_tokens.unwrap_or(0),
                completion_tokens: usage.completion_tokens.unwrap_or(0),
            },
        })
    }
}

#[async_trait]
impl ChatModel for OpenAiCompatible {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, CallError> {
        let body = Body {
            model: &request.model,
            messages: request
                .messages
                .iter()
                .map(|m| Part {
                    role: m.role.as_str(),
                    content: &m.content,
                })
                .collect(),
            max_tokens: request.max_tokens.min(self.max_tokens),
            temperature: request.temperature.or(self.temperature),
            response_format: request.schema.as_ref().map(|s| ResponseFormat {
                kind: "json_schema",
                json_schema: JsonSchema {
                    name: &s.name,
                    strict: true,
                    schema: &s.schema,
                },
            }),
        };
        let bytes = serde_json::to_vec(&body).map_err(|e| CallError::Rejected {
            endpoint: self.endpoint.clone(),
            status: 0,
            detail: e.to_string(),
        })?;
        let answer = self
            .http
            .post(
                &self.uri,
                &self.endpoint,
                Some(&self.authorization),
                bytes,
                request.timeout,
            )
            .await?;
        if answer.status == StatusCode::OK {
            self.read(&answer)
        } else {
            Err(self.fail(&answer))
        }
    }
}

/// Returns Retry-After (seconds) or `retry-after-ms` as a wait; a date is not followed.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms")
        .map(|ms| ms / 1_000.0)
        .or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Providers answer 429 also when the account has no money left; waiting does not help then.
fn out_of_quota(detail: &str) -> bool {
    detail.contains("insufficient_quota") || detail.contains("billing_hard_limit")
}

/// Servers say in words only that a prompt does not fit into the model's context. Where they blame
/// the limit of the answer, every prompt would be refused: that is the configuration's fault.
fn is_too_long(detail: &str) -> bool {
    let detail = detail.to_lowercase();
    if ["max_tokens", "max_completion_tokens", "in the completion"]
        .iter()
        .any(|words| detail.contains(words))
    {
        return false;
    }
    [
        "context length",
        "context_length",
        "context size",
        "too long",
        "maximum context",
        "too many tokens",
    ]
    .iter()
    .any(|words| detail.contains(words))
}

/// Returns an address without user, password and query.
fn without_credentials(address: &str) -> String {
    let address = address.split(['?', '#']).next().unwrap_or_default();
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').map_or((rest, ""), |(h, p)| (h, p));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/{path}")
                .trim_end_matches('/')
                .to_owned()
        }
        None => address.rsplit('@').next().unwrap_or_default().to_owned(),
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Part<'a>>,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
struct Part<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'a str,
    strict: bool,
    schema: &'a serde_json::Value,
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow, default)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: ReplyMessage<'a>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ReplyMessage<'a> {
    #[serde(borrow, default)]
    content: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    refusal: Option<String>,
}

#[derive(Default, Deserialize)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

#[cfg(test)]
mod tests;
