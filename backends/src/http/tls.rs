//! Whom we trust.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::Transport;

/// Returns the TLS settings: the system's roots and those of the operator.
///
/// # Errors
/// There are none, or a file of them cannot be read; in words.
pub(super) fn config(transport: &Transport) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = &transport.ca_file {
        let shown = path.display();
        let unreadable = |e: &dyn std::fmt::Display| {
            format!("the root certificates `{shown}` cannot be read: {e}")
        };
        let own = CertificateDer::pem_file_iter(path).map_err(|e| unreadable(&e))?;
        let own: Result<Vec<_>, _> = own.collect();
        let own = own.map_err(|e| unreadable(&e))?;
        if own.is_empty() {
            return Err(unreadable(&"it holds no certificate"));
        }
        for certificate in own {
            roots.add(certificate).map_err(|e| unreadable(&e))?;
        }
    }
    if roots.is_empty() {
        let cause = system.errors.first().map(ToString::to_string);
        return Err(format!(
            "no root certificates were found ({}); install the system's CA certificates, or set \
             SSL_CERT_FILE or SKILLOPT_CA_FILE",
            cause.as_deref().unwrap_or("the system has none")
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
