//! Which hosts a sign-in's token may be sent to.

use std::net::IpAddr;

use crate::address::Address;
use crate::error::CallError;

/// The hosts of the service.
const ALLOWED: &[&str] = &[
    ".openai.azure.com",
    ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
];

/// Refuses to send a token to an address that is not the service's own, or not encrypted. `extra`
/// lists further hosts, with commas between; one of this machine may go without TLS.
///
/// # Errors
/// [`CallError::Misconfigured`].
pub(super) fn check(address: &Address, extra: Option<&str>) -> Result<(), CallError> {
    let host = address.uri.host().unwrap_or_default().to_lowercase();
    let further = extra.unwrap_or_default().split(',').map(str::trim);
    let listed: Vec<String> = further
        .filter(|pattern| !pattern.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is_encrypted = address.uri.scheme_str() == Some("https");
    let is_listed = listed.iter().any(|pattern| matches(pattern, &host));
    let is_allowed = ALLOWED.iter().any(|pattern| matches(pattern, &host)) || is_listed;
    if (is_allowed && is_encrypted) || (is_listed && is_this_machine(&host)) {
        return Ok(());
    }
    let detail = if is_allowed {
        "a sign-in's token is sent to `https` addresses only".to_owned()
    } else {
        format!(
            "a sign-in's token is sent to hosts of Azure only ({}); name this one in \
             `model.azure_openai_token_hosts` if it is yours",
            ALLOWED.join(", ")
        )
    };
    Err(CallError::Misconfigured {
        endpoint: address.shown.clone(),
        status: 0,
        detail,
    })
}

fn matches(pattern: &str, host: &str) -> bool {
    if pattern.starts_with('.') {
        host.len() > pattern.len() && host.ends_with(pattern)
    } else {
        host == pattern
    }
}

pub(super) fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_to_azure_over_tls_and_to_what_is_listed() {
        for (base, extra, want) in [
            ("https://r.openai.azure.com", None, true),
            ("https://R.Services.AI.Azure.com", None, true),
            ("http://r.openai.azure.com", None, false),
            ("https://openai.azure.com.evil.example", None, false),
            ("https://evil.example/.openai.azure.com", None, false),
            ("https://evilopenai.azure.com", None, false),
            ("https://gw.corp.example", Some(".corp.example"), true),
            ("https://corp.example", Some(".corp.example"), false),
            ("http://gw.corp.example", Some("gw.corp.example"), false),
            ("http://127.0.0.1:9", None, false),
            ("http://127.0.0.1:9", Some("x.example, 127.0.0.1"), true),
            ("http://[::1]:9", Some("[::1]"), true),
        ] {
            let address = Address::new(base, "/x").unwrap();
            assert_eq!(check(&address, extra).is_ok(), want, "{base} {extra:?}");
        }
    }
}
