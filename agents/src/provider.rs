//! Where an agent's model calls go: the address, the credential and the interface of a chat backend.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use skillopt_backends::CallError;
use skillopt_backends::declare::Local;
use skillopt_core::job::Profile;

use crate::relay::Wire;

/// What an agent's relay needs of a provider.
pub(crate) struct Provider {
    /// Address up to and without the interface's own path.
    pub(crate) address: String,
    /// Headers with the credential.
    pub(crate) credential: HeaderMap,
    /// What it is asked through.
    pub(crate) wire: Wire,
}

/// What a profile says of its provider.
struct Meant<'a> {
    name: &'a str,
    address: String,
    wire: Wire,
    /// The key that holds its credential.
    key: &'static str,
}

/// Checks that a CLI that speaks `cli` can speak to the provider that a profile names.
///
/// # Errors
/// [`CallError::Misconfigured`]: the two do not go together, or there is no address.
pub(crate) fn check(profile: &Profile, cli: Wire) -> Result<(), CallError> {
    meant(profile, cli)
        .map(|_| ())
        .map_err(|why| wrong(profile, why))
}

/// Returns the error of a profile that no agent can have.
pub(crate) fn wrong(profile: &Profile, detail: String) -> CallError {
    CallError::Misconfigured {
        endpoint: profile.backend.clone(),
        status: 0,
        detail,
    }
}

fn meant(profile: &Profile, cli: Wire) -> Result<Meant<'_>, String> {
    let name = profile
        .settings
        .get("provider")
        .and_then(serde_json::Value::as_str);
    let name = name.unwrap_or_default();
    let address = profile.endpoint.trim_end_matches('/').to_owned();
    let is_nowhere = address.is_empty();
    let (wire, address, key) = match name {
        "openai_chat" => {
            let wire = if cli == Wire::Responses {
                cli
            } else {
                Wire::Chat
            };
            (wire, address, "azure_openai_api_key")
        }
        "openai_compatible" => (Wire::Chat, address, "openai_compatible_api_key"),
        "qwen_chat" => (Wire::Chat, address, "qwen_chat_api_key"),
        "minimax_chat" => (Wire::Chat, address, "minimax_api_key"),
        "claude_chat" => (Wire::Messages, format!("{address}/v1"), "claude_api_key"),
        "gemini_chat" => (Wire::Gemini, address, "gemini_api_key"),
        other => {
            return Err(format!(
                "`{other}` cannot be its provider; set `agent_provider` to openai_chat, \
                 openai_compatible, qwen_chat, minimax_chat, claude_chat or gemini_chat"
            ));
        }
    };
    if is_nowhere {
        return Err(format!("its provider `{name}` has no address"));
    }
    let goes = wire == cli || (cli == Wire::Responses && wire == Wire::Chat);
    if !goes {
        return Err(format!(
            "it speaks {}, and its provider `{name}` speaks {}; set `agent_provider`",
            named(cli),
            named(wire)
        ));
    }
    Ok(Meant {
        name,
        address,
        wire,
        key,
    })
}

