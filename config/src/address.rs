//! Addresses of servers: what is wrong with one, and how one is shown (required difference D36).

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// In words that follow the key.
    pub reason: &'static str,
    /// The text may hold a credential and must not be repeated.
    pub is_private: bool,
}

/// Returns what keeps `text` from being the base address of a server: a scheme, a host, perhaps a
/// port and a path, and nothing else.
pub(crate) fn fault(text: &str) -> Option<Fault> {
    let private = |reason| {
        Some(Fault {
            reason,
            is_private: true,
        })
    };
    let authority = authority(text);
    if has_password(text) {
        return private(
            "holds a name or a password; take them out and give the key in the environment",
        );
    }
    if text.contains(['?', '#']) {
        return private(
            "has a `?` or `#`, which an address does not take; give a key in the environment",
        );
    }
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let is_plain = scheme.is_some_and(|s| ["http", "https"].contains(&s.to_lowercase().as_str()))
        && authority.is_some_and(is_host)
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    (!is_plain).then_some(Fault {
        reason: "is no address",
        // Without a scheme nobody can tell which part of it is a password.
        is_private: text.contains('@'),
    })
}

/// Returns the address without a name, a password, a query and a fragment; other texts as they
/// are.
pub(crate) fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// Returns whether `text` is an address with a name or a password.
pub(crate) fn has_password(text: &str) -> bool {
    authority(text).is_some_and(|authority| authority.contains('@'))
}

/// Returns what stands between `://` and the path.
fn authority(text: &str) -> Option<&str> {
    text.split_once("://")?.1.split(['/', '?', '#']).next()
}

/// Returns whether `authority` is a host, perhaps with a port.
fn is_host(authority: &str) -> bool {
    // The colons of `[::1]` belong to the host.
    let after = authority.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match authority.get(after..).and_then(|tail| tail.rfind(':')) {
        Some(at) => (
            authority.get(..after + at).unwrap_or_default(),
            authority.get(after + at + 1..),
        ),
        None => (authority, None),
    };
    !host.is_empty() && port.is_none_or(|port| port.is_empty() || port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults() {
        for (text, want) in [
            ("https://api.openai.com/v1", None),
            ("http://localhost:8000/v1", None),
            ("HTTP://[::1]:8000/v1", None),
            ("http://[::1]", None),
            ("http://h/a@b", None),
            ("http://u:hunter2@h/v1", Some("password")),
            ("http://u@h", Some("password")),
            ("http://h/v1?key=hunter2", Some("`?`")),
            ("http://h#hunter2", Some("`?`")),
            ("localhost:8000", Some("no address")),
            ("u:hunter2@h", Some("no address")),
            ("ftp://h", Some("no address")),
            ("http://", Some("no address")),
            ("http://:80", Some("no address")),
            ("http://h:port/v1", Some("no address")),
            ("http://h/a b", Some("no address")),
        ] {
            let found = fault(text);
            match want {
                None => assert_eq!(found, None, "{text}"),
                Some(want) => {
                    let found = found.unwrap_or_else(|| panic!("{text}"));
                    assert!(found.reason.contains(want), "{text}: {found:?}");
                    let has_secret = text.contains("hunter2");
                    assert!(found.is_private || !has_secret, "{text}");
                }
            }
        }
    }

    #[test]
    fn shown_without_credentials() {
        for (text, want) in [
            ("https://h/v1", "https://h/v1"),
            ("https://u:p@h:1/v1?k=s#f", "https://h:1/v1"),
            ("https://u:p@q@h", "https://h"),
            ("https://h/a@b", "https://h/a@b"),
            ("never", "never"),
        ] {
            assert_eq!(without_credentials(text), want);
        }
    }
}
