//! Sweep files through the real program: what is planned, and what is refused before anything is
//! sent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod common;

use common::Place;
use serde_json::Value;

const TWO_BY_TWO: &str = "sweep:\n  base: run.yaml\n  models:\n    - {name: large, model: {target: sim-target}}\n    \
    - {name: small, model: {target: sim-target, sim: {p_rule: 0.7}}}\n  benchmarks: [searchqa]\n  seeds: [1, 2]\n";

fn plan(place: &Place, sweep: &str) -> Value {
    place.write("sweep.yaml", sweep);
    let seen = place.run("submit sweep.yaml --dry-run --json");
    assert_eq!(seen.code, 0, "{seen:?}");
    let plan: Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!(plan["type"], "plan");
    plan
}

#[test]
fn a_dry_run_says_what_a_sweep_needs_and_what_cells_share() {
    let place = Place::with_data();
    let both = plan(&place, TWO_BY_TWO);
    let names: Vec<&str> = both["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["cell"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "large/searchqa/chat#1",
            "large/searchqa/chat#2",
            "small/searchqa/chat#1",
            "small/searchqa/chat#2"
        ]
    );
    // Cells that differ in the seed alone start from equal measurements.
    let asked = both["starting_rollouts"].as_u64().unwrap();
    assert_eq!(both["starting_rollouts_shared"].as_u64(), Some(asked / 2));
    assert!(both["cost_usd_about"].is_null());
    assert_eq!(both["cost_usd_missing_reason"], "price unknown");
    let one = plan(&place, &TWO_BY_TWO.replace("seeds: [1, 2]", "seeds: [1]"));
    let calls = |plan: &Value| plan["target_calls_max"].as_u64().unwrap();
    assert_eq!(calls(&both), 2 * calls(&one));
    assert_eq!(one["starting_rollouts_shared"], 0);
    assert_eq!(
        one["cells"][0]["bundle"], both["cells"][0]["bundle"],
        "the same cell"
    );
    let words = place.run("submit sweep.yaml --dry-run");
    assert!(
        words.out.starts_with("sweep sweep: 2 cells (2 models"),
        "{words:?}"
    );
    assert!(words.out.contains("price unknown"), "{words:?}");
    assert_eq!(words.err, "");
}

#[test]
fn repeats_and_transfers_are_counted() {
    let place = Place::with_data();
    let sweep = format!("{TWO_BY_TWO}  repeats: 2\n  transfer: true\n");
    let all = plan(&place, &sweep);
    let cells = all["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8);
    assert_ne!(
        cells[0]["bundle"], cells[1]["bundle"],
        "a repeat has answers of its own"
    );
    let test = cells[0]["test_items"].as_u64().unwrap();
    // Each of the eight may try the skill of one other cell: same seed, same repeat.
    assert_eq!(all["transfer_calls_max"].as_u64(), Some(8 * test));
}

#[test]
fn every_cell_that_cannot_be_run_is_named() {
    let place = Place::with_data();
    for (from, to, wants) in [
        (
            "benchmarks: [searchqa]",
            "benchmarks: [searchqa, docvqa, serchqa]",
            vec![
                "cells large/docvqa/chat#1, large/docvqa/chat#2, small/docvqa/chat#1, small/docvqa/chat#2",
                "cells large/serchqa/chat#1",
                "did you mean `searchqa`",
            ],
        ),
        (
            "seeds: [1, 2]",
            "harnesses: [chat, curser_exec]",
            vec!["did you mean `cursor_exec`"],
        ),
        (
            "seeds: [1, 2]",
            "cells: [{match: 'small/*/*', evaluation: {eval_test: false}, env: {scope: fresh}}]",
            vec![
                "cell small/searchqa/chat: `evaluation.eval_test`",
                "cell small/searchqa/chat: `env.scope`",
            ],
        ),
        (
            "seeds: [1, 2]",
            "arms: [no_skill, {name: mine, skill: none.md}]",
            vec!["`sweep.arms: mine`", "sweep.yaml:"],
        ),
        (
            "seeds: [1, 2]",
            "seeds: [1]\n  modles: [x]",
            vec!["did you mean `models`"],
        ),
    ] {
        place.write("sweep.yaml", &TWO_BY_TWO.replace(from, to));
        let seen = place.run("submit sweep.yaml --dry-run");
        assert_eq!((seen.code, seen.out.as_str()), (2, ""), "{seen:?}");
        for want in wants {
            assert!(seen.err.contains(want), "{want:?} is not in\n{}", seen.err);
        }
    }
}

#[test]
fn the_examples_that_are_shipped_can_be_planned() {
    let place = Place::new();
    for (dir, cells) in [("mini", 4), ("paper-52", 52)] {
        let names = match dir {
            "mini" => &["one", "two"][..],
            _ => &[
                "searchqa",
                "spreadsheetbench",
                "officeqa",
                "docvqa",
                "livemath",
                "alfworld",
            ],
        };
        for name in names {
            let made = place.run(&format!(
                "sim data data/sim/{name} --train 8 --val 4 --test 4 -q"
            ));
            assert_eq!(made.code, 0, "{made:?}");
        }
        let file = format!(
            "{}/../configs/sweeps/{dir}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let seen = place.run(&format!("submit {file} --dry-run --json"));
        assert_eq!(seen.code, 0, "{seen:?}");
        let plan: Value = serde_json::from_str(&seen.out).unwrap();
        assert_eq!(plan["cells"].as_array().unwrap().len(), cells);
    }
}
