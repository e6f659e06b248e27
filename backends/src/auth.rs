//! How a call says who it is from.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use skillopt_core::secret::Secret;

use crate::error::CallError;
use crate::http::{bearer, secret_header};
use crate::tokens::Tokens;

/// What calls of one server carry.
pub(crate) enum Auth {
    /// Nothing: a server that asks for no key.
    None,
    /// The same header in each.
    Header {
        name: HeaderName,
        value: HeaderValue,
        secret: Arc<Secret>,
    },
    /// A bearer token that ends.
    Token(Arc<Tokens>),
}

impl Auth {
    /// Makes calls carry `key` as a bearer token.
    ///
    /// # Errors
    /// The key has characters that a header cannot carry.
    pub(crate) fn bearer(key: Secret, endpoint: &str) -> Result<Self, CallError> {
        Ok(Self::Header {
            name: http::header::AUTHORIZATION,
            value: bearer(key.expose().trim(), endpoint)?,
            secret: Arc::new(Secret::new(key.expose().trim())),
        })
    }

    /// Makes calls carry `key` in a header of its own.
    ///
    /// # Errors
    /// The key has characters that a header cannot carry.
    pub(crate) fn header(
        name: &'static str,
        key: Secret,
        endpoint: &str,
    ) -> Result<Self, CallError> {
        Ok(Self::Header {
            name: HeaderName::from_static(name),
            value: secret_header(key.expose().trim(), endpoint)?,
            secret: Arc::new(Secret::new(key.expose().trim())),
        })
    }

    /// Makes calls carry a bearer token if there is a key.
    ///
    /// # Errors
    /// The key has characters that a header cannot carry.
    pub(crate) fn bearer_if(key: Option<Secret>, endpoint: &str) -> Result<Self, CallError> {
        match key.filter(|key| !key.expose().trim().is_empty()) {
            Some(key) => Self::bearer(key, endpoint),
            None => Ok(Self::None),
        }
    }

    /// Signs a call. Returns the credential, which must be kept out of messages.
    ///
    /// # Errors
    /// There is no token and none can be had.
    pub(crate) async fn sign(
        &self,
        headers: &mut HeaderMap,
    ) -> Result<Option<Arc<Secret>>, CallError> {
        Ok(match self {
            Self::None => None,
            Self::Header {
                name,
                value,
                secret,
            } => {
                headers.insert(name.clone(), value.clone());
                Some(Arc::clone(secret))
            }
            Self::Token(tokens) => {
                let token = tokens.get().await?;
                headers.insert(http::header::AUTHORIZATION, token.header);
                Some(token.secret)
            }
        })
    }

    /// Returns whether another credential can be had for one that was rejected.
    pub(crate) fn renews(&self, rejected: Option<&Arc<Secret>>) -> bool {
        match (self, rejected) {
            (Self::Token(tokens), Some(secret)) => tokens.reject(secret),
            _ => false,
        }
    }
}
