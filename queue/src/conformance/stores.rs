//! What is stored stays.

use bytes::Bytes;
use skillopt_core::hash::Hash;

use super::{Rig, job, key, next, noise};
use crate::message::RunId;
use crate::notice::Ended;
use crate::store::{EVENT_BYTES_MAX, Error};

/// Equal content has one name, in one call or two; empty content is content.
pub async fn blobs_are_stored_once(rig: &Rig) {
    let (a, b, empty) = (
        Bytes::from_static(b"a"),
        Bytes::from_static(b"b"),
        Bytes::new(),
    );
    let blobs = vec![a.clone(), b.clone(), a.clone(), empty.clone()];
    let hashes = rig.store.put_blobs(blobs).await.expect("a write");
    assert_eq!(
        hashes,
        [Hash::of(&a), Hash::of(&b), Hash::of(&a), Hash::of(&empty)]
    );
    assert_eq!(rig.store.put_blob(a.clone()).await, Ok(hashes[0]));
    let unknown = Hash::of(b"unknown");
    let found = rig
        .store
        .blobs(&[hashes[3], unknown, hashes[1]])
        .await
        .expect("a read");
    assert_eq!(found, [Some(empty), None, Some(b)]);
    let asked = [unknown, hashes[0], hashes[3], unknown, hashes[1]];
    let missing = rig.store.missing(&asked).await.expect("a look");
    assert_eq!(missing, [unknown, unknown]);
    assert_eq!(rig.store.missing(&[]).await, Ok(Vec::new()));
    assert_eq!(rig.store.blob(hashes[0]).await, Ok(a));
    assert!(matches!(
        rig.store.blob(unknown).await,
        Err(Error::Lost { .. })
    ));
}

/// The first writer wins, and is told so.
pub async fn results_are_never_overwritten(rig: &Rig) {
    assert_eq!(rig.store.put_result(key("a"), "one".into()).await, Ok(true));
    assert_eq!(
        rig.store.put_result(key("a"), "two".into()).await,
        Ok(false)
    );
    assert_eq!(
        rig.store.put_result(key("a"), "one".into()).await,
        Ok(false)
    );
    let found = rig
        .store
        .results(&[key("b"), key("a")])
        .await
        .expect("a read");
    assert_eq!(found, [None, Some(Bytes::from_static(b"one"))]);
    assert_eq!(rig.store.results(&[]).await, Ok(Vec::new()));
}

/// The same event again is no event; another one under its number is an error, as is a hole.
pub async fn events_are_idempotent(rig: &Rig) {
    let run = RunId::new("r1");
    let append = |seq, event: &'static str| rig.store.append_event(&run, seq, event.into());
    assert_eq!(append(0, "start").await, Ok(()));
    assert_eq!(append(0, "start").await, Ok(()));
    assert_eq!(
        append(0, "other").await,
        Err(Error::Conflict {
            run: run.clone(),
            seq: 0
        })
    );
    assert_eq!(
        append(2, "end").await,
        Err(Error::Gap {
            run: run.clone(),
            seq: 2,
            next: 1
        })
    );
    assert_eq!(append(1, "step").await, Ok(()));
    assert_eq!(append(0, "start").await, Ok(()));
    let events = rig.store.events(&run, 0, 9).await.expect("a read");
    assert_eq!(events, ["start", "step"]);
}

/// A reader that comes back gets what it has not seen.
pub async fn events_are_read_from_anywhere(rig: &Rig) {
    let run = RunId::new("r1");
    for (seq, event) in ["a", "b", "c", "d"].into_iter().enumerate() {
        rig.store
            .append_event(&run, seq as u64, event.into())
            .await
            .expect("a write");
    }
    for (from, max, expected) in [
        (0, 2, &["a", "b"][..]),
        (2, 9, &["c", "d"]),
        (3, 1, &["d"]),
        (4, 9, &[]),
        (u64::MAX, usize::MAX, &[]),
        (0, 0, &[]),
    ] {
        assert_eq!(
            rig.store.events(&run, from, max).await.expect("a read"),
            expected
        );
    }
}

/// Runs have separate logs; an unknown run has an empty one.
pub async fn logs_do_not_mix(rig: &Rig) {
    let (one, two) = (RunId::new("r1"), RunId::new("r1/x"));
    rig.store
        .append_event(&one, 0, "one".into())
        .await
        .expect("a write");
    rig.store
        .append_event(&two, 0, "two".into())
        .await
        .expect("a write");
    assert_eq!(rig.store.events(&one, 0, 9).await.expect("a read"), ["one"]);
    assert_eq!(rig.store.events(&two, 0, 9).await.expect("a read"), ["two"]);
    assert!(
        rig.store
            .events(&RunId::new("r"), 0, 9)
            .await
            .expect("a read")
            .is_empty()
    );
}

/// What is too long is refused, not cut.
pub async fn limits_are_kept(rig: &Rig) {
    let run = RunId::new("r1");
    let long = Bytes::from(vec![b' '; EVENT_BYTES_MAX + 1]);
    let error = rig
        .store
        .append_event(&run, 0, long.clone())
        .await
        .expect_err("too long");
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let longest = long.slice(1..);
    assert_eq!(rig.store.append_event(&run, 0, longest).await, Ok(()));
}

/// What does not fit into one call is a blob, or a result, like any other.
pub async fn large_values_are_kept_as_small_ones_are(rig: &Rig) {
    let (large, small) = (noise(1 << 20), Bytes::from_static(b"small"));
    let blobs = vec![large.clone(), small.clone(), large.clone()];
    let hashes = rig.store.put_blobs(blobs).await.expect("a write");
    assert_eq!(hashes[0], Hash::of(&large));
    assert_eq!(rig.store.put_blob(large.clone()).await, Ok(hashes[0]));
    let unknown = Hash::of(b"unknown");
    let asked = [hashes[1], unknown, hashes[0]];
    let found = rig.store.blobs(&asked).await.expect("a read");
    assert_eq!(found, [Some(small), None, Some(large.clone())]);
    assert_eq!(rig.store.missing(&asked).await, Ok(vec![unknown]));

    let (first, second) = (large.slice(1..), large.slice(2..));
    let put = |result: &Bytes| rig.store.put_result(key("a"), result.clone());
    assert_eq!(put(&first).await, Ok(true));
    assert_eq!(put(&second).await, Ok(false));
    let found = rig.store.results(&[key("a")]).await.expect("a read");
    assert_eq!(found, [Some(first)]);

    // From a worker to whoever waits.
    let mut notices = rig.submit([job("b")]).await;
    let leased = rig.lease_one().await;
    let done = rig.queue.complete(leased.ticket, second.clone()).await;
    assert!(done.expect("a completion").is_first);
    match next(&mut notices, "b").await {
        Ended::Result(told) => assert!(told == second, "the result came whole"),
        other => panic!("expected a result, got {other:?}"),
    }
}
