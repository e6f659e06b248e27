//! What is lost on the way, or by the server, is made good.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use skillopt_queue::conformance::server::{Cluster, Sentinels, Server};
use skillopt_queue::conformance::{job, key};
use skillopt_queue::queue::{Failure, Limits, Queue, Renewal, Which};
use skillopt_queue::redis::{Options, RedisQueue};
use skillopt_queue::{Ended, Lane, Leased, Notices, RunId, Store as _, TestClock, Want};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::proxy::Proxy;
use crate::rig::{open, options};

const TTL: Duration = Duration::from_secs(30);

fn want(max: usize) -> Want {
    Want {
        worker: "w1".into(),
        lanes: vec![Lane::new("chat")],
        max,
        ttl: TTL,
    }
}

async fn lease(queue: &RedisQueue, max: usize) -> Vec<Leased> {
    let drain = CancellationToken::new();
    queue.lease(want(max), &drain).await.unwrap()
}

/// Leases what there is for a worker.
async fn lease_as(queue: &RedisQueue, worker: &str, max: usize) -> Vec<Leased> {
    let want = Want {
        worker: worker.into(),
        ..want(max)
    };
    let drain = CancellationToken::new();
    let leased = queue.lease(want, &drain);
    // Nothing comes where nothing is left.
    let leased = tokio::time::timeout(Duration::from_secs(1), leased).await;
    leased.map(Result::unwrap).unwrap_or_default()
}

fn failure() -> Failure {
    Failure {
        cause: "no".into(),
        detail: Bytes::new(),
    }
}

/// The job that brings its workers down is buried alone, however many jobs they held with it.
#[tokio::test]
async fn who_dies_of_one_job_takes_no_other_with_it() {
    let server = Server::redis();
    let clock = Arc::new(TestClock::new());
    let set = Options {
        clock: Some(clock.clone()),
        ..options()
    };
    let (queue, _store) = open(&server.url(), set).await;
    let names = ["a", "b", "c", "d", "bad"];
    let mut notices = queue.submit(names.map(job).to_vec()).await.unwrap();
    let mut done = 0;
    for worker in 0..12 {
        let name = format!("w{worker}");
        let leased = lease_as(&queue, &name, 9).await;
        if leased.is_empty() {
            break;
        }
        if leased.iter().any(|leased| leased.ticket.key == key("bad")) {
            // It dies before anything else is done, with all that it holds.
            clock.advance(TTL);
            continue;
        }
        for leased in leased {
            queue.complete(leased.ticket, "x".into()).await.unwrap();
            done += 1;
        }
    }
    assert_eq!(done, 4);
    let mut dead = Vec::new();
    while notices.remaining() > 0 {
        for notice in notices.next(9).await.unwrap() {
            if let Ended::Failed(letter) = notice.ended {
                dead.push((notice.key, letter.losses));
            }
        }
    }
    assert_eq!(dead, [(key("bad"), 3)]);
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_is_done_once() {
    let server = Server::redis();
    // The server learns the scripts, so that each call below is one call.
    let (direct, _) = open(&server.url(), options()).await;
    let _notices = direct
        .submit(vec![job("a"), job("b"), job("c")])
        .await
        .unwrap();
    let leased = lease(&direct, 3).await;
    direct.complete(leased[0].ticket, "x".into()).await.unwrap();
    direct.renew(&[leased[1].ticket], TTL).await.unwrap();
    direct.cancel(&RunId::new("r1"), Which::All).await.unwrap();
    direct.stats().await.unwrap();

    let proxy = Proxy::start(server.port()).await;
    let (queue, store) = open(&server.url_at(proxy.port), options()).await;
    let names = ["a", "b", "c", "d", "e"];
    proxy.lose_next();
    let mut notices = queue.submit(names.map(job).to_vec()).await.unwrap();
    assert!(proxy.is_done());
    assert_eq!(queue.stats().await.unwrap().queued, 5);

    proxy.lose_next();
    let leased = lease(&queue, 4).await;
    assert!(proxy.is_done());
    let keys: Vec<_> = leased.iter().map(|leased| leased.ticket.key).collect();
    assert_eq!(keys, ["a", "b", "c", "d"].map(key));
    assert!(leased.iter().all(|leased| leased.deliveries == 1));
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.queued, stats.leased), (1, 4));

    proxy.lose_next();
    let renewed = queue.renew(&[leased[0].ticket], TTL).await.unwrap();
    assert!(matches!(renewed[..], [Renewal::Held(_)]));
    assert!(proxy.is_done());

    proxy.lose_next();
    let completed = queue
        .complete(leased[0].ticket, "one".into())
        .await
        .unwrap();
    assert!(completed.is_first && proxy.is_done());
    assert_eq!(
        store.results(&[key("a")]).await.unwrap(),
        [Some("one".into())]
    );

    proxy.lose_next();
    queue.give_up(leased[1].ticket, failure()).await.unwrap();
    assert!(proxy.is_done());

    proxy.lose_next();
    assert_eq!(queue.hand_back(&[leased[2].ticket]).await, Ok(1));
    assert!(proxy.is_done());

    proxy.lose_next();
    queue
        .retry(leased[3].ticket, Duration::ZERO, "busy")
        .await
        .unwrap();
    assert!(proxy.is_done());
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.queued, stats.leased, stats.dead), (3, 0, 1));
    assert_eq!((stats.refused, stats.losses), (0, 0));
    let again = lease(&queue, 9).await;
    let retries: Vec<_> = again.iter().map(|leased| leased.retries).collect();
    assert_eq!(retries, [0, 1, 0]);

    proxy.lose_next();
    queue.cancel(&RunId::new("r1"), Which::All).await.unwrap();
    assert!(proxy.is_done());
    for leased in &again {
        leased.cancelled.cancelled().await;
    }
    let mut ends = [0; 3];
    while notices.remaining() > 0 {
        for notice in notices.next(9).await.unwrap() {
            match notice.ended {
                Ended::Result(_) => ends[0] += 1,
                Ended::Failed(_) => ends[1] += 1,
                Ended::Cancelled => ends[2] += 1,
            }
        }
    }
    assert_eq!(ends, [1, 1, 3]);
}

