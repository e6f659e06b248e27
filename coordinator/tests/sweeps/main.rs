//! Whole sweeps in this process: the real training loop, queue and worker, a simulated model.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod hall;
mod wire;

use std::collections::BTreeMap;

use skillopt_coordinator::sweep::desk::Caller;
use skillopt_coordinator::sweep::record::Sweep;
use skillopt_coordinator::sweep::results::Results;
use skillopt_coordinator::sweep::runs::Wish;
use skillopt_queue::ledger::Caps;

use crate::hall::{Hall, caller};

const FOUR: &str = "models: [{name: strong, model: {target: sim-target}}, \
     {name: weak, model: {target: sim-target, sim: {p_rule: 0.6}}}]\n  seeds: [1, 2]\n";

fn by_name(results: &Results) -> BTreeMap<&str, &skillopt_coordinator::sweep::results::CellResult> {
    results
        .cells
        .iter()
        .map(|cell| (cell.cell.as_str(), cell))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_cells_share_their_baselines_and_a_later_sweep_asks_nothing() {
    let hall = Hall::new();
    let (sweep, existed) = hall.submit("first", FOUR).await;
    assert!(!existed && sweep.cells.len() == 4);
    let sweep = hall.finish(&sweep.id).await;
    let (results, observed) = hall.sweeps.results(&sweep).await.unwrap();
    assert_eq!(results.counts.finished, 4, "{results:?}");
    assert_eq!(results.counts.labelled, 4);
    assert_eq!(results.state, "completed");
    let used = results.tokens.calls;
    let made = hall.calls();
    // Cells that differ in the seed measure the same starting skill on val and test, once.
    let baseline = (hall::VAL + hall::TEST) as u64;
    assert!(
        made + 2 * baseline <= used,
        "{made} calls made, {used} answers used"
    );
    assert_eq!(observed.calls_used, used);
    for cell in &results.cells {
        let (best, baseline) = (cell.best.unwrap(), cell.baseline.unwrap());
        assert!((cell.lift.unwrap().mean - (best - baseline)).abs() < 1e-9);
        assert_eq!(cell.arms.len(), 2);
        assert_eq!(cell.cost_usd, None, "nobody knows the price");
        assert!(
            cell.cost_usd_missing_reason
                .as_ref()
                .unwrap()
                .contains("price")
        );
    }
    let (again, existed) = hall.submit("first", FOUR).await;
    assert!(
        existed && again.id == sweep.id,
        "the same key is the same sweep"
    );
    let (later, existed) = hall.submit("later", FOUR).await;
    assert!(!existed && later.id != sweep.id);
    let later = hall.finish(&later.id).await;
    assert_eq!(hall.calls(), made, "every answer was there");
    let (same, _) = hall.sweeps.results(&later).await.unwrap();
    assert_eq!(
        serde_json::to_string(&same).unwrap(),
        serde_json::to_string(&results).unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_cell_says_why_and_is_run_again_alone() {
    let hall = Hall::new();
    hall.fail_once("weak/searchqa/chat#1");
    let (sweep, _) = hall.submit("fails", FOUR).await;
    let sweep = hall.finish(&sweep.id).await;
    let (results, _) = hall.sweeps.results(&sweep).await.unwrap();
    let cells = by_name(&results);
    let failed = cells["weak/searchqa/chat#1"];
    assert_eq!(failed.state, "failed");
    assert_eq!(failed.cause.as_deref(), Some("the disk is on fire"));
    assert_eq!(
        (failed.label.as_deref(), failed.lift, failed.best),
        (None, None, None)
    );
    assert_eq!(
        failed.label_missing_reason.as_deref(),
        Some("the cell is failed")
    );
    assert_eq!((results.counts.finished, results.counts.failed), (3, 1));
    assert!(
        results.headline.ends_with("of 3 finished cells."),
        "{}",
        results.headline
    );
    let begun = hall.begun();
    let caller = caller();
    for (name, want) in [
        ("strong/searchqa/chat#1", "only failed and cancelled"),
        (
            "weak/searchqa/chat#3",
            "did you mean `weak/searchqa/chat#1`",
        ),
    ] {
        let error = hall
            .sweeps
            .retry(&caller, &sweep.id, &[name.to_owned()])
            .await
            .unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
    }
    let again = hall.sweeps.retry(&caller, &sweep.id, &[]).await.unwrap();
    assert_eq!(hall.sweeps.state(&again).await.unwrap().0, "running");
    let sweep = hall.finish(&sweep.id).await;
    assert_eq!(
        hall.begun(),
        begun + 1,
        "one run, the others are left alone"
    );
    let (results, observed) = hall.sweeps.results(&sweep).await.unwrap();
    assert_eq!(results.counts.finished, 4);
    let retries: Vec<u32> = observed.cells.iter().map(|cell| cell.retries).collect();
    assert_eq!(retries, [0, 0, 1, 0]);
    let error = hall
        .sweeps
        .retry(&caller, &sweep.id, &[])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("nothing to run again"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_skill_is_tried_in_the_other_cells_of_its_benchmark() {
    let hall = Hall::new();
    let keys = format!(
        "{FOUR}  transfer: true\n  arms: [no_skill, starting_skill, {{name: by hand, skill: hand.md}}]\n"
    );
    let (sweep, _) = hall.submit("transfer", &keys).await;
    let sweep = hall.finish(&sweep.id).await;
    let (results, _) = hall.sweeps.results(&sweep).await.unwrap();
    let transfer = results.transfer.as_ref().unwrap();
    let pairs: Vec<(&str, &str)> = transfer
        .iter()
        .map(|t| (t.from.as_str(), t.to.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("strong/searchqa/chat#1", "weak/searchqa/chat#1"),
            ("strong/searchqa/chat#2", "weak/searchqa/chat#2"),
            ("weak/searchqa/chat#1", "strong/searchqa/chat#1"),
            ("weak/searchqa/chat#2", "strong/searchqa/chat#2"),
        ]
    );
    for one in transfer {
        let (score, baseline) = (one.score.unwrap(), one.baseline.unwrap());
        assert!(
            (one.lift.unwrap().mean - (score - baseline)).abs() < 1e-9,
            "{one:?}"
        );
    }
    for cell in &results.cells {
        let names: Vec<&str> = cell.arms.iter().map(|arm| arm.arm.as_str()).collect();
        assert_eq!(names, ["no skill", "starting skill", "by hand"]);
        assert!(cell.arms.iter().all(|arm| arm.lift.is_some()), "{cell:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeats_have_answers_of_their_own() {
    let hall = Hall::new();
    let keys = "models: [{name: one, model: {target: sim-target}}]\n  repeats: 2\n";
    let (sweep, _) = hall.submit("repeats", keys).await;
    let sweep = hall.finish(&sweep.id).await;
    let (results, _) = hall.sweeps.results(&sweep).await.unwrap();
    let names: Vec<&str> = results
        .cells
        .iter()
        .map(|cell| cell.cell.as_str())
        .collect();
    assert_eq!(names, ["one/searchqa/chat@1", "one/searchqa/chat@2"]);
    assert_eq!(results.counts.labelled, 2, "{results:?}");
    assert_eq!(hall.calls(), results.tokens.calls, "no answer was shared");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_is_paused_goes_on_and_is_cancelled() {
    let hall = Hall::new();
    hall.hold();
    let (sweep, _) = hall.submit("held", FOUR).await;
    hall.look(&sweep.id).await;
    assert_eq!(hall.states(), ["queued"; 4]);
    let wish = async |wish| {
        let caps = Caps::default();
        hall.sweeps
            .wish(&caller(), &sweep.id, wish, caps)
            .await
            .unwrap();
        hall.look(&sweep.id).await
    };
    let paused = wish(Wish::Pause).await;
    assert_eq!(hall.states(), ["paused"; 4]);
    let (state, cause) = hall.sweeps.state(&paused).await.unwrap();
    assert_eq!(
        (state.as_str(), cause.as_str()),
        ("paused", "paused by a person")
    );
    let resumed = wish(Wish::Run).await;
    assert_eq!(hall.states(), ["queued"; 4]);
    assert_eq!(hall.sweeps.state(&resumed).await.unwrap().0, "running");
    let cancelled = wish(Wish::Cancel).await;
    assert_eq!(hall.states(), ["cancelled"; 4]);
    let cancelled = if cancelled.ended_ms == 0 {
        hall.look(&sweep.id).await
    } else {
        cancelled
    };
    let (results, _) = hall.sweeps.results(&cancelled).await.unwrap();
    assert_eq!(
        (results.state.as_str(), results.counts.cancelled),
        ("cancelled", 4)
    );
    let error = hall
        .sweeps
        .wish(&caller(), &sweep.id, Wish::Pause, Caps::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_is_submitted_again_keeps_the_caps_that_it_got_since() {
    let hall = Hall::new();
    hall.hold();
    let tokens = |n| Caps {
        tokens: Some(n),
        ..Caps::default()
    };
    let mut new = hall.new_sweep("capped", FOUR).await;
    new.caps = tokens(5);
    let (sweep, _) = hall.sweeps.submit(&caller(), new.clone()).await.unwrap();
    hall.sweeps
        .wish(&caller(), &sweep.id, Wish::Run, tokens(50))
        .await
        .unwrap();
    let (_, existed) = hall.sweeps.submit(&caller(), new).await.unwrap();
    assert!(existed);
    let purse = [format!("sweep/{}", sweep.id)];
    let balances = hall.ledger.balances(&purse).await.unwrap();
    assert_eq!(balances[0].caps, tokens(50));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_the_lease_brings_a_sweep_on() {
    let hall = Hall::new();
    hall.hold();
    let (sweep, _) = hall.submit("lease", FOUR).await;
    let path = Sweep::path(&sweep.id);
    let ttl = std::time::Duration::from_secs(60);
    let held = hall.board.acquire(&path, "other", ttl).await.unwrap();
    assert!(held.is_some());
    hall.look(&sweep.id).await;
    assert_eq!(hall.begun(), 0);
    hall.board.release(&path, "other").await.unwrap();
    hall.look(&sweep.id).await;
    assert_eq!(hall.begun(), 4);
    hall.look(&sweep.id).await;
    assert_eq!(hall.begun(), 4, "looking again begins nothing anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_has_ended_is_nobodys() {
    let hall = Hall::new();
    let (sweep, _) = hall.submit("over", FOUR).await;
    hall.finish(&sweep.id).await;
    // The mark goes with the next look, which takes the right to do that.
    hall.look(&sweep.id).await;
    let holder = hall.board.holder(&Sweep::path(&sweep.id)).await.unwrap();
    assert_eq!(holder, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_at_once() {
    let hall = Hall::new();
    let new = hall.new_sweep("bad", FOUR).await;
    let refuse = async |change: &dyn Fn(&mut skillopt_coordinator::sweep::submit::NewSweep)| {
        let mut bad = new.clone();
        change(&mut bad);
        hall.sweeps
            .submit(&caller(), bad)
            .await
            .unwrap_err()
            .to_string()
    };
    for (want, text) in [
        (
            "1 to 128 bytes",
            refuse(&|new| new.client_key.clear()).await,
        ),
        ("1 to 1000 cells", refuse(&|new| new.cells.clear()).await),
        (
            "two cells",
            refuse(&|new| new.cells[1].name = new.cells[0].name.clone()).await,
        ),
        (
            "lacks a name",
            refuse(&|new| new.cells[0].model.clear()).await,
        ),
        (
            "upload it",
            refuse(&|new| new.cells[0].bundle = skillopt_core::Hash::of(b"nothing")).await,
        ),
        (
            "price of the target's model",
            refuse(&|new| new.caps.micro_usd = Some(5)).await,
        ),
        (
            "`correct`",
            refuse(&|new| new.spec["correct"] = "both".into()).await,
        ),
        (
            "`arms` cannot be read",
            refuse(&|new| new.spec["arms"] = 5.into()).await,
        ),
        ("weight", refuse(&|new| new.weight = 5_000).await),
    ] {
        assert!(text.contains(want), "{want}: {text}");
    }
    hall.sweeps.submit(&caller(), new).await.unwrap();
    let foreign = Caller {
        tenant: "other".to_owned(),
        ..caller()
    };
    assert!(hall.sweeps.list(&foreign, "", 10).await.unwrap().is_empty());
    let all = hall.sweeps.list(&caller(), "", 10).await.unwrap();
    assert_eq!(all.len(), 1);
    let id = &all[0].id;
    assert!(hall.sweeps.get(&foreign, id).await.is_err());
    assert_eq!(hall.sweeps.get(&caller(), &id[..6]).await.unwrap().id, *id);
}
