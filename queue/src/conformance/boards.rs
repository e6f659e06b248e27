//! Of two writers one wins; of two holders there is one.

use std::time::Duration;

use bytes::Bytes;

use super::{BoardRig, MS, TTL};
use crate::board::{Error, Expect, Held, PATH_BYTES_MAX, RECORD_BYTES_MAX};
use crate::message::Fence;
use crate::store;

impl BoardRig {
    async fn put(&self, path: &str, value: &str, expect: Expect) -> Result<u64, Error> {
        let value = Bytes::copy_from_slice(value.as_bytes());
        self.board.put(path, value, expect, None).await
    }

    async fn put_for(&self, path: &str, life: Duration) -> u64 {
        let put = self
            .board
            .put(path, "x".into(), Expect::Any, Some(life))
            .await;
        put.expect("a write")
    }

    /// The value and the version of a record.
    async fn get(&self, path: &str) -> Option<(Bytes, u64)> {
        let record = self.board.get(path).await.expect("a read")?;
        assert_eq!(record.path, path);
        Some((record.value, record.version))
    }

    async fn paths(&self, prefix: &str, after: &str, max: usize) -> Vec<String> {
        let listed = self.board.list(prefix, after, max).await.expect("a list");
        listed.into_iter().map(|record| record.path).collect()
    }

    async fn acquire(&self, holder: &str) -> Option<Held> {
        self.board
            .acquire("run/1", holder, TTL)
            .await
            .expect("a try")
    }

    async fn must_acquire(&self, holder: &str) -> Held {
        self.acquire(holder).await.expect("the lease is free")
    }
}

fn conflict(path: &str, found: u64) -> Error {
    let path = path.to_owned();
    Error::Conflict { path, found }
}

fn too_large(error: &Error) -> bool {
    matches!(error, Error::Store(store::Error::TooLarge { .. }))
}

/// 1, 2, 3: whatever the writer expects, if it is met.
pub async fn versions_grow_with_each_write(rig: &BoardRig) {
    assert_eq!(rig.get("a").await, None);
    assert_eq!(rig.put("a", "one", Expect::Absent).await, Ok(1));
    assert_eq!(rig.put("a", "two", Expect::Any).await, Ok(2));
    assert_eq!(rig.put("a", "two", Expect::Version(2)).await, Ok(3));
    assert_eq!(rig.get("a").await, Some(("two".into(), 3)));
    assert_eq!(rig.put("b", "one", Expect::Any).await, Ok(1));
}

/// Who has not seen the last version writes and removes nothing, and hears what is there.
pub async fn one_of_two_writers_loses(rig: &BoardRig) {
    assert_eq!(
        rig.put("a", "one", Expect::Version(1)).await,
        Err(conflict("a", 0))
    );
    assert_eq!(rig.put("a", "one", Expect::Absent).await, Ok(1));
    assert_eq!(
        rig.put("a", "two", Expect::Absent).await,
        Err(conflict("a", 1))
    );
    assert_eq!(rig.put("a", "two", Expect::Version(1)).await, Ok(2));
    assert_eq!(
        rig.put("a", "three", Expect::Version(1)).await,
        Err(conflict("a", 2))
    );
    let deleted = rig.board.delete("a", Expect::Version(1)).await;
    assert_eq!(deleted, Err(conflict("a", 2)));
    assert_eq!(rig.get("a").await, Some(("two".into(), 2)));
}

/// At its end a record is gone; a write without an end takes the end away.
pub async fn a_record_ends_with_its_life(rig: &BoardRig) {
    rig.put_for("worker/1", TTL).await;
    rig.put_for("worker/2", TTL).await;
    rig.put_for("worker/3", TTL).await;
    rig.clock.advance(TTL - MS);
    assert_eq!(rig.put_for("worker/2", TTL).await, 2, "it goes on living");
    assert_eq!(rig.put("worker/3", "y", Expect::Any).await, Ok(2));
    assert!(rig.get("worker/1").await.is_some());
    rig.clock.advance(MS);
    assert_eq!(rig.get("worker/1").await, None);
    assert_eq!(rig.paths("", "", 9).await, ["worker/2", "worker/3"]);
    assert_eq!(rig.put("worker/1", "z", Expect::Absent).await, Ok(1));
    rig.clock.advance(TTL * 9);
    assert_eq!(rig.paths("", "", 9).await, ["worker/1", "worker/3"]);
}

