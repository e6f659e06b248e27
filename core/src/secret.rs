//! A credential that can be used but not shown (required difference D36).

use std::fmt;

/// What is written in place of a credential, of fixed length so that nothing can be told from it.
pub const REDACTED: &str = "***";

/// Where a credential stands, if it is not written out. Unlike the credential it may travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// A variable of the environment: `env:NAME`.
    Env(&'a str),
    /// A file that holds nothing else, such as a mounted Kubernetes secret: `file:/path`.
    File(&'a str),
}

/// A credential, or a [`Reference`] to one. It prints as `[redacted]`, has no serialised form and is compared only for
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

    /// Returns where the credential stands, if this only refers to it.
    #[must_use]
    pub fn reference(&self) -> Option<Reference<'_>> {
        let text = self.0.trim();
        let env = || text.strip_prefix("env:").map(Reference::Env);
        text.strip_prefix("file:")
            .map(Reference::File)
            .or_else(env)
            .map(Reference::trimmed)
    }

    /// Returns whether no credential was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Reference<'_> {
    fn trimmed(self) -> Self {
        match self {
            Self::Env(name) => Self::Env(name.trim()),
            Self::File(path) => Self::File(path.trim()),
        }
    }

    /// Returns why nothing can be found there, whatever the machine.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Env(name) if name.is_empty() || name.contains(['=', '\0']) => {
                Some("`env:` wants the name of a variable after it")
            }
            // What a relative path means would depend on where a worker was started.
            Self::File(path) if !path.starts_with('/') => {
                Some("`file:` wants a path that begins with `/` after it")
            }
            Self::Env(_) | Self::File(_) => None,
        }
    }
}

impl fmt::Display for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
        }
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
    fn a_reference_is_told_from_a_key() {
        for (text, want) in [
            ("sk-live-123", None),
            ("env:KEY", Some(Reference::Env("KEY"))),
            (" env: KEY ", Some(Reference::Env("KEY"))),
            ("file:/run/key", Some(Reference::File("/run/key"))),
            ("environment", None),
        ] {
            assert_eq!(Secret::new(text).reference(), want, "{text}");
        }
        assert_eq!(Reference::File("/run/key").to_string(), "file:/run/key");
        for bad in [
            Reference::Env(""),
            Reference::Env("A=b"),
            Reference::File("run/key"),
        ] {
            assert!(bad.fault().is_some(), "{bad}");
        }
        assert_eq!(Reference::Env("A").fault(), None);
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