/// A worker that answers each job with its text, until it is dropped.
fn work(queue: RedisQueue) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let queue = Arc::new(queue);
        loop {
            let drain = CancellationToken::new();
            // A server that is away for too long is asked again.
            let Ok(leased) = queue.lease(want(8), &drain).await else {
                continue;
            };
            for leased in leased {
                // A lease that was lost with the server goes to somebody else.
                drop(queue.complete(leased.ticket, leased.job).await);
            }
        }
    });
    tasks
}

async fn gather(mut notices: Notices, count: usize, mut half_way: impl FnMut()) {
    let mut told = 0;
    while notices.remaining() > 0 {
        for notice in notices.next(16).await.unwrap() {
            let Ended::Result(result) = notice.ended else {
                panic!("job {} ended otherwise: {:?}", notice.key, notice.ended)
            };
            assert_eq!(notice.key, key(std::str::from_utf8(&result).unwrap()));
            let before = told;
            told += 1;
            if before < count / 2 && told >= count / 2 {
                half_way();
            }
        }
    }
    assert_eq!(told, count);
}

fn roomy() -> Options {
    Options {
        limits: Limits::default(),
        ask_after: Duration::from_millis(200),
        ..options()
    }
}

async fn goes_on(url: &str, count: usize, half_way: impl FnMut()) {
    let options = roomy();
    let (queue, _) = open(url, options.clone()).await;
    let (other, _) = open(url, options).await;
    let _worker = work(other);
    let names: Vec<String> = (0..count).map(|i| format!("job {i}")).collect();
    let jobs = names.iter().map(|name| job(name)).collect();
    let notices = queue.submit(jobs).await.unwrap();
    gather(notices, count, half_way).await;
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.queued, stats.delayed), (0, 0));
}

#[tokio::test]
async fn the_queue_goes_on_after_a_restart() {
    let server = Server::redis();
    goes_on(&server.url(), 400, || {
        server.kill();
        server.restart();
    })
    .await;
}

#[tokio::test]
async fn a_server_that_lost_everything_gets_the_jobs_again() {
    let server = Server::redis();
    goes_on(&server.url(), 100, || {
        let _ = server.ask(&["FLUSHALL"]);
    })
    .await;
}

#[tokio::test]
async fn the_queue_goes_on_after_a_failover() {
    let sentinels = Sentinels::start();
    goes_on(&sentinels.url(), 200, || sentinels.master().kill()).await;
}

#[tokio::test]
async fn the_queue_goes_on_after_a_failover_behind_passwords() {
    let sentinels = Sentinels::locked();
    goes_on(&sentinels.url(), 200, || sentinels.master().kill()).await;
}

#[tokio::test]
async fn the_queue_goes_on_when_a_node_of_a_cluster_is_replaced() {
    let cluster = Cluster::with_replicas();
    // The node of the scripts dies; then its successor freezes, which closes no connection.
    let mut ways = ["KILL", "STOP"].into_iter();
    for _ in 0..2 {
        let way = ways.next().unwrap();
        goes_on(&cluster.url(), 200, || {
            let node = cluster.master_of("skillopt:{q}:c");
            match way {
                "KILL" => node.kill(),
                other => node.send(other),
            }
        })
        .await;
        if way == "KILL" {
            let is_down = |node: &&Server| node.try_ask(&["PING"]).is_err();
            cluster.nodes().find(is_down).unwrap().restart();
            cluster.until_whole();
        }
    }
}

