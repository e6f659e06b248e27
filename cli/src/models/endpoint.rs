//! Addresses of model servers: when two are the same, and which need no key.

use std::net::IpAddr;
use std::str::FromStr;

/// Returns an address in the form in which addresses are compared: scheme and host in small
/// letters, no slash at the end, the base of the API only.
pub(crate) fn normal(address: &str) -> String {
    let address = address.trim().trim_end_matches('/');
    let address = address.strip_suffix("/chat/completions").unwrap_or(address);
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!(
                "{}://{}{path}",
                scheme.to_lowercase(),
                authority.to_lowercase()
            )
        }
        None => address.to_owned(),
    }
}

/// Returns whether an address is on this machine.
pub(crate) fn is_loopback(address: &str) -> bool {
    let Some(authority) = authority(address) else {
        return false;
    };
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns host and port; none of an address with a name, a query or a fragment, as its host is
/// easily misread.
fn authority(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split('/').next()?;
    let is_plain = !rest.contains(['?', '#']) && !authority.contains(['@', '\\']);
    is_plain.then_some(authority)
}

/// Servers that may be called without a key: an address in which `*` stands for anything but a
/// slash. Every path below it is meant as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pattern = normal(text);
        let is_address = authority(&pattern).is_some_and(|host| !host.is_empty())
            && ["http://", "https://"]
                .iter()
                .any(|scheme| pattern.starts_with(scheme));
        if is_address {
            Ok(Self(pattern))
        } else {
            Err("expected an address like `http://gpu-*:8000/v1`".to_owned())
        }
    }
}

impl Pattern {
    pub(crate) fn matches(&self, address: &str) -> bool {
        if authority(address).is_none() {
            return false;
        }
        let mut parts = address.split('/');
        let mut wanted = self.0.split('/');
        wanted.all(|wanted| parts.next().is_some_and(|part| is_like(wanted, part)))
    }
}

/// Compares one part of an address, `*` standing for anything.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(head) else {
        return false;
    };
    // The shortest fit of each middle piece leaves the most for the others.
    let mut text = text;
    let mut rest = rest;
    while let Some((piece, after)) = rest.split_once('*') {
        let Some(at) = text.find(piece) else {
            return false;
        };
        text = &text[at + piece.len()..];
        rest = after;
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_parts_of_a_host_but_never_for_a_slash() {
        for (pattern, address, want) in [
            ("http://gpu-*:8000", "http://gpu-1:8000/v1", true),
            ("http://gpu-*:8000", "http://gpu-1:8001/v1", false),
            (
                "http://*.lab.example/v1",
                "http://a.b.lab.example/v1/x",
                true,
            ),
            (
                "http://*.lab.example/v1",
                "http://evil.example/.lab.example/v1",
                false,
            ),
            ("http://*.lab.example/v1", "https://a.lab.example/v1", false),
            ("http://a*b*c", "http://a-b-b-c", true),
            ("http://a*b*c", "http://acb", false),
            ("http://*", "http://me@host/v1", false),
            (
                "http://*.lab.example",
                "http://evil.example?.lab.example",
                false,
            ),
            (
                "http://*.lab.example",
                "http://evil.example#.lab.example",
                false,
            ),
            ("http://*/v1", "http://host/v1?to=x", false),
            ("HTTP://Host/V1/", "http://host/V1", true),
            ("http://host/v1", "http://host", false),
        ] {
            let pattern: Pattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(address), want, "{pattern:?} {address}");
        }
        for bad in [
            "",
            "gpu",
            "ftp://x",
            "http://",
            "http://me@host",
            "http://h?x",
            "http://h#x",
        ] {
            assert!(bad.parse::<Pattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_addresses() {
        for (address, want) in [
            ("http://127.0.0.1:8000/v1", true),
            ("http://127.8.9.1", true),
            ("http://[::1]:8000/v1", true),
            ("http://localhost:1/v1", true),
            ("http://localhost.evil.example/v1", false),
            ("http://127.0.0.1.evil.example/v1", false),
            ("http://127.0.0.1@evil.example/v1", false),
            ("http://10.0.0.1/v1", false),
            ("localhost", false),
        ] {
            assert_eq!(is_loopback(address), want, "{address}");
        }
    }
}
