//! Servers on which work could get lost are refused, with the fix.

use std::time::Duration;

use skillopt_queue::conformance::server::{Sentinels, Server, Setup};
use skillopt_queue::redis::{Link, Options};

async fn error(url: &str) -> String {
    let options = Options {
        unreachable_max: Duration::from_millis(200),
        ..Options::default()
    };
    let opened = Link::open(url, options).await;
    let error = opened.map(|_| ()).expect_err("it is refused");
    format!("{error}\n{error:?}")
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let server = Server::start(Setup {
        lines: vec!["maxmemory-policy allkeys-lru".into()],
        ..Setup::default()
    });
    let text = error(&server.url()).await;
    assert!(text.contains("`allkeys-lru`"), "{text}");
    assert!(
        text.contains("CONFIG SET maxmemory-policy noeviction"),
        "{text}"
    );
    let _ = server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert!(Link::open(&server.url(), Options::default()).await.is_ok());
}

#[tokio::test]
async fn a_wrong_password_is_told_but_not_shown() {
    let server = Server::start(Setup {
        lines: vec!["requirepass right".into()],
        ..Setup::default()
    });
    let port = server.port();
    let text = error(&format!("redis://:hunter2@127.0.0.1:{port}")).await;
    assert!(text.contains("give the right user and password"), "{text}");
    assert!(text.contains("it refused the password"), "{text}");
    assert!(text.contains("--redis-password-file"), "{text}");
    assert!(text.contains(&port.to_string()), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    let text = error(&format!("redis://127.0.0.1:{port}")).await;
    assert!(text.contains("give the right user and password"), "{text}");
}

#[tokio::test]
async fn sentinels_that_want_a_password_say_so() {
    let sentinels = Sentinels::locked();
    let server = "skillopt:of-the-server@";
    for (login, tail) in [
        (server, ""),
        (server, "?sentinel_user=finder&sentinel_password=hunter2"),
        (
            "skillopt:hunter2@",
            "?sentinel_user=finder&sentinel_password=of-the-sentinels",
        ),
    ] {
        let text = error(&sentinels.url_with(login, tail)).await;
        assert!(text.contains("password"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(!text.contains("of-the"), "{text}");
        assert!(text.contains("sentinel_password=PASSWORD"), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_named_without_its_password() {
    let server = Server::redis();
    server.kill();
    for url in [
        format!("redis://u:hunter2@127.0.0.1:{}", server.port()),
        format!("redis+cluster://u:hunter2@127.0.0.1:{}", server.port()),
        format!(
            "redis+sentinel://u:hunter2@127.0.0.1:{}/main",
            server.port()
        ),
    ] {
        let text = error(&url).await;
        assert!(text.contains(&server.port().to_string()), "{text}");
        assert!(text.contains("not reached"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn a_user_without_rights_hears_where_they_are_named() {
    let server = Server::start(Setup {
        lines: vec!["user poor on >secret ~skillopt:* -@all +@connection".into()],
        ..Setup::default()
    });
    let text = error(&server.url().replace("redis://", "redis://poor:secret@")).await;
    assert!(text.contains("docs/redis.md"), "{text}");
}
