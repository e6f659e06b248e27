//! A credential that can be used but not shown (required difference D36).

use std::fmt;

/// What is written in place of a credential, of fixed length so that nothing can be told from it.
pub const REDACTED: &str = "***";

/// A credential. It prints as `[redacted]`, has no serialised form and is compared only for
/// equality.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a credential.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the credential itself. Call this only where it is sent to its owner.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether no credential was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Returns whether a setting of this name holds a credential: its last part is `api_key`, `token`,
/// `secret` or `password` (with `-` or `_`, in any case).
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    ["api_key", "apikey", "token", "secret", "password"]
        .iter()
        .any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_prints() {
        let secret = Secret::new("sk-live-123");
        assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
    }

    #[test]
    fn names() {
        for (name, want) in [
            ("azure_openai_api_key", true),
            ("My-API-Key", true),
            ("github_token", true),
            ("max_tokens", false),
            ("db.password", true),
            ("secretary", false),
        ] {
            assert_eq!(is_secret_name(name), want, "{name}");
        }
    }
}
