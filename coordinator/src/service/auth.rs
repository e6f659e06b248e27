//! Who may do what. A caller shows a token; what the token may do stands on the board.

mod brake;
mod role;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

use tonic::Request;

use self::brake::Brake;
use super::error::Error;
use super::parts::Parts;

pub use role::Role;
pub use token::{Shown, TokenRecord, create, list, revoke};

/// Tenant of callers who have none.
pub const TENANT: &str = "default";

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the token.
    pub name: String,
    /// Whose runs it makes.
    pub tenant: String,
    /// What it may do.
    pub role: Role,
    /// Whether it belongs to the whole cluster and sees all tenants.
    pub is_global: bool,
}

impl Caller {
    /// Returns the tenant to which all questions are limited.
    #[must_use]
    pub fn limit(&self) -> Option<&str> {
        (!self.is_global).then_some(self.tenant.as_str())
    }
}

impl Caller {
    /// Refuses what concerns all tenants to callers of one.
    ///
    /// # Errors
    /// [`Error::Denied`].
    pub fn must_be_global(&self) -> Result<(), Error> {
        if self.is_global {
            return Ok(());
        }
        Err(Error::Denied(format!(
            "token `{}` is of tenant `{}`, and this concerns all tenants; it takes a token without one",
            self.name, self.tenant
        )))
    }

    /// Refuses what takes more than this caller's role.
    ///
    /// # Errors
    /// [`Error::Denied`].
    pub fn must_be(&self, role: Role) -> Result<(), Error> {
        if self.role >= role {
            return Ok(());
        }
        Err(Error::Denied(format!(
            "token `{}` is of {}, and this takes {}",
            self.name,
            self.role.with_article(),
            role.with_article()
        )))
    }
}

/// How strict a coordinator is.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether callers without a token are let in as long as there never was one.
    pub is_open: bool,
    /// Hash of a token that is an admin's, from this coordinator's own options.
    pub admin: Option<skillopt_core::Hash>,
}

/// Lets callers in; clones share it.
#[derive(Clone)]
pub struct Gate {
    parts: Parts,
    rules: Rules,
    brake: Arc<Brake>,
}

impl Gate {
    /// Makes a gate.
    #[must_use]
    pub fn new(parts: Parts, rules: Rules) -> Self {
        let brake = Arc::default();
        Self {
            parts,
            rules,
            brake,
        }
    }

    /// Lets the caller of a request in, who needs at least `role`.
    ///
    /// # Errors
    /// The caller is not known, may not, or failed too often.
    pub async fn admit<T>(&self, request: &Request<T>, role: Role) -> Result<Caller, Error> {
        let peer = request.remote_addr().map(|address| address.ip());
        let shown = request.metadata().get("authorization");
        let shown = shown.map(|value| value.to_str().unwrap_or_default());
        let caller = self.know(shown, peer).await?;
        caller.must_be(role)?;
        Ok(caller)
    }

    /// Finds out who shows what stands in the header `authorization`.
    ///
    /// # Errors
    /// The caller is not known, or failed too often.
    pub async fn know(&self, shown: Option<&str>, peer: Option<IpAddr>) -> Result<Caller, Error> {
        let Some(shown) = shown else {
            return self.stranger().await;
        };
        let at = tokio::time::Instant::now();
        let token = shown
            .strip_prefix("Bearer ")
            .or_else(|| shown.strip_prefix("bearer "))
            .map(str::trim);
        let now = self.parts.board.now().await?;
        let known = match token {
            Some(token) => self.verify(token, now.as_ms()).await?,
            None => None,
        };
        if let Some(caller) = known {
            // Others who share its address, as behind an ingress, may have failed too often.
            return Ok(caller);
        }
        self.brake.check(peer, at)?;
        self.brake.fail(peer, at);
        Err(Error::Unauthenticated(
            "this token is not known here, or its time is over".to_owned(),
        ))
    }

    /// Lets in somebody without a token, where that is allowed.
    async fn stranger(&self) -> Result<Caller, Error> {
        let is_free = self.rules.is_open
            && self.rules.admin.is_none()
            && !token::was_any(self.parts.board.as_ref()).await?;
        if is_free {
            Ok(Caller {
                name: "anybody".to_owned(),
                tenant: TENANT.to_owned(),
                role: Role::Admin,
                is_global: true,
            })
        } else {
            Err(Error::Unauthenticated(
                "this coordinator lets nobody in without a token; if none is left, give a coordinator \
                 an admin's with --admin-token-file".to_owned(),
            ))
        }
    }

    async fn verify(&self, token: &str, now_ms: u64) -> Result<Option<Caller>, Error> {
        if let Some(admin) = &self.rules.admin
            && token::is_same(&skillopt_core::Hash::of(token.as_bytes()), admin)
        {
            return Ok(Some(Caller {
                name: "admin".to_owned(),
                tenant: TENANT.to_owned(),
                role: Role::Admin,
                is_global: true,
            }));
        }
        let found = token::find(self.parts.board.as_ref(), token, now_ms).await?;
        Ok(found.map(|record| Caller {
            name: record.name,
            is_global: record.tenant.is_empty(),
            tenant: if record.tenant.is_empty() {
                TENANT.to_owned()
            } else {
                record.tenant
            },
            role: record.role,
        }))
    }
}
