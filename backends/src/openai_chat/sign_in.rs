//! Where the tokens of Azure come from: its command line, the machine's identity, or an
//! application's secret.

mod cli;
mod form;

use std::sync::Arc;

use super::hosts::is_this_machine;
use super::{AD_SCOPE, AUTHORITY, AuthMode};
use crate::declare::Local;
use crate::tokens::Source;

pub(super) use form::{ClientCredentials, ManagedIdentity};

/// Where a machine asks for its identity, unless its environment says otherwise.
const METADATA: &str = "http://169.254.169.254";

/// Returns the source of a way to sign in.
///
/// # Errors
/// What is missing, in words.
pub(super) fn source(mode: AuthMode, local: &Local<'_>) -> Result<Box<dyn Source>, String> {
    let text = |name: &str| local.options.text(name);
    let scope = text("azure_openai_ad_scope").unwrap_or_else(|| AD_SCOPE.to_owned());
    let resource = scope.trim_end_matches("/.default").to_owned();
    let env = |name: &str| (local.env)(name).filter(|value| !value.trim().is_empty());
    match mode {
        AuthMode::ManagedIdentity => Ok(Box::new(ManagedIdentity {
            http: Arc::clone(local.http),
            service: env("IDENTITY_ENDPOINT").zip(env("IDENTITY_HEADER").map(Into::into)),
            metadata: env("AZURE_POD_IDENTITY_AUTHORITY_HOST")
                .unwrap_or_else(|| METADATA.to_owned()),
            client_id: text("azure_openai_managed_identity_client_id"),
            resource,
        })),
        AuthMode::ClientCredentials => {
            let authority = text("azure_openai_authority").unwrap_or_else(|| AUTHORITY.to_owned());
            if !authority.starts_with("https://") && !is_loopback(&authority) {
                return Err(format!(
                    "`model.azure_openai_authority` is {authority:?}, but a secret is sent to \
                     `https` addresses only"
                ));
            }
            let needed = |name: &str, variable: &str| {
                text(name).ok_or_else(|| format!("`model.{name}` is not set; set it or {variable}"))
            };
            let secret = (local.secret)("azure_openai_client_secret");
            Ok(Box::new(ClientCredentials {
                http: Arc::clone(local.http),
                authority,
                tenant: needed("azure_openai_tenant_id", "AZURE_TENANT_ID")?,
                client_id: needed("azure_openai_client_id", "AZURE_CLIENT_ID")?,
                secret: secret
                    .filter(|secret| !secret.expose().trim().is_empty())
                    .ok_or("no client secret is set; set AZURE_CLIENT_SECRET")?,
                scope,
            }))
        }
        AuthMode::AzureCli | AuthMode::ApiKey | AuthMode::Plain => Ok(Box::new(cli::AzureCli {
            program: text("azure_openai_cli_path").unwrap_or_else(|| "az".to_owned()),
            resource,
        })),
    }
}

/// Returns whether an address is this machine's, where tests listen.
fn is_loopback(address: &str) -> bool {
    address
        .parse::<http::Uri>()
        .is_ok_and(|uri| uri.host().is_some_and(is_this_machine))
}
