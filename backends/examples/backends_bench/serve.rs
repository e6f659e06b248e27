//! The server's side.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::generate_simple_self_signed;
use rustls::pki_types::PrivateKeyDer;
use skillopt_backends::conformance::Kit;
use skillopt_backends::conformance::crowd::{Crowd, Fate};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::Outcome;

/// Long enough that every call of a bench is there before the first is answered.
const SLOW: Duration = Duration::from_secs(10);

/// Serves until it is killed.
pub(super) fn run(kit: Kit, how: &str, certificate: &Path) -> Outcome<()> {
    // Fewer files than calls show as failed calls.
    let _ = skillopt_runtime::limits::raise_open_files();
    let wait = if how.starts_with("slow") {
        SLOW
    } else {
        Duration::ZERO
    };
    let fate = match how {
        "bad" => Fate::in_a_bad_hour,
        _ => |_| Fate::Answered,
    };
    let tls = how.ends_with("tls").then(|| acceptor(certificate));
    let tls = tls.transpose()?;
    let crowd = Crowd::new(&(kit.wire.answer)("Paris").to_string(), wait, fate);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(listen(crowd, tls))
}

fn acceptor(certificate: &Path) -> Outcome<TlsAcceptor> {
    let key = generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    std::fs::write(certificate, key.cert.pem())?;
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn listen(crowd: Arc<Crowd>, tls: Option<TlsAcceptor>) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    #[expect(clippy::print_stdout, reason = "how its parent learns of the address")]
    {
        println!("{scheme}://{}", listener.local_addr()?);
    }
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (crowd, tls) = (Arc::clone(&crowd), tls.clone());
        connections.spawn(async move {
            match tls {
                Some(tls) => crowd.serve(tls.accept(stream).await?).await,
                None => crowd.serve(stream).await,
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