#[tokio::test]
async fn the_queue_works_across_the_nodes_of_a_cluster() {
    let cluster = Cluster::start();
    goes_on(&cluster.url(), 200, || {}).await;
    let (_, store) = open(&cluster.url(), options()).await;
    let blobs: Vec<Bytes> = (0..60).map(|i| format!("blob {i}").into()).collect();
    let hashes = store.put_blobs(blobs.clone()).await.unwrap();
    let found: Option<Vec<Bytes>> = store.blobs(&hashes).await.unwrap().into_iter().collect();
    assert_eq!(found.unwrap(), blobs);
    for node in cluster.nodes() {
        // They are spread.
        assert!(matches!(node.ask(&["DBSIZE"]), redis::Value::Int(1..)));
    }
}

#[tokio::test]
async fn a_lease_of_a_worker_that_is_gone_goes_to_one_that_waits() {
    let server = Server::redis();
    let options = options();
    let (queue, _) = open(&server.url(), options.clone()).await;
    let _notices = queue.submit(vec![job("a")]).await.unwrap();
    let (gone, _) = open(&server.url(), options.clone()).await;
    let short = Want {
        ttl: Duration::from_millis(300),
        ..want(1)
    };
    let first = gone.lease(short, &CancellationToken::new()).await.unwrap();
    drop(gone);
    let second = lease(&queue, 1).await;
    assert_eq!((first[0].deliveries, second[0].deliveries), (1, 2));
    assert!(first[0].ticket.fence < second[0].ticket.fence);
    assert_eq!(queue.stats().await.unwrap().losses, 1);
}

/// Makes the last call look as if it had been three seconds ago, as after an outage of the server.
fn was_away(server: &Server, namespace: &str) {
    let redis::Value::Array(time) = server.ask(&["TIME"]) else {
        panic!("no time")
    };
    let redis::Value::BulkString(seconds) = &time[0] else {
        panic!("no seconds")
    };
    let seconds: u64 = std::str::from_utf8(seconds).unwrap().parse().unwrap();
    let last = (seconds * 1_000 - 3_000).to_string();
    let _ = server.ask(&["HSET", &format!("{namespace}:{{q}}:c"), "t", &last]);
}

#[tokio::test]
async fn leases_that_ran_out_while_the_server_was_away_still_count() {
    let server = Server::redis();
    let options = options();
    let (queue, _) = open(&server.url(), options.clone()).await;
    let names = ["a", "b", "c"];
    let _notices = queue.submit(names.map(job).to_vec()).await.unwrap();
    let short = Want {
        ttl: Duration::from_millis(1),
        ..want(3)
    };
    let drain = CancellationToken::new();
    let leased = queue.lease(short, &drain).await.unwrap();
    was_away(&server, &options.namespace);
    let done = queue.complete(leased[0].ticket, "one".into()).await;
    assert!(done.unwrap().is_first);
    let renewed = queue.renew(&[leased[1].ticket], TTL).await.unwrap();
    assert!(matches!(renewed[..], [Renewal::Held(_)]));
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.losses, stats.refused, stats.leased), (0, 0, 2));

    // Whoever is gone for good is found out after the time of grace.
    let again = lease(&queue, 1).await;
    assert_eq!(again[0].ticket.key, leased[2].ticket.key);
    assert_eq!(queue.stats().await.unwrap().losses, 1);
}

#[tokio::test]
async fn a_queue_that_is_rarely_used_takes_leases_back() {
    let server = Server::redis();
    let options = options();
    let (queue, _) = open(&server.url(), options.clone()).await;
    let _notices = queue.submit(vec![job("a")]).await.unwrap();
    was_away(&server, &options.namespace);
    // The time of grace that begins here is over; the next one may not begin yet.
    queue.stats().await.unwrap();
    let till = format!("{}:{{q}}:c", options.namespace);
    let redis::Value::BulkString(end) = server.ask(&["HGET", &till, "g"]) else {
        panic!("no time of grace")
    };
    let end: u64 = std::str::from_utf8(&end).unwrap().parse().unwrap();
    let _ = server.ask(&["HSET", &till, "g", &(end - 6_000).to_string()]);
    let short = Want {
        ttl: Duration::from_millis(1),
        ..want(1)
    };
    let drain = CancellationToken::new();
    let leased = queue.lease(short, &drain).await.unwrap();
    was_away(&server, &options.namespace);
    let late = queue.complete(leased[0].ticket, "one".into()).await;
    assert!(late.is_err());
    assert_eq!(queue.stats().await.unwrap().losses, 1);
}
