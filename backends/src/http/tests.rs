//! Calls over real sockets: proxies, TLS, HTTP/2, stalls, sizes, redirects.

use std::time::Duration;

use super::*;
use crate::test_servers::{Certificate, OK, Peer};

fn run<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

async fn post(http: &Http, address: &str) -> Result<Answer, CallError> {
    send(http, address, json_headers()).await
}

async fn send(http: &Http, address: &str, headers: HeaderMap) -> Result<Answer, CallError> {
    let uri = address.parse().unwrap();
    http.send(Call {
        method: Method::POST,
        uri: &uri,
        endpoint: address,
        headers,
        body: Bytes::from_static(b"{}"),
        ends: Ends::after(Duration::from_secs(20)),
    })
    .await
}

fn transport(certificate: Option<&Certificate>) -> Transport {
    Transport {
        ca_file: certificate.map(Certificate::path),
        ..Transport::default()
    }
}

#[test]
fn a_plain_call_tells_its_proxy_the_whole_address() {
    run(async {
        let proxy = Peer::answering(OK).await;
        let http = Http::with(Transport {
            http_proxy: Some(format!("http://me:pass%21@{}", proxy.address)),
            no_proxy: "direct.example".to_owned(),
            ..Transport::default()
        });
        let answer = post(&http, "http://model.example/v1/x?a=1").await.unwrap();
        assert_eq!(answer.body, "ok");
        let heads = proxy.heads();
        assert!(
            heads[0].starts_with("POST http://model.example/v1/x?a=1 HTTP/1.1\r\n"),
            "{heads:?}"
        );
        assert!(
            heads[0].contains("proxy-authorization: Basic bWU6cGFzcyE="),
            "{heads:?}"
        );
        let error = post(&http, "http://direct.example.invalid/").await;
        assert!(error.is_ok(), "only the very host is called directly");
    });
}

#[test]
fn a_proxy_that_is_gone_is_named_without_its_password() {
    run(async {
        let gone = Peer::closed().await;
        let http = Http::with(Transport {
            https_proxy: Some(format!("http://me:pass-x@{gone}")),
            ..Transport::default()
        });
        let certificate = Certificate::new();
        let http_with = Http::with(Transport {
            ca_file: Some(certificate.path()),
            ..http.transport.clone()
        });
        let error = post(&http_with, "https://model.example/")
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("proxy `127.0.0.1`"), "{text}");
        assert!(!text.contains("pass-x"), "{text}");
    });
}

#[test]
fn a_tls_call_goes_through_a_tunnel() {
    run(async {
        let certificate = Certificate::new();
        let server = Peer::tls(&certificate, &[b"http/1.1"]).await;
        let proxy = Peer::tunnel(server.address).await;
        let http = Http::with(Transport {
            https_proxy: Some(format!("http://{}", proxy.address)),
            ..transport(Some(&certificate))
        });
        let answer = post(&http, "https://localhost/v1").await.unwrap();
        assert_eq!(answer.body, "ok");
        assert!(
            proxy.heads()[0].starts_with("CONNECT localhost:443 HTTP/1.1\r\n"),
            "{:?}",
            proxy.heads()
        );
        // Nothing of the call itself is seen by the proxy.
        assert_eq!(proxy.heads().len(), 1);
    });
}

#[test]
fn a_socks_proxy_is_told_the_name_of_the_host() {
    run(async {
        let server = Peer::answering(OK).await;
        let proxy = Peer::socks(server.address).await;
        let http = Http::with(Transport {
            http_proxy: Some(format!("socks5h://{}", proxy.address)),
            ..Transport::default()
        });
        let answer = post(&http, "http://model.example/v1").await.unwrap();
        assert_eq!(answer.body, "ok");
        assert_eq!(proxy.heads(), ["model.example"]);
    });
}

#[test]
fn a_server_is_trusted_by_the_operators_own_roots() {
    run(async {
        let (certificate, other) = (Certificate::new(), Certificate::new());
        let server = Peer::tls(&certificate, &[b"http/1.1"]).await;
        let address = format!("https://localhost:{}/v1", server.address.port());
        let http = Http::with(transport(Some(&certificate)));
        assert_eq!(post(&http, &address).await.unwrap().body, "ok");
        let http = Http::with(transport(Some(&other)));
        let text = post(&http, &address).await.unwrap_err().to_string();
        assert!(text.contains("certificate"), "{text}");
        let http = Http::with(Transport {
            ca_file: Some("/no/such/file.pem".into()),
            ..Transport::default()
        });
        let error = post(&http, &address).await.unwrap_err();
        assert!(matches!(error, CallError::Misconfigured { .. }), "{error}");
        assert!(error.to_string().contains("/no/such/file.pem"), "{error}");
    });
}

