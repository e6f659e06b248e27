//! Values that do not fit into one call.

use std::time::Duration;

use bytes::Bytes;
use skillopt_core::hash::Hash;
use skillopt_queue::conformance::server::Server;
use skillopt_queue::conformance::{job, key, noise};
use skillopt_queue::object::{Objects, Site};
use skillopt_queue::redis::Options;
use skillopt_queue::{Ended, Lane, Queue as _, Store as _, Want, store};
use tokio_util::sync::CancellationToken;

use crate::rig::{open, options};

#[tokio::test]
async fn large_values_go_in_parts() {
    let server = Server::redis();
    let (queue, store) = open(&server.url(), options()).await;
    let value = noise(5 << 20);
    let hash = store.put_blob(value.clone()).await.unwrap();
    assert_eq!(store.blob(hash).await.unwrap(), value);

    // A result as well, from the worker to whoever waits.
    let mut notices = queue.submit(vec![job("a")]).await.unwrap();
    let want = Want {
        worker: "w1".into(),
        lanes: vec![Lane::new("chat")],
        max: 1,
        ttl: Duration::from_secs(30),
    };
    let leased = queue.lease(want, &CancellationToken::new()).await.unwrap();
    let result = value.slice(1..);
    queue
        .complete(leased[0].ticket, result.clone())
        .await
        .unwrap();
    let notice = notices.next(1).await.unwrap().remove(0);
    assert!(matches!(notice.ended, Ended::Result(told) if told == result));
    assert_eq!(store.results(&[key("a")]).await.unwrap(), [Some(result)]);

    // A part that is gone: the blob is not there, and can be stored again.
    let keys = server.ask(&["KEYS", &format!("*:b:{hash}:3")]);
    let redis::Value::Array(keys) = keys else {
        panic!("a list")
    };
    let name: String = redis::from_redis_value(keys[0].clone()).unwrap();
    let _ = server.ask(&["DEL", &name]);
    assert_eq!(store.blobs(&[hash]).await.unwrap(), [None]);
    assert_eq!(store.missing(&[hash]).await.unwrap(), [hash]);
    store.put_blob(value.clone()).await.unwrap();
    assert_eq!(store.blob(hash).await.unwrap(), value);
    assert_eq!(store.missing(&[hash]).await.unwrap(), []);

    // A part that is another's is not believed.
    let _ = server.ask(&["SET", &name, "x"]);
    let error = store.blob(hash).await.unwrap_err();
    assert!(matches!(error, store::Error::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn large_values_go_to_the_object_store() {
    let server = Server::redis();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("objects");
    let objects = format!("file://{}", folder.display());
    let options = Options {
        objects: Some(Site::new(&objects, [])),
        ..options()
    };
    let (_, store) = open(&server.url(), options.clone()).await;
    let (large, small) = (noise(1 << 20), Bytes::from_static(b"small"));
    let hashes = store
        .put_blobs(vec![large.clone(), small.clone()])
        .await
        .unwrap();
    assert_eq!(store.put_result(key("a"), large.slice(7..)).await, Ok(true));
    let file = folder.join(format!("blobs/{}", hashes[0]));
    assert!(file.exists());
    assert!(!folder.join(format!("blobs/{}", hashes[1])).exists());

    let (_, other) = open(&server.url(), options.clone()).await;
    assert_eq!(
        other.blobs(&hashes).await.unwrap(),
        [Some(large.clone()), Some(small)]
    );
    assert_eq!(
        other.results(&[key("a")]).await.unwrap(),
        [Some(large.slice(7..))]
    );
    let without = Options {
        objects: None,
        ..options
    };
    let (_, without) = open(&server.url(), without).await;
    let error = without.blob(hashes[0]).await.unwrap_err();
    assert_eq!(without.missing(&hashes).await.unwrap_err(), error);
    assert!(error.to_string().contains("object store"), "{error}");

    std::fs::write(&file, b"\0damaged").unwrap();
    let error = other.blob(hashes[0]).await.unwrap_err();
    assert!(matches!(error, store::Error::Corrupt { .. }), "{error}");
    assert_eq!(other.missing(&hashes).await.unwrap(), []);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(other.missing(&hashes).await.unwrap(), hashes[..1]);
    assert_eq!(other.blobs(&hashes[..1]).await.unwrap(), [None]);
}

/// A node of a cluster may die with the content, while another still has the name of the result.
#[tokio::test]
async fn a_result_without_its_content_can_be_made_again() {
    let server = Server::redis();
    let (queue, store) = open(&server.url(), options()).await;
    let value = noise(1 << 20);
    let lose = |value: &Bytes| {
        let keys = server.ask(&["KEYS", &format!("*:b:{}", Hash::of(value))]);
        let redis::Value::Array(keys) = keys else {
            panic!("a list")
        };
        let name: String = redis::from_redis_value(keys[0].clone()).unwrap();
        let _ = server.ask(&["DEL", &name]);
    };
    assert_eq!(store.put_result(key("a"), value.clone()).await, Ok(true));
    lose(&value);
    // Who asks for the job hears of it once, and then it is done anew.
    let mut notices = queue.submit(vec![job("a")]).await.unwrap();
    assert!(matches!(
        notices.next(1).await,
        Err(store::Error::Lost { .. })
    ));
    assert_eq!(store.results(&[key("a")]).await.unwrap(), [None]);
    let _notices = queue.submit(vec![job("a")]).await.unwrap();
    assert_eq!(queue.stats().await.unwrap().queued, 1);

    // What lies in an object store is found there again.
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let options = Options {
        objects: Some(Site::new(&url, [])),
        ..options()
    };
    let (_, store) = open(&server.url(), options).await;
    let value = value.slice(1..);
    assert_eq!(store.put_result(key("a"), value.clone()).await, Ok(true));
    lose(&value);
    let found = store.results(&[key("a")]).await.unwrap();
    assert_eq!(found, [Some(value.clone())]);
    // Gone there as well, it is not given up: a wrong place may have been named.
    std::fs::remove_dir_all(dir.path().join("blobs")).unwrap();
    let error = store.results(&[key("a")]).await.unwrap_err();
    assert!(error.to_string().contains("object store"), "{error}");
    assert_eq!(store.put_result(key("a"), value).await, Ok(false));
}

#[tokio::test]
async fn others_are_served_while_200_mb_travel() {
    let server = Server::redis();
    let (queue, store) = open(&server.url(), options()).await;
    let value = noise(200 << 20);
    let (to_store, from) = (value.clone(), store.clone());
    let storing = tokio::spawn(async move { from.put_blob(to_store).await });
    let mut rounds = 0;
    while !storing.is_finished() {
        queue.stats().await.unwrap();
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(rounds > 20, "{rounds} calls came through meanwhile");
    let hash = storing.await.unwrap().unwrap();
    assert_eq!(hash, Hash::of(&value));
    assert_eq!(store.blob(hash).await.unwrap(), value);
}

#[test]
fn addresses_of_object_stores_are_checked() {
    for url in [
        "/folder",
        "file://folder",
        "http://x/y",
        "s3://key:hunter2@bucket/x",
        "s3:/x",
        "s3://bucket/x?secret=hunter2",
        "gs://bucket/x#hunter2",
        "abfss://key:hunter2@account/x",
    ] {
        let opened = Objects::open(&Site::new(url, []), Duration::ZERO);
        let text = opened.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("s3://BUCKET/FOLDER"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
