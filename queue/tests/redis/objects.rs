//! Large values in the object stores of three vendors, each a server process.

use std::time::Duration;

use skillopt_queue::conformance::noise;
use skillopt_queue::conformance::server::{ObjectServer, Server, Vendor};
use skillopt_queue::object::{Objects, Site};
use skillopt_queue::redis::{Options, RedisStore};
use skillopt_queue::store::Error;
use skillopt_queue::{Store as _, store};

use crate::rig::{open, options};

const VENDORS: [Vendor; 3] = [Vendor::S3, Vendor::Azure, Vendor::Google];
/// Patience with a server that is away.
const SHORT: Duration = Duration::from_millis(300);

/// Makes one test of the whole suite with large values in one vendor's store.
macro_rules! suite {
    ($name:ident, $vendor:expr) => {
        mod $name {
            use std::sync::LazyLock;

            use skillopt_queue::conformance::Rig;
            use skillopt_queue::conformance::server::{ObjectServer, Server, Vendor};

            static SERVERS: LazyLock<(Server, ObjectServer)> =
                LazyLock::new(|| (Server::redis(), ObjectServer::start($vendor)));

            async fn make() -> Rig {
                let (redis, objects) = &*SERVERS;
                crate::rig::rig_with(&redis.url(), super::keeping(objects.site())).await
            }

            skillopt_queue::conformance!(in one: make);
        }
    };
}

suite!(on_s3, Vendor::S3);
suite!(on_azure, Vendor::Azure);
suite!(on_google, Vendor::Google);

/// Options with large values at a place.
fn keeping(site: Site) -> Options {
    Options {
        objects: Some(site),
        ..options()
    }
}

async fn stored(redis: &Server, site: Site, patience: Duration) -> RedisStore {
    let options = Options {
        unreachable_max: patience,
        ..keeping(site)
    };
    open(&redis.url(), options).await.1
}

/// Returns the words of an error that shows no secret.
#[track_caller]
fn said<T>(answer: Result<T, Error>) -> String {
    let error = answer.map(|_| ()).expect_err("it cannot work");
    let text = format!("{error} {error:?}");
    for secret in ObjectServer::secrets() {
        assert!(!text.contains(&secret[..12]), "{text}");
    }
    assert!(text.len() < 1_000, "no page of an answer: {text}");
    text
}

#[tokio::test]
async fn a_place_is_tried_out_before_work_begins() {
    let redis = Server::redis();
    for vendor in VENDORS {
        let server = ObjectServer::start(vendor);
        let check = async |site| stored(&redis, site, SHORT).await.check().await;
        assert_eq!(check(server.site()).await, Ok(()), "{vendor:?}");

        let url = server.url_of("nowhere");
        let nowhere = said(check(Site::new(&url, server.settings())).await);
        assert!(nowhere.contains("no such bucket"), "{vendor:?}: {nowhere}");
        assert!(nowhere.contains(&url), "{vendor:?}: {nowhere}");

        let wrong = Site::new(&server.url(), server.wrong_settings());
        let wrong = check(wrong).await;
        assert!(wrong.is_err(), "{vendor:?} takes a wrong secret");
        let refused = said(wrong);
        assert!(refused.contains("credentials"), "{vendor:?}: {refused}");
        assert!(refused.contains("environment"), "{vendor:?}: {refused}");

        server.kill();
        let away = said(check(server.site()).await);
        assert!(away.contains("is it up"), "{vendor:?}: {away}");
    }
}

