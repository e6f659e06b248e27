//! In a bad hour of a provider the ledger counts every call once, whatever became of it, and nothing
//! stays held.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use skillopt_backends::conformance::crowd::{self, Crowd, Fate};
use skillopt_backends::conformance::kits;
use skillopt_backends::{Http, Outcome};
use tokio::net::TcpListener;

use super::*;

/// Says how many calls are made; `cargo xtask bench backends` wants more.
const HOW_MANY: &str = "SKILLOPT_SOAK";
const CALLS: u64 = 2_000;
/// Callers at once.
const WIDTH: u64 = 64;
/// Far more than a call takes that is answered, for only those that hang reach it.
const LIMIT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_a_bad_hour_is_counted_once() {
    let calls = std::env::var(HOW_MANY).ok();
    let calls = calls.map_or(CALLS, |calls| calls.parse().expect("a number of calls"));
    let kit = kits::OPENAI_COMPATIBLE;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let body = (kit.wire.answer)("Paris").to_string();
    let server = Crowd::new(&body, Duration::ZERO, Fate::in_a_bad_hour);
    let (serving, mut care) = (Arc::clone(&server), JoinSet::new());
    care.spawn(async move { serve(&serving, &listener).await });

    let rig = Arc::new(Rig::new(true));
    let caps = Caps {
        requests: Some(calls * 2),
        ..Caps::default()
    };
    rig.ledger.set_caps("run/r1", caps).await.unwrap();
    let ticker = Arc::clone(&rig);
    care.spawn(async move { ticker.meter.run().await });
    let mut request = kit.request();
    request.timeout = LIMIT;
    let request = Arc::new(request);
    let client = kit.client_at(&url, &Http::new());
    let (begun, mut callers) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
    for _ in 0..WIDTH {
        let (rig, begun) = (Arc::clone(&rig), Arc::clone(&begun));
        let (client, request) = (Arc::clone(&client), Arc::clone(&request));
        callers.spawn(async move {
            loop {
                let number = begun.fetch_add(1, Ordering::SeqCst);
                if number >= calls {
                    break;
                }
                make(&rig, client.as_ref(), &request, number).await;
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    care.shutdown().await;
    rig.meter.flush().await.unwrap();

    assert_eq!(server.requests(), calls, "no call is made twice");
    let expected = crowd::expected(calls);
    let count = |outcome: Outcome| expected.get(&outcome).copied().unwrap_or(0);
    let price = rig.payer.price;
    let (whole, most) = (cost::spent(kit.wire.usage, price), worst(&request, price));
    // Nobody knows how long an answer was whose end nobody has seen.
    let unseen = count(Outcome::ConnectionFailed) + count(Outcome::TimedOut);
    let dollars = count(Outcome::Answer) * whole.micro_usd + unseen * most.micro_usd;
    for purse in ["run/r1", "tenant/t1"] {
        let balance = rig.balance(purse).await;
        assert_eq!(balance.reserved, Amount::default(), "{purse}");
        let spent = (balance.spent.requests, balance.spent.micro_usd);
        assert_eq!(spent, (calls, dollars), "{purse}");
        let tallies = rig.ledger.tallies(&[purse.to_owned()]).await.unwrap();
        let words = expected.iter();
        let words: BTreeMap<String, u64> = words
            .map(|(outcome, n)| (outcome.as_str().to_owned(), *n))
            .collect();
        assert_eq!(tallies[0].total().outcomes, words, "{purse}");
    }
}

async fn serve(server: &Arc<Crowd>, listener: &TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let server = Arc::clone(server);
        connections.spawn(async move { server.serve(stream).await });
        while connections.try_join_next().is_some() {}
    }
}

/// Makes one call, as often as it is held up before, as a job does that goes back to its queue.
async fn make(rig: &Rig, client: &dyn ChatModel, request: &ChatRequest, number: u64) {
    for delivery in 0_u64.. {
        let id = format!("{number}/{delivery}");
        let which = Which {
            id: &id,
            payer: Some(&rig.payer),
            profile: &rig.profile,
            hedge_permille: 0,
        };
        match rig.meter.call(which, client, request).await {
            Metered::Made(_) => return,
            Metered::Not(Instead::Later { failure, .. }) if failure.cause.contains("HTTP 429") => {
                return;
            }
            Metered::Not(Instead::Later { wait, .. }) => tokio::time::sleep(wait).await,
            Metered::Not(Instead::Refused(failure)) => panic!("{}", failure.cause),
        }
    }
}
