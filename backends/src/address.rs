//! Addresses of providers: checked once, shown without credentials.

use http::Uri;

use crate::error::CallError;

/// An address that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// What is called.
    pub(crate) uri: Uri,
    /// The same for messages: without user, password and query.
    pub(crate) shown: String,
}

impl Address {
    /// Reads `base` and appends `path` (with its leading slash), unless the base ends so already.
    ///
    /// # Errors
    /// [`CallError::Misconfigured`] for what is no `http` or `https` address, or holds a password,
    /// a query or a fragment.
    pub(crate) fn new(base: &str, path: &str) -> Result<Self, CallError> {
        let base = base.trim().trim_end_matches('/');
        let address = if base.ends_with(path) {
            base.to_owned()
        } else {
            format!("{base}{path}")
        };
        if base.contains(['?', '#']) {
            return Err(bad(
                base,
                "an address takes no `?` or `#`; a key belongs into the API key",
            ));
        }
        let uri: Uri = address
            .parse()
            .map_err(|e| bad(base, &format!("not an address: {e}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(bad(base, "expected an address like `https://host/v1`"));
        }
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(bad(
                base,
                "a password does not belong in the address; use the API key",
            ));
        }
        Ok(Self {
            shown: without_credentials(&address),
            uri,
        })
    }

    /// Appends a query, which messages do not show.
    ///
    /// # Errors
    /// [`CallError::Misconfigured`] for characters that no address has.
    pub(crate) fn with_query(self, query: &str) -> Result<Self, CallError> {
        let uri = format!("{}?{query}", self.uri).parse();
        let uri = uri.map_err(|e| bad(&self.shown, &format!("not an address: {e}")))?;
        Ok(Self { uri, ..self })
    }
}

fn bad(base: &str, detail: &str) -> CallError {
    CallError::Misconfigured {
        endpoint: without_credentials(base),
        status: 0,
        detail: detail.to_owned(),
    }
}

/// Returns an address without user, password and query.
pub(crate) fn without_credentials(address: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, expected: Option<&str>) {
        let address = Address::new(base, "/chat/completions").ok();
        assert_eq!(address.map(|a| a.uri.to_string()).as_deref(), expected);
    }

    #[test]
    fn the_base_address_takes_the_usual_spellings_and_no_nonsense() {
        let full = "http://h/v1/chat/completions";
        check("http://h/v1", Some(full));
        check("http://h/v1/", Some(full));
        check(" http://h/v1/chat/completions ", Some(full));
        check("http://h/v1/chat/completions/", Some(full));
        check("h/v1", None);
        check("ftp://h/v1", None);
        check("http://me:pass@h/v1", None);
        check("http://h/v1?key=x", None);
        check("http://h/v1#x", None);
        check("", None);
    }

    #[test]
    fn a_refusal_shows_no_password() {
        let error = Address::new("http://me:pass@h/v1?key=sk-1", "/x").unwrap_err();
        let text = error.to_string();
        assert!(!text.contains("pass@") && !text.contains("sk-1"), "{text}");
    }
}
