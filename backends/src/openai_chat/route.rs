//! Which interface serves a model, and under which address.

use std::fmt::Write as _;

use crate::address::Address;
use crate::error::CallError;

/// Models that only the Responses API serves, alone or followed by `-` and more.
const RESPONSES_ONLY: &[&str] = &[
    "gpt-5.3-codex",
    "gpt-5.1-codex",
    "gpt-5.2-codex",
    "gpt-5-codex",
    "codex-mini",
    "gpt-5.4-pro",
];

/// Returns whether a model is served by the Responses API alone.
#[must_use]
pub fn needs_responses(model: &str) -> bool {
    let model = model.to_lowercase();
    RESPONSES_ONLY.iter().any(|name| {
        model
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// Which of the two interfaces a model is asked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Interface {
    /// The Responses API for the models that are known to have nothing else.
    #[default]
    Auto,
    Chat,
    Responses,
}

impl Interface {
    /// Returns what a setting names; what is unset or unknown is chosen by the model.
    pub(super) fn of(word: Option<&str>) -> Self {
        match word {
            Some("chat") => Self::Chat,
            Some("responses") => Self::Responses,
            _ => Self::Auto,
        }
    }

    /// Returns whether a model is asked by the Responses API.
    fn is_responses(self, model: &str) -> bool {
        match self {
            Self::Auto => needs_responses(model),
            Self::Chat => false,
            Self::Responses => true,
        }
    }
}

/// The addresses of one account.
pub(super) struct Routes {
    base: String,
    interface: Interface,
    /// Version of the interface; `None` for OpenAI itself.
    azure_version: Option<String>,
}

impl Routes {
    pub(super) fn new(base: &str, interface: Interface, azure_version: Option<String>) -> Self {
        Self {
            base: base.trim_end_matches('/').to_owned(),
            interface,
            azure_version,
        }
    }

    pub(super) const fn is_azure(&self) -> bool {
        self.azure_version.is_some()
    }

    /// Returns whether a model is asked by the Responses API, not by Chat Completions.
    pub(super) fn is_responses(&self, model: &str) -> bool {
        self.interface.is_responses(model)
    }

    /// Returns where calls of a model go.
    ///
    /// # Errors
    /// The base is no address.
    pub(super) fn to(&self, model: &str) -> Result<Address, CallError> {
        let path = match (self.is_responses(model), self.is_azure()) {
            (true, true) => "/openai/responses".to_owned(),
            (true, false) => "/responses".to_owned(),
            (false, true) => format!("/openai/deployments/{}/chat/completions", escaped(model)),
            (false, false) => "/chat/completions".to_owned(),
        };
        let address = Address::new(&self.base, &path)?;
        match &self.azure_version {
            Some(version) => address.with_query(&format!("api-version={}", escaped(version))),
            None => Ok(address),
        }
    }
}

/// Writes a text so that it stands for itself in a path or a query.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_its_address() {
        let version = || Some("2024 x".to_owned());
        let azure = Routes::new("https://r.example/", Interface::Auto, version());
        let plain = Routes::new("https://o.example/v1", Interface::Auto, None);
        let chat = Routes::new("https://o.example/v1", Interface::Chat, None);
        let responses = Routes::new("https://o.example/v1", Interface::Responses, None);
        let azure_responses = Routes::new("https://r.example/", Interface::Responses, version());
        for (routes, model, want) in [
            (
                &azure,
                "gpt 5/x",
                "https://r.example/openai/deployments/gpt%205%2Fx/chat/completions?api-version=2024%20x",
            ),
            (
                &azure,
                "GPT-5-Codex-mini",
                "https://r.example/openai/responses?api-version=2024%20x",
            ),
            (
                &plain,
                "gpt-5-codexx",
                "https://o.example/v1/chat/completions",
            ),
            (&plain, "codex-mini", "https://o.example/v1/responses"),
            (&plain, "gpt-9", "https://o.example/v1/chat/completions"),
            (&chat, "codex-mini", "https://o.example/v1/chat/completions"),
            (&responses, "gpt-9", "https://o.example/v1/responses"),
            (
                &azure_responses,
                "gpt-9",
                "https://r.example/openai/responses?api-version=2024%20x",
            ),
        ] {
            assert_eq!(routes.to(model).unwrap().uri.to_string(), want);
        }
    }
}