/// After a removal the first write is the first.
pub async fn a_deleted_record_begins_anew(rig: &BoardRig) {
    assert_eq!(rig.board.delete("a", Expect::Any).await, Ok(()));
    assert_eq!(rig.board.delete("a", Expect::Absent).await, Ok(()));
    for _ in 0..2 {
        assert_eq!(rig.put("a", "one", Expect::Absent).await, Ok(1));
        assert_eq!(rig.put("a", "two", Expect::Version(1)).await, Ok(2));
        assert_eq!(rig.board.delete("a", Expect::Version(2)).await, Ok(()));
        assert_eq!(rig.get("a").await, None);
        assert_eq!(rig.paths("", "", 9).await, [""; 0]);
    }
}

/// A reader gets pages of what begins with a prefix, and nothing twice.
pub async fn lists_are_in_order_and_paged(rig: &BoardRig) {
    for path in [
        "run/3", "run/1", "runs", "run", "run/2", "sweep/1", "run/20",
    ] {
        rig.put(path, path, Expect::Any).await.expect("a write");
    }
    let all = ["run/1", "run/2", "run/20", "run/3"];
    assert_eq!(rig.paths("run/", "", 9).await, all);
    assert_eq!(rig.paths("run/", "", 2).await, all[..2]);
    assert_eq!(rig.paths("run/", "run/2", 9).await, all[2..]);
    assert_eq!(rig.paths("run/", "run/25", 9).await, all[3..]);
    assert_eq!(rig.paths("run/", "run/3", 9).await, [""; 0]);
    assert_eq!(rig.paths("run/", "sweep", 9).await, [""; 0]);
    assert_eq!(rig.paths("run/", "", 0).await, [""; 0]);
    assert_eq!(rig.paths("", "", 99).await.len(), 7);
    let listed = rig.board.list("run/3", "", 9).await.expect("a list");
    assert_eq!(listed[0].value, "run/3");
    assert_eq!(listed[0].version, 1);
}

/// No sign has a meaning in a prefix, and any text is a path.
pub async fn a_prefix_is_taken_literally(rig: &BoardRig) {
    let paths = ["a*", "a?", "a[b", "aé", "a\u{10ffff}", "ab", "b"];
    for path in paths {
        rig.put(path, "x", Expect::Any).await.expect("a write");
    }
    assert_eq!(rig.paths("a*", "", 9).await, ["a*"]);
    assert_eq!(rig.paths("a[", "", 9).await, ["a[b"]);
    assert_eq!(rig.paths("aé", "", 9).await, ["aé"]);
    assert_eq!(rig.paths("a\u{10ffff}", "", 9).await, ["a\u{10ffff}"]);
    assert_eq!(rig.paths("a", "", 9).await.len(), 6);
}

/// Zeros, line ends and nothing at all come back as they were.
pub async fn any_bytes_are_a_value(rig: &BoardRig) {
    for value in [&b""[..], b"\0\xff\r\n 7", b"3 0\n", &[0; 70_000]] {
        let value = Bytes::copy_from_slice(value);
        let put = rig.board.put("a", value.clone(), Expect::Any, None).await;
        let version = put.expect("a write");
        assert_eq!(rig.get("a").await, Some((value, version)));
    }
}

/// The longest is taken, one byte more is not, and says so.
pub async fn what_is_too_long_is_refused(rig: &BoardRig) {
    let long = Bytes::from(vec![b' '; RECORD_BYTES_MAX + 1]);
    let error = rig.board.put("a", long.clone(), Expect::Any, None).await;
    assert!(too_large(&error.expect_err("too long")));
    let put = rig.board.put("a", long.slice(1..), Expect::Any, None).await;
    assert_eq!(put, Ok(1));
    let path = "p".repeat(PATH_BYTES_MAX + 1);
    let error = rig.put(&path, "x", Expect::Any).await;
    assert!(too_large(&error.expect_err("too long")));
    assert_eq!(rig.put(&path[1..], "x", Expect::Any).await, Ok(1));
}

/// Somebody else's lease is not to be had, and is not given up by others.
pub async fn a_lease_has_one_holder(rig: &BoardRig) {
    assert_eq!(rig.board.holder("run/1").await, Ok(None));
    rig.must_acquire("c1").await;
    assert_eq!(rig.acquire("c2").await, None);
    assert_eq!(rig.board.release("run/1", "c2").await, Ok(()));
    assert_eq!(rig.board.holder("run/1").await, Ok(Some("c1".to_owned())));
    let other = rig.board.acquire("run/2", "c2", TTL).await;
    assert!(other.expect("a try").is_some(), "leases are separate");
}