/// A bucket that goes away while it is used is not an absent value: it would be made again, and
/// paid for again.
#[tokio::test]
async fn a_bucket_that_is_gone_is_no_absence() {
    let redis = Server::redis();
    for vendor in VENDORS {
        let server = ObjectServer::start(vendor);
        let options = keeping(server.site());
        let (_, store) = open(&redis.url(), options.clone()).await;
        let hash = store.put_blob(noise(1 << 20)).await.unwrap();
        let elsewhere = Site::new(&server.url_of("nowhere"), server.settings());
        let options = Options {
            objects: Some(elsewhere),
            ..options
        };
        let (_, store) = open(&redis.url(), options).await;
        let text = said(store.blobs(&[hash]).await);
        assert!(text.contains("no such bucket"), "{vendor:?}: {text}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_waited_for_and_loses_nothing() {
    let redis = Server::redis();
    for vendor in VENDORS {
        let server = ObjectServer::start(vendor);
        let own = keeping(server.site());
        let with = async |patience| {
            let options = Options {
                unreachable_max: patience,
                ..own.clone()
            };
            open(&redis.url(), options).await.1
        };
        let store = with(Duration::from_secs(60)).await;
        let before = noise(300 << 10);
        let hash = store.put_blob(before.clone()).await.unwrap();
        server.kill();

        // Who has little patience hears what is wrong, and stores nothing that is half there.
        let (impatient, other) = (with(SHORT).await, noise(200 << 10));
        let text = said(impatient.put_blob(other.clone()).await);
        assert!(text.contains("is it up"), "{vendor:?}: {text}");
        let other_hash = skillopt_core::hash::Hash::of(&other);
        assert_eq!(store.missing(&[other_hash]).await, Ok(vec![other_hash]));
        let text = said(impatient.blob(hash).await);
        assert!(text.contains("is it up"), "{vendor:?}: {text}");

        // Who has more gets through once it is back.
        let during = noise(100 << 10);
        let waiting = {
            let (store, during) = (store.clone(), during.clone());
            tokio::spawn(async move { store.put_blob(during).await })
        };
        server.restart();
        let late = waiting.await.unwrap().unwrap();
        let found = store.blobs(&[hash, late]).await.unwrap();
        assert!(found == [Some(before), Some(during)], "{vendor:?}");
    }
}

#[tokio::test]
async fn no_credential_comes_to_redis() {
    for vendor in VENDORS {
        let (redis, server) = (Server::redis(), ObjectServer::start(vendor));
        // Or else it answers up to two seconds before it writes, while the disk is slow.
        drop(redis.ask(&["CONFIG", "SET", "appendfsync", "always"]));
        let store = stored(&redis, server.site(), SHORT).await;
        store.put_blob(noise(100 << 10)).await.unwrap();
        // Everything that was ever written.
        let mut files = 0;
        for file in std::fs::read_dir(redis.dir().join("appendonlydir")).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(ObjectServer::secrets()[0]), "{vendor:?}");
            files += usize::from(text.contains(":b:"));
        }
        assert!(files > 0, "its log was found");
    }
}

#[test]
fn settings_that_cannot_be_used_are_not_repeated() {
    let account = r#"{"private_key": "hunter2-hunter2", "client_email": ["hunter2-hunter2"]}"#;
    for (url, settings) in [
        ("gs://b/x", vec![("GOOGLE_SERVICE_ACCOUNT_KEY", account)]),
        (
            "gs://b/x",
            vec![("GOOGLE_SERVICE_ACCOUNT_KEY", r#""hunter2-hunter2""#)],
        ),
        (
            "az://b/x",
            vec![
                ("AZURE_STORAGE_ACCOUNT_NAME", "a"),
                ("AZURE_STORAGE_ACCOUNT_KEY", "hunter2-hunter2"),
            ],
        ),
        (
            "az://b/x",
            vec![
                ("AZURE_STORAGE_ACCOUNT_NAME", "a"),
                ("AZURE_STORAGE_SAS_TOKEN", "hunter2-hunter2"),
            ],
        ),
        ("az://b/x", Vec::new()),
    ] {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let site = Site::new(url, settings.iter().map(own));
        let opened = Objects::open(&site, SHORT).map(|_| ());
        let error = opened.expect_err("it cannot be opened");
        let text = format!("{error} {error:?} {site:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(matches!(error, store::Error::Io { place, .. } if place == url));
        assert!(text.contains("environment"), "{text}");
    }
}
