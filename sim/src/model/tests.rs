use super::*;
use crate::settings::Settings;

fn model(pairs: &[&str]) -> SimulatedModel {
    SimulatedModel::new(Settings::from_pairs(pairs.iter().copied()).expect("settings"))
}

fn task(id: usize) -> String {
    format!("[[sim item=i{id} fam=K00 gold=calm otter {id}]]\n")
}

fn call(user: &str) -> Call<'_> {
    Call {
        sys: "skill",
        user,
        model: "m",
        n_messages: 2,
        stage: None,
    }
}

/// Makes `rounds` calls for each item, in an order, and returns the outcomes by item and round.
async fn outcomes(pairs: &[&str], order: &[usize], rounds: usize) -> Vec<Vec<Outcome>> {
    let model = model(pairs);
    let mut all = vec![Vec::new(); order.len()];
    for _ in 0..rounds {
        for item in order {
            all[*item].push(model.exchange(&call(&task(*item))).await);
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn neither_order_nor_attempt_changes_a_reply() {
    let faults = ["p429=0.2", "p500=0.2", "preset=0.2", "latency=uniform:1,9"];
    let forward: Vec<usize> = (0..30).collect();
    let backward: Vec<usize> = (0..30).rev().collect();
    let seen = outcomes(&faults, &forward, 4).await;
    assert_eq!(seen, outcomes(&faults, &backward, 4).await);

    let plain = model(&[]);
    for (item, rounds) in seen.iter().enumerate() {
        let expected = plain.reply(&call(&task(item)));
        for outcome in rounds {
            if let Outcome::Text(reply) = outcome {
                assert_eq!(*reply, expected);
            }
        }
    }
    // A retry draws anew: some items fail first and succeed later.
    let is_text = |o: &Outcome| matches!(o, Outcome::Text(_));
    let is_recovered = |rounds: &&Vec<Outcome>| !is_text(&rounds[0]) && rounds.iter().any(is_text);
    assert!(seen.iter().filter(is_recovered).count() > 5);
    let failed = seen.iter().flatten().filter(|o| !is_text(o)).count();
    assert!(
        (54..=90).contains(&failed),
        "60 % of 120 calls fail, not {failed}"
    );
}

#[tokio::test(start_paused = true)]
async fn statistics_count_repeats_of_answered_work_only() {
    let seen = model(&["pgarbage=1"]);
    let user = task(0);
    let Outcome::Text(garbage) = seen.exchange(&call(&user)).await else {
        panic!("garbage is a text");
    };
    assert_eq!(garbage.text, GARBAGE);
    seen.configure(Settings::default());
    for _ in 0..3 {
        seen.exchange(&call(&user)).await;
    }
    let stats = seen.stats();
    assert_eq!((stats.calls, stats.repeats, stats.keys), (4, 2, 1));
    assert_eq!(stats.ok.get(&Stage::Target), Some(&3));
    assert_eq!(stats.statuses.get(&200), Some(&4));
    seen.reset();
    let after = seen.stats();
    assert_eq!((after.calls, after.keys, after.in_flight), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn limits_refuse_with_429() {
    let full = model(&["max-inflight=1", "latency=fixed:10", "retry-after=3"]);
    let (a, b) = (task(0), task(1));
    let (a, b) = (call(&a), call(&b));
    let (first, second) = tokio::join!(full.exchange(&a), full.exchange(&b));
    assert!(matches!(first, Outcome::Text(_)));
    assert_eq!(second, Outcome::Throttled(Some(3)));
    assert_eq!(full.stats().in_flight_max, 2);

    let busy = model(&["rps=2"]);
    let mut refused = 0;
    for round in 0..2 {
        for i in 0..5 {
            let outcome = busy.exchange(&call(&task(i + 10 * round))).await;
            refused += usize::from(outcome == Outcome::Throttled(None));
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(refused, 6);
}

#[tokio::test(start_paused = true)]
async fn latencies_may_differ_between_target_and_optimizer() {
    let model = model(&["latency-target=fixed:20", "latency-optimizer=fixed:90"]);
    let timed = async |user: &str| {
        let start = tokio::time::Instant::now();
        model.exchange(&call(user)).await;
        start.elapsed().as_millis() / 10
    };
    assert_eq!([timed(&task(0)).await, timed("hello").await], [2, 9]);
}
