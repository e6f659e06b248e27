//! Reads where the cluster is, and what proves who asks.

use std::path::Path;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use skillopt_runtime::files;

use crate::args::RemoteArgs;
use crate::failure::Failure;

/// Coordinators that may be named.
const ENDPOINTS_MAX: usize = 16;
/// Where a coordinator listens unless told otherwise.
const PORT: u16 = 7420;
/// Largest token or certificate file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// One or more coordinators of one cluster, and the token for them.
#[derive(Debug)]
pub(crate) struct Address {
    /// As they were written, with what connects to them.
    pub(crate) endpoints: Vec<(String, Endpoint)>,
    pub(crate) token: Option<MetadataValue<Ascii>>,
}

impl Address {
    /// Reads and checks what was given.
    ///
    /// # Errors
    /// There is no coordinator, or something of it cannot be used.
    pub(crate) fn of(args: &RemoteArgs) -> Result<Self, Failure> {
        let named = args.coordinator.as_deref().unwrap_or_default();
        let urls: Vec<&str> = named
            .split(',')
            .map(str::trim)
            .filter(|url| !url.is_empty())
            .collect();
        if urls.is_empty() {
            return Err(Failure::usage("no coordinator was named").hint(
                "name one with `--coordinator http://127.0.0.1:7420` or in SKILLOPT_COORDINATOR; \
                 `skillopt up` starts a cluster on this machine",
            ));
        }
        if urls.len() > ENDPOINTS_MAX {
            return Err(Failure::usage(format!(
                "{} coordinators are named; at most {ENDPOINTS_MAX} are of use",
                urls.len()
            )));
        }
        let tls = tls(args)?;
        let token = token(args)?;
        let endpoints = urls
            .into_iter()
            .map(|url| Ok((url.to_owned(), endpoint(url, args, &tls)?)))
            .collect::<Result<_, Failure>>()?;
        Ok(Self { endpoints, token })
    }
}

fn endpoint(url: &str, args: &RemoteArgs, tls: &ClientTlsConfig) -> Result<Endpoint, Failure> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| {
        Failure::usage(format!("the coordinator `{}` is no address", shown(url)))
            .hint(format!("write `http://{url}` or `https://{url}`"))
    })?;
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Err(Failure::usage(format!(
            "the coordinator's address `{}` holds credentials, which it cannot use",
            shown(url)
        ))
        .hint("give the token in SKILLOPT_TOKEN or with --token-file"));
    }
    let made = Endpoint::from_shared(with_port(scheme, host, rest)).map_err(|e| {
        Failure::usage(format!("the coordinator `{url}` is no address: {e}"))
            .hint("write it as in `http://127.0.0.1:7420`")
    })?;
    match scheme {
        "https" => made
            .tls_config(tls.clone())
            .map_err(|e| Failure::usage(format!("TLS to `{url}` cannot be set up: {}", root(&e)))),
        "http" if args.insecure || is_loopback(host) => Ok(made),
        "http" => Err(Failure::usage(format!(
            "`{url}` is plain text to another machine: whoever listens reads the token and all skills"
        ))
        .hint("use `https://`, or allow it with --insecure")),
        _ => Err(
            Failure::usage(format!("`{scheme}` is no way to reach a coordinator"))
                .hint("write `http://` or `https://`"),
        ),
    }
}

/// Returns the address with a port: ports of web servers are nothing that a coordinator listens on
/// by itself, and whoever does use one has written it.
fn with_port(scheme: &str, host: &str, rest: &str) -> String {
    let path = rest.strip_prefix(host).unwrap_or_default();
    // In brackets there are colons that begin no port.
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    if host.is_empty() || after.contains(':') {
        format!("{scheme}://{rest}")
    } else {
        format!("{scheme}://{host}:{PORT}{path}")
    }
}

/// Hides what stands before an `@`.
fn shown(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => url.to_owned(),
    }
}

/// Whether a `host:port` is this very machine.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<std::net::SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

fn tls(args: &RemoteArgs) -> Result<ClientTlsConfig, Failure> {
    let mut tls = ClientTlsConfig::new();
    tls = match &args.ca {
        Some(path) => tls.ca_certificate(Certificate::from_pem(read(path)?)),
        None => tls.with_native_roots(),
    };
    if let (Some(cert), Some(key)) = (&args.client_cert, &args.client_key) {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(tls)
}

fn token(args: &RemoteArgs) -> Result<Option<MetadataValue<Ascii>>, Failure> {
    let text = match (&args.token, &args.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(path)) => String::from_utf8(read(path)?)
            .map_err(|_| Failure::usage(format!("`{}` holds no token", path.display())))?,
        (None, None) => return Ok(None),
    };
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let mut value: MetadataValue<Ascii> = format!("Bearer {text}")
        .parse()
        .map_err(|_| Failure::usage("the token holds characters that no token has"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    Ok(files::read_limited(path, FILE_MAX)?)
}

/// Returns what lies at the bottom of an error.
pub(crate) fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut at = error;
    while let Some(below) = at.source() {
        at = below;
    }
    at.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(url: &str) -> RemoteArgs {
        RemoteArgs {
            coordinator: Some(url.to_owned()),
            ..RemoteArgs::default()
        }
    }

    #[test]
    fn plain_text_goes_to_this_machine_alone() {
        for (host, want) in [
            ("127.0.0.1:7420", true),
            ("127.8.8.8", true),
            ("localhost:1", true),
            ("[::1]:7420", true),
            ("[::1]", true),
            ("10.0.0.1:7420", false),
            ("localhost.example.org:1", false),
            ("example.org", false),
        ] {
            assert_eq!(is_loopback(host), want, "{host}");
            assert_eq!(Address::of(&args(&format!("http://{host}"))).is_ok(), want);
        }
        let open = RemoteArgs {
            insecure: true,
            ..args("http://10.0.0.1:7420")
        };
        assert!(Address::of(&open).is_ok());
    }

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        for (url, want) in [
            ("http://127.0.0.1", "http://127.0.0.1:7420/"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80/"),
            ("http://[::1]", "http://[::1]:7420/"),
            ("http://[::1]:9", "http://[::1]:9/"),
            ("http://localhost/a", "http://localhost:7420/a"),
            (
                "https://cluster.example.org/",
                "https://cluster.example.org:7420/",
            ),
        ] {
            let address = Address::of(&args(url)).unwrap();
            assert_eq!(address.endpoints[0].1.uri().to_string(), want);
        }
    }

    #[test]
    fn addresses_that_cannot_be_used() {
        for (url, want) in [
            ("", "no coordinator was named"),
            (" , ", "no coordinator was named"),
            ("127.0.0.1:7420", "is no address"),
            ("redis://127.0.0.1", "no way to reach"),
            ("http://me:secret@127.0.0.1", "holds credentials"),
        ] {
            let failure = Address::of(&args(url)).unwrap_err();
            let message = &failure.errors[0].message;
            assert!(message.contains(want), "{url}: {message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn a_token_is_never_printed() {
        let args = RemoteArgs {
            token: Some(" abc-123\n".to_owned()),
            ..args("http://127.0.0.1:1, http://127.0.0.1:2")
        };
        let address = Address::of(&args).unwrap();
        assert_eq!(address.endpoints.len(), 2);
        assert_eq!(
            address.token.as_ref().unwrap().to_str().unwrap(),
            "Bearer abc-123"
        );
        assert!(!format!("{:?}", address.token).contains("abc-123"));
    }
}