/// Its holder may ask again and again.
pub async fn a_lease_is_renewed_with_its_fence(rig: &BoardRig) {
    let first = rig.must_acquire("c1").await;
    for _ in 0..3 {
        rig.clock.advance(TTL - MS);
        let again = rig.must_acquire("c1").await;
        assert_eq!(again.fence, first.fence);
        assert_eq!(
            Ok(again.expires_at),
            rig.board.now().await.map(|now| now.plus(TTL))
        );
    }
}

/// At its end it is free, for everybody.
pub async fn a_lease_ends_by_the_boards_clock(rig: &BoardRig) {
    let first = rig.must_acquire("c1").await;
    rig.clock.advance(TTL - MS);
    assert_eq!(rig.acquire("c2").await, None);
    rig.clock.advance(MS);
    assert_eq!(rig.board.now().await, Ok(first.expires_at));
    assert_eq!(rig.board.holder("run/1").await, Ok(None));
    let again = rig.must_acquire("c1").await;
    assert!(again.fence > first.fence, "it was nobody's for a while");
}

/// Giving it up frees it at once.
pub async fn a_released_lease_is_free(rig: &BoardRig) {
    assert_eq!(rig.board.release("run/1", "c1").await, Ok(()));
    rig.must_acquire("c1").await;
    assert_eq!(rig.board.release("run/1", "c1").await, Ok(()));
    assert_eq!(rig.board.holder("run/1").await, Ok(None));
    rig.must_acquire("c2").await;
}

/// However it changes hands.
pub async fn fences_grow_with_each_change_of_hands(rig: &BoardRig) {
    let mut last = Fence(0);
    for turn in 0..6 {
        let holder = format!("c{}", turn % 2);
        let held = rig.must_acquire(&holder).await;
        assert!(held.fence > last);
        last = held.fence;
        if turn % 3 == 0 {
            rig.clock.advance(TTL);
        } else {
            let released = rig.board.release("run/1", &holder).await;
            assert_eq!(released, Ok(()));
        }
    }
}

/// Split brain: one that was frozen while another took over cannot write, whatever it expects.
pub async fn a_late_holder_writes_nothing(rig: &BoardRig) {
    let write = |fence| {
        let board = &rig.board;
        async move {
            let value = Bytes::from_static(b"x");
            board
                .put_fenced("step/1", value, Expect::Any, "run/1", fence)
                .await
        }
    };
    let refused = || {
        let name = "run/1".to_owned();
        Err(Error::NotHolder { name })
    };
    assert_eq!(write(Fence(0)).await, refused(), "nobody has it");
    let first = rig.must_acquire("c1").await;
    assert_eq!(write(first.fence).await, Ok(1));
    let late = rig
        .board
        .put_fenced("step/1", "y".into(), Expect::Absent, "run/1", first.fence)
        .await;
    assert_eq!(late, Err(conflict("step/1", 1)), "expectations count too");
    rig.clock.advance(TTL);
    assert_eq!(write(first.fence).await, refused(), "it is over");
    let second = rig.must_acquire("c2").await;
    assert_eq!(write(first.fence).await, refused(), "it is another's");
    assert_eq!(write(Fence(second.fence.0 + 1)).await, refused());
    assert_eq!(rig.get("step/1").await, Some(("x".into(), 1)));
    assert_eq!(write(second.fence).await, Ok(2));
    assert_eq!(rig.board.release("run/1", "c2").await, Ok(()));
    assert_eq!(write(second.fence).await, refused(), "it was given up");
}

/// Of many that ask at the same moment one gets it.
pub async fn many_ask_for_one_lease(rig: &BoardRig) {
    let names: Vec<String> = (0..32).map(|i| format!("c{i}")).collect();
    let asks = names.iter().map(|name| rig.acquire(name));
    let got = futures_util::future::join_all(asks).await;
    assert_eq!(got.iter().flatten().count(), 1);
}

/// Of many that count up together none is lost.
pub async fn many_writers_lose_no_write(rig: &BoardRig) {
    const WRITERS: usize = 16;
    let count_up = || async {
        loop {
            let (value, version) = rig.get("n").await.unwrap_or((Bytes::from_static(b"0"), 0));
            let n: usize = String::from_utf8_lossy(&value).parse().expect("a number");
            let expect = match version {
                0 => Expect::Absent,
                version => Expect::Version(version),
            };
            match rig.put("n", &(n + 1).to_string(), expect).await {
                Ok(_) => return,
                Err(Error::Conflict { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
    };
    futures_util::future::join_all((0..WRITERS).map(|_| count_up())).await;
    let expected = (WRITERS.to_string().into(), WRITERS as u64);
    assert_eq!(rig.get("n").await, Some(expected));
}
