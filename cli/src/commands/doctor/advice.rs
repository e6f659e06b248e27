//! What a person can do about a call that failed, by what the provider, the network and the
//! settings of its backend say.

use skillopt_backends::declare::Declaration;
use skillopt_backends::{CallError, registry};
use skillopt_core::job::Profile;
use skillopt_core::kind::Kind;

use crate::advice;

/// Parts of what is said of a failed connection, in small letters, and what they mean.
const NETWORK: &[(&[&str], &str)] = &[
    (
        &[
            "not valid yet",
            "notvalidyet",
            "certexpired",
            "certificate expired",
            "expired: verification time",
        ],
        "the server's certificate is not valid at this machine's time: set the clock, then ask the \
         provider",
    ),
    (
        &[
            "unknownissuer",
            "invalid peer certificate",
            "certificate",
            "handshake",
            "corrupt message",
        ],
        "TLS failed: if a proxy or a server of your own signs its certificates, name its CA with \
         SSL_CERT_FILE; if the server speaks plain HTTP, write http://",
    ),
    (
        &[
            "lookup address",
            "dns",
            "name or service not known",
            "nodename nor servname",
        ],
        "there is no such host for this machine: check the spelling of the address, then DNS and \
         whether a proxy is needed (HTTPS_PROXY)",
    ),
    (
        &["proxy", "tunnel"],
        "the proxy did not let it through: check HTTPS_PROXY, HTTP_PROXY and NO_PROXY",
    ),
    (
        &["connection refused"],
        "nothing listens there: check the port, and start the server",
    ),
    (
        &["deadline has elapsed", "timed out", "unreachable"],
        "no way to the server: check the network, a firewall, and whether a proxy is needed \
         (HTTPS_PROXY)",
    ),
];

/// Parts of what providers say of a refused request, in small letters, and what they mean.
const SETTINGS: &[(&[&str], &str)] = &[
    (
        &["deploymentnotfound", "deployment"],
        "there is no such deployment: the model's name has to be that of a deployment of this resource",
    ),
    (
        &["api version", "api-version"],
        "the resource does not know this version of the interface: check the key for the API version",
    ),
    (
        &["region", "location is not supported"],
        "the provider does not serve this model in this region: use an address of another region",
    ),
    (
        &["thinking", "reasoning"],
        "the model refuses the thinking mode or the reasoning effort: set `model.reasoning_effort` \
         and the backend's key for thinking to what it knows",
    ),
    (
        &["temperature"],
        "the model refuses the temperature: leave the backend's key for it unset",
    ),
    (
        &["model"],
        "the provider does not know the model: check its spelling, and whether the key may use it",
    ),
];