#[test]
fn a_stalled_answer_is_noticed_and_the_limit_named() {
    run(async {
        let short = Duration::from_millis(30);
        let http = Http::with(Transport {
            first_byte: Some(short),
            between_chunks: short,
            ..Transport::default()
        });
        let mut events = json_headers();
        accept_events(&mut events);
        let silent = Peer::answering("").await;
        let half = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nha";
        let halting = Peer::answering(half).await;
        for (peer, headers, want) in [
            (&silent, events.clone(), "the first byte"),
            (&halting, events, "the next piece"),
            (&halting, json_headers(), "the next piece"),
        ] {
            let address = format!("http://{}/", peer.address);
            let error = send(&http, &address, headers).await.unwrap_err();
            assert!(matches!(error, CallError::Stalled { .. }), "{error}");
            assert!(error.to_string().contains(want), "{error}");
        }
    });
}

#[test]
fn an_answer_that_is_too_large_is_refused_before_it_is_read() {
    run(async {
        let huge = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
        let peer = Peer::answering(huge).await;
        let address = format!("http://{}/", peer.address);
        let error = post(&Http::new(), &address).await.unwrap_err();
        assert!(matches!(error, CallError::Malformed { .. }), "{error}");
    });
}

#[test]
fn a_redirect_is_not_followed() {
    run(async {
        let other = Peer::answering(OK).await;
        let redirect = format!(
            "HTTP/1.1 307 Elsewhere\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
            other.address
        );
        let peer = Peer::answering(&redirect).await;
        let mut headers = json_headers();
        let key = bearer("sk-secret", "x").unwrap();
        headers.insert(http::header::AUTHORIZATION, key);
        let address = format!("http://{}/", peer.address);
        let answer = send(&Http::new(), &address, headers).await.unwrap();
        assert_eq!(answer.status, StatusCode::TEMPORARY_REDIRECT);
        assert_eq!(other.connections(), 0);
    });
}

#[test]
fn the_environment_names_proxies_and_limits() {
    let env = |vars: &'static [(&str, &str)]| {
        move |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    };
    let seen = Transport::from_env(&env(&[
        ("ALL_PROXY", "http://all"),
        ("https_proxy", "http://tls"),
        ("NO_PROXY", "a,b"),
        ("SKILLOPT_FIRST_BYTE_SECONDS", "1.5"),
    ]));
    assert_eq!(seen.http_proxy.as_deref(), Some("http://all"));
    assert_eq!(seen.https_proxy.as_deref(), Some("http://tls"));
    assert_eq!(seen.no_proxy, "a,b");
    assert_eq!(seen.first_byte, Some(Duration::from_millis(1_500)));
    let cgi = Transport::from_env(&env(&[
        ("HTTP_PROXY", "http://evil"),
        ("REQUEST_METHOD", "GET"),
    ]));
    assert_eq!(cgi.http_proxy, None);
}

#[test]
fn many_calls_share_few_http2_connections() {
    const CALLS: usize = 250;
    run(async {
        let certificate = Certificate::new();
        // Answers only when all calls are there, so that none may wait for another.
        let server = Peer::http2(&certificate, CALLS).await;
        let address = format!("https://localhost:{}/v1", server.address.port());
        let http = Http::with(transport(Some(&certificate)));
        let calls = (0..CALLS).map(|_| post(&http, &address));
        for answer in futures_util::future::join_all(calls).await {
            assert_eq!(answer.unwrap().body, "ok");
        }
        assert!(
            server.connections() <= 3,
            "{} connections",
            server.connections()
        );
    });
}

#[test]
fn a_silent_server_is_noticed_while_there_is_time_for_another_try() {
    let usual = Transport::default();
    let seconds = Duration::from_secs;
    for (limit, want) in [(1, 30), (60, 30), (120, 60), (600, 300), (3_600, 300)] {
        assert_eq!(usual.first_byte_within(seconds(limit)), seconds(want));
    }
    let set = Transport {
        first_byte: Some(seconds(900)),
        ..usual
    };
    assert_eq!(set.first_byte_within(seconds(120)), seconds(900));
}
