//! The conformance suite over TLS, with an authority of one's own.

use std::path::PathBuf;
use std::sync::LazyLock;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use skillopt_queue::conformance::Rig;
use skillopt_queue::conformance::server::{Server, Setup};
use skillopt_queue::redis::{Link, Options};
use tempfile::TempDir;

struct Tls {
    server: Server,
    _certificates: TempDir,
}

static TLS: LazyLock<Tls> = LazyLock::new(start);

fn start() -> Tls {
    // Another test may have done it.
    drop(rustls::crypto::ring::default_provider().install_default());
    let dir = tempfile::tempdir().unwrap();
    let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = server.signed_by(&key, &issuer).unwrap();
    let write = |name: &str, text: String| -> PathBuf {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let tls = [
        write("server.pem", certificate.pem()),
        write("server.key", key.serialize_pem()),
        write("ca.pem", authority_certificate.pem()),
    ];
    let setup = Setup {
        tls: Some(tls),
        ..Setup::default()
    };
    Tls {
        server: Server::start(setup),
        _certificates: dir,
    }
}

async fn make() -> Rig {
    crate::rig::rig(&TLS.server.url()).await
}

skillopt_queue::conformance!(in one: make);

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_refused() {
    let tls = start();
    let url = tls.server.url();
    let (url, _) = url.split_once('?').unwrap();
    let options = Options {
        unreachable_max: std::time::Duration::from_millis(100),
        ..Options::default()
    };
    let error = Link::open(url, options).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}