/// Says what helps against a failed call of a model.
pub(super) fn advice(error: &CallError, profile: &Profile) -> String {
    let said = said(error);
    let fits = |table: &[(&[&str], &'static str)]| {
        let found = table.iter();
        let mut found = found.filter(|(parts, _)| parts.iter().any(|part| said.contains(part)));
        found.next().map(|(_, words)| (*words).to_owned())
    };
    let backend = registry::find(&profile.backend);
    let special = match error {
        CallError::SignIn(error) => return advice(error, profile),
        // As it is told of an account without money: the key itself is good.
        CallError::Unauthorized { status: 429, .. } => Some(
            "the account's quota or credit is used up: raise it with the provider, or use another \
             account"
                .to_owned(),
        ),
        CallError::Unauthorized { .. } => backend.map(credentials),
        CallError::Connection { .. } => fits(NETWORK),
        CallError::Misconfigured { status: 0, .. } => {
            Some("mend what is said there, then ask again".to_owned())
        }
        CallError::Misconfigured { .. } | CallError::Rejected { .. } => fits(SETTINGS),
        _ => None,
    };
    special
        .or_else(|| advice::advice(&error.to_string()).map(str::to_owned))
        .unwrap_or_else(|| "try again; if it stays so, ask the provider".to_owned())
}

/// Returns what was said, in small letters, without the address: it may hold any word of the tables.
fn said(error: &CallError) -> String {
    let mut error = error.clone();
    let detail = error.detail_mut().map(std::mem::take);
    detail.unwrap_or_default().to_lowercase()
}

/// Says where the keys of a backend are set, and what else makes a good key a bad one.
fn credentials(backend: &Declaration) -> String {
    let keys = backend.keys.iter().filter(|key| key.kind == Kind::Secret);
    let keys: Vec<String> = keys.map(|key| key.base.to_uppercase()).collect();
    let address = backend
        .keys
        .iter()
        .map(|key| key.base)
        .find(|key| key.ends_with("_base_url") || key.ends_with("_endpoint"));
    let mut words = match keys.as_slice() {
        [] => "sign in to the program that makes the calls".to_owned(),
        keys => format!("set a key that is valid: {}", keys.join(" or ")),
    };
    if let Some(address) = address {
        words.push_str(&format!(
            "; a good key is refused by the address of another region or account (`model.{address}`)"
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(backend: &str) -> Profile {
        Profile {
            role: "target".to_owned(),
            backend: backend.to_owned(),
            model: "m".to_owned(),
            endpoint: String::new(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: serde_json::Map::new(),
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_words() {
        let endpoint = || "https://h/v1".to_owned();
        let connection = |detail: &str| CallError::Connection {
            endpoint: endpoint(),
            detail: detail.to_owned(),
        };
        let refused = |detail: &str| CallError::Misconfigured {
            endpoint: endpoint(),
            status: 404,
            detail: detail.to_owned(),
        };
        let unauthorized = CallError::Unauthorized {
            endpoint: endpoint(),
            status: 401,
            detail: "no".to_owned(),
        };
        let poor = CallError::Unauthorized {
            endpoint: endpoint(),
            status: 429,
            detail: "insufficient_quota".to_owned(),
        };
        for (error, backend, want) in [
            (poor, "openai_chat", "quota or credit"),
            (unauthorized.clone(), "minimax_chat", "MINIMAX_API_KEY"),
            (unauthorized, "minimax_chat", "another region"),
            (
                connection("dns error: failed to lookup address information"),
                "qwen_chat",
                "no such host",
            ),
            (
                connection("invalid peer certificate: UnknownIssuer"),
                "qwen_chat",
                "SSL_CERT_FILE",
            ),
            (
                connection("certificate not valid yet: verification time 1"),
                "qwen_chat",
                "clock",
            ),
            (
                connection("tcp connect error: Connection refused (os error 111)"),
                "qwen_chat",
                "nothing listens",
            ),
            (connection("unsuccessful tunnel"), "qwen_chat", "NO_PROXY"),
            (
                refused("DeploymentNotFound"),
                "openai_chat",
                "no such deployment",
            ),
            (
                refused("The model `m` does not exist"),
                "openai_chat",
                "does not know the model",
            ),
            (
                refused("unknown parameter: enable_thinking"),
                "qwen_chat",
                "thinking mode",
            ),
        ] {
            let said = advice(&error, &profile(backend));
            assert!(said.contains(want), "{error}: {said}");
        }
    }

    /// Addresses hold the words of the tables: `deployments`, `models`, `proxy`.
    #[test]
    fn an_address_says_nothing_of_what_is_wrong() {
        let azure = "https://h/openai/deployments/m/chat/completions";
        let google = "https://h/v1beta/models/m:generateContent";
        let refused = |endpoint: &str, detail: &str| CallError::Misconfigured {
            endpoint: endpoint.to_owned(),
            status: 400,
            detail: detail.to_owned(),
        };
        let connection = CallError::Connection {
            endpoint: "https://llm-proxy.h/v1".to_owned(),
            detail: "tcp connect error: Connection refused (os error 111)".to_owned(),
        };
        for (error, want) in [
            (refused(azure, "unsupported api-version"), "API version"),
            (
                refused(azure, "the temperature is not supported"),
                "the temperature",
            ),
            (
                refused(google, "thinking_budget is out of range"),
                "thinking mode",
            ),
            (connection, "nothing listens"),
        ] {
            let said = advice(&error, &profile("openai_chat"));
            assert!(said.contains(want), "{error}: {said}");
        }
        for endpoint in [azure, google] {
            let said = advice(&refused(endpoint, "no"), &profile("openai_chat"));
            for word in ["deployment", "does not know the model"] {
                assert!(!said.contains(word), "{endpoint}: {said}");
            }
        }
    }
}