/// Finds the provider that a profile names for a CLI that speaks `cli`.
///
/// # Errors
/// [`CallError::Misconfigured`]: the two do not go together, or something is missing.
pub(crate) fn find(profile: &Profile, cli: Wire, local: &Local<'_>) -> Result<Provider, CallError> {
    let wrong = |detail: String| wrong(profile, detail);
    let Meant {
        name,
        address,
        wire,
        key,
    } = meant(profile, cli).map_err(wrong)?;
    let mode = local
        .options
        .text("azure_openai_auth_mode")
        .unwrap_or_default();
    let is_compatible = ["openai_compatible", "compat", "openai"];
    if name == "openai_chat" && !is_compatible.contains(&mode.to_lowercase().as_str()) {
        return Err(wrong(format!(
            "an agent reaches `openai_chat` only with `azure_openai_auth_mode: openai`, not \
             `{mode}`; or set `agent_provider: openai_compatible`"
        )));
    }
    let secret = (local.secret)(key).map(|secret| secret.expose().trim().to_owned());
    let secret = secret.filter(|secret| !secret.is_empty()).or_else(|| {
        // Vendors' own names of the same thing.
        let vendor = match name {
            "claude_chat" => "ANTHROPIC_API_KEY",
            "gemini_chat" => "GEMINI_API_KEY",
            _ => return None,
        };
        (local.env)(vendor).filter(|key| !key.trim().is_empty())
    });
    let mut credential = HeaderMap::new();
    let (header, value) = match (wire, &secret) {
        (Wire::Messages, Some(key)) => (HeaderName::from_static("x-api-key"), key.clone()),
        (Wire::Gemini, Some(key)) => (HeaderName::from_static("x-goog-api-key"), key.clone()),
        (Wire::Chat | Wire::Responses, Some(key)) => (AUTHORIZATION, format!("Bearer {key}")),
        // Servers of one's own want no key.
        (_, None) => (AUTHORIZATION, "Bearer dummy".to_owned()),
    };
    let mut value = HeaderValue::from_str(value.trim())
        .map_err(|_| wrong(format!("`{key}` has characters that a header cannot carry")))?;
    value.set_sensitive(true);
    credential.insert(header, value);
    if wire == Wire::Messages {
        credential.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    Ok(Provider {
        address,
        credential,
        wire,
    })
}

const fn named(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses => "OpenAI Responses",
        Wire::Chat => "Chat Completions",
        Wire::Messages => "Anthropic Messages",
        Wire::Gemini => "Gemini",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use skillopt_backends::Http;
    use skillopt_backends::declare::Options;
    use skillopt_core::secret::Secret;

    use super::*;

    fn found(provider: &str, cli: Wire, mode: &str) -> Result<Provider, String> {
        let profile = Profile {
            role: "target".to_owned(),
            backend: "an_agent".to_owned(),
            model: "m".to_owned(),
            endpoint: "https://h/base/".to_owned(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: serde_json::from_value(json!({"provider": provider})).unwrap(),
        };
        let option = |key: &str| (key == "azure_openai_auth_mode").then(|| Value::from(mode));
        let local = Local {
            options: Options(&option),
            secret: &|key| Some(Secret::new(format!("of {key}"))),
            env: &|_| None,
            http: &Http::new(),
        };
        find(&profile, cli, &local).map_err(|e| e.to_string())
    }

    #[test]
    fn each_provider_gets_its_own_credential_in_its_own_header() {
        for (provider, cli, header, value, address) in [
            (
                "openai_compatible",
                Wire::Responses,
                "authorization",
                "Bearer of openai_compatible_api_key",
                "https://h/base",
            ),
            (
                "openai_chat",
                Wire::Responses,
                "authorization",
                "Bearer of azure_openai_api_key",
                "https://h/base",
            ),
            (
                "qwen_chat",
                Wire::Chat,
                "authorization",
                "Bearer of qwen_chat_api_key",
                "https://h/base",
            ),
            (
                "claude_chat",
                Wire::Messages,
                "x-api-key",
                "of claude_api_key",
                "https://h/base/v1",
            ),
            (
                "gemini_chat",
                Wire::Gemini,
                "x-goog-api-key",
                "of gemini_api_key",
                "https://h/base",
            ),
        ] {
            let provider_found = found(provider, cli, "openai").unwrap();
            assert_eq!(provider_found.credential[header], value, "{provider}");
            assert_eq!(provider_found.address, address, "{provider}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        for (provider, cli, mode, words) in [
            ("claude_chat", Wire::Responses, "", "Anthropic Messages"),
            ("openai_compatible", Wire::Messages, "", "agent_provider"),
            (
                "openai_chat",
                Wire::Responses,
                "azure_cli",
                "azure_openai_auth_mode",
            ),
            ("smoke", Wire::Chat, "", "smoke"),
        ] {
            let error = found(provider, cli, mode).err().unwrap();
            assert!(error.contains(words), "{error}");
        }
    }
}
