//! The server's side.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
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
    let answer = (kit.wire.answer)("Paris").to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    if how.ends_with("h2") {
        let tls = acceptor(certificate, &[b"h2"])?;
        return runtime.block_on(listen_http2(answer.into(), wait, tls));
    }
    let tls = how.ends_with("tls").then(|| acceptor(certificate, &[]));
    let crowd = Crowd::new(&answer, wait, fate);
    runtime.block_on(listen(crowd, tls.transpose()?))
}

fn acceptor(certificate: &Path, protocols: &[&[u8]]) -> Outcome<TlsAcceptor> {
    let key = generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    std::fs::write(certificate, key.cert.pem())?;
    let private = PrivateKeyDer::try_from(key.signing_key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
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

/// Answers every call over HTTP/2 after `wait`.
async fn listen_http2(answer: Bytes, wait: Duration, tls: TlsAcceptor) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    #[expect(clippy::print_stdout, reason = "how its parent learns of the address")]
    {
        println!("https://{}", listener.local_addr()?);
    }
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (answer, tls) = (answer.clone(), tls.clone());
        connections.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move {
                    request.into_body().collect().await?;
                    tokio::time::sleep(wait).await;
                    let mut response = Response::new(Full::new(answer));
                    let json = HeaderValue::from_static("application/json");
                    response.headers_mut().insert(CONTENT_TYPE, json);
                    Ok::<_, hyper::Error>(response)
                }
            });
            let server = http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(100)
                .serve_connection(TokioIo::new(stream), service);
            // The client closes it at the end.
            drop(server.await);
        });
        while connections.try_join_next().is_some() {}
    }
}
