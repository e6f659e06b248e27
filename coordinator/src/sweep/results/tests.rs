use std::sync::Arc;

use super::super::observed::{CellObserved, Observed};
use super::super::table;
use super::*;

/// Scores item by item, from a line of hits.
fn hits(line: &str) -> Scores {
    let scores: Vec<f64> = line
        .chars()
        .map(|c| f64::from(u8::from(c == '1')))
        .collect();
    Ok(Arc::from(scores))
}

/// `n` items of which the first `hit` are hits.
fn of(hit: usize, n: usize) -> Scores {
    hits(&("1".repeat(hit) + &"0".repeat(n - hit)))
}

fn cell(name: &str, start: Scores, best: Scores) -> CellFacts {
    let parts: Vec<&str> = name.split('/').collect();
    CellFacts {
        cell: name.to_owned(),
        model: parts[0].to_owned(),
        benchmark: parts[1].to_owned(),
        harness: parts[2].to_owned(),
        seed: 42,
        repeat: 0,
        state: "improved".to_owned(),
        cause: String::new(),
        arms: vec![("starting skill".to_owned(), start.clone())],
        start,
        best,
        tokens: Some([row(10, 1_000), row(2, 500)]),
        cost: Ok(1_500_000),
    }
}

fn row(calls: u64, tokens: u64) -> TokenRow {
    TokenRow {
        calls,
        prompt_tokens: tokens,
        ..TokenRow::default()
    }
}

fn stopped(name: &str, state: &str, cause: &str) -> CellFacts {
    let missing = || Err(Missing::because(format!("the cell is {state}")));
    CellFacts {
        state: state.to_owned(),
        cause: cause.to_owned(),
        tokens: None,
        cost: Err(Missing::because(format!("the cell is {state}"))),
        ..cell(name, missing(), missing())
    }
}

fn facts(cells: Vec<CellFacts>) -> Facts {
    Facts {
        name: "test".to_owned(),
        state: "running".to_owned(),
        arms: vec!["starting skill".to_owned()],
        cells,
        ..Facts::default()
    }
}

#[test]
fn a_label_says_what_the_interval_says() {
    for (start, best, want) in [
        (of(10, 100), of(60, 100), "best"),
        (of(60, 100), of(10, 100), "worse"),
        (of(50, 100), of(51, 100), "tied"),
        (of(50, 100), of(50, 100), "tied"),
        (hits("0000"), hits("1111"), "best"),
        (hits("0000"), hits("1100"), "tied"),
    ] {
        let results = Results::of(&facts(vec![cell("m/b/chat", start, best)]));
        assert_eq!(results.cells[0].label.as_deref(), Some(want));
    }
}

#[test]
fn every_arm_counts() {
    let mut one = cell("m/b/chat", of(10, 100), of(60, 100));
    one.arms.push(("by hand".to_owned(), of(55, 100)));
    let mut lost = cell("m/c/chat", of(10, 100), of(60, 100));
    lost.arms.push(("by hand".to_owned(), of(95, 100)));
    let mut open = cell("m/d/chat", of(10, 100), of(60, 100));
    open.arms
        .push(("by hand".to_owned(), Err(Missing::because("provider down"))));
    let results = Results::of(&facts(vec![one, lost, open]));
    // Five hits more of a hundred, and none less: better for sure.
    assert_eq!(results.cells[0].label.as_deref(), Some("best"));
    assert_eq!(results.cells[1].label.as_deref(), Some("worse"));
    assert_eq!(results.cells[2].label, None);
    assert_eq!(
        results.cells[2].label_missing_reason.as_deref(),
        Some("by hand: provider down")
    );
    assert!(results.cells[2].lift.is_some(), "what is known is shown");
    assert_eq!(results.headline, "Best or tied in 1 of 2 finished cells.");
    assert!(
        results.second.contains("1 finished without a label."),
        "{}",
        results.second
    );
}

#[test]
fn what_is_missing_has_a_reason_and_is_never_a_number() {
    let results = Results::of(&facts(vec![
        cell("m/b/chat", of(40, 100), of(50, 100)),
        stopped("m/c/chat", "failed", "the disk is full"),
        stopped("m/d/chat", "paused", "provider down"),
        stopped("m/e/chat", "waiting", ""),
        stopped("m/f/chat", "running", ""),
        stopped("m/g/chat", "cancelled", ""),
        cell("m/h/chat", hits("1"), hits("1")),
    ]));
    let failed = serde_json::to_value(&results.cells[1]).unwrap();
    for name in ["label", "baseline", "best", "lift", "tokens", "cost_usd"] {
        assert!(failed[name].is_null(), "{name} is {}", failed[name]);
    }
    assert_eq!(failed["cause"], "the disk is full");
    assert_eq!(failed["lift_missing_reason"], "the cell is failed");
    assert_eq!(failed["cost_usd_missing_reason"], "the cell is failed");
    let counts = results.counts;
    let sum = counts.finished
        + counts.running
        + counts.waiting
        + counts.paused
        + counts.failed
        + counts.cancelled;
    assert_eq!((counts.cells, sum), (7, 7));
    assert_eq!((counts.finished, counts.labelled), (2, 1));
    assert_eq!(results.cells[6].baseline, Some(1.0));
    assert!(
        results.cells[6]
            .label_missing_reason
            .as_ref()
            .unwrap()
            .contains("two test items")
    );
    let none = Results::of(&facts(vec![stopped("m/c/chat", "failed", "x")]));
    assert_eq!((none.cost_usd, none.overall.lift), (None, None));
    assert_eq!(none.headline, "Best or tied in 0 of 0 finished cells.");
    assert_eq!(none.chance, "No cell has a label yet.");
}

#[test]
fn an_unknown_price_makes_the_sum_unknown() {
    let known = cell("m/b/chat", of(1, 4), of(1, 4));
    let mut unknown = cell("m/c/chat", of(1, 4), of(1, 4));
    let both = Results::of(&facts(vec![known.clone(), known.clone()]));
    assert_eq!(both.cost_usd, Some(3.0));
    unknown.cost = Err(Missing::because(
        "the price of the target's model is unknown",
    ));
    let results = Results::of(&facts(vec![known, unknown]));
    assert_eq!(results.cost_usd, None);
    assert!(
        results
            .cost_usd_missing_reason
            .as_ref()
            .unwrap()
            .contains("price")
    );
    assert_eq!(results.tokens.calls, 24);
    let rows = table::cells(&results, None);
    assert_eq!(
        (rows[1][7].as_str(), rows[2][7].as_str()),
        ("$1.50", "price unknown")
    );
}

#[test]
fn means_name_their_counts() {
    let results = Results::of(&facts(vec![
        cell("m/b/chat", of(40, 100), of(50, 100)),
        cell("m/c/chat", of(40, 100), of(70, 100)),
        cell("n/b/codex_exec", of(40, 100), of(60, 100)),
        stopped("n/c/codex_exec", "failed", "x"),
    ]));
    let seen: Vec<(&str, Option<i64>, u64, u64)> = results
        .rows
        .iter()
        .chain(&results.columns)
        .chain([&results.overall])
        .map(|m| {
            (
                m.of.as_str(),
                m.lift.map(|l| (l * 1_000.0).round() as i64),
                m.n,
                m.cells,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("m", Some(200), 2, 2),
            ("n · codex_exec", Some(200), 1, 2),
            ("b", Some(150), 2, 2),
            ("c", Some(300), 1, 2),
            ("all cells", Some(200), 3, 4),
        ]
    );
    let matrix = table::matrix(&results);
    assert_eq!(matrix[1], ["m", "+10.0", "+30.0", "+20.0 (2 of 2)"]);
    assert_eq!(
        matrix[2],
        ["n · codex_exec", "+20.0", "failed", "+20.0 (1 of 2)"]
    );
    assert_eq!(
        matrix[3],
        ["mean", "+15.0 (2 of 2)", "+30.0 (1 of 2)", "+20.0 (3 of 4)"]
    );
}

#[test]
fn chance_is_told_or_corrected() {
    let many = |n: usize, family: bool| {
        let cells = (0..n).map(|i| cell(&format!("m/b{i}/chat"), of(50, 100), of(54, 100)));
        let facts = Facts {
            family,
            ..facts(cells.collect())
        };
        Results::of(&facts)
    };
    assert!(
        many(52, false)
            .chance
            .contains("two or three of 52 labels are")
    );
    assert!(many(20, false).chance.contains("one of 20 labels is"));
    assert!(
        many(4, false)
            .chance
            .contains("less than one of 4 labels is")
    );
    assert!(many(52, true).chance.contains("at most 5%"));
    // Four hits more of a hundred: two standard errors.
    assert_eq!(many(52, false).counts.best, 52);
    assert_eq!(
        many(52, true).counts.tied,
        52,
        "a corrected interval is wider"
    );
    assert!((many(52, true).half_width - 3.301_545).abs() < 1e-5);
}

#[test]
fn transfers_compare_with_the_other_cells_start() {
    let mut facts = facts(vec![
        cell("m/b/chat", of(40, 100), of(50, 100)),
        cell("n/b/chat", of(10, 100), of(50, 100)),
        stopped("o/b/chat", "failed", "x"),
    ]);
    facts.transfer = true;
    let missing = || Err(Missing::because("`o/b/chat` has not come to its end"));
    let one = |from, to, scores| TransferFacts { from, to, scores };
    facts.transfers = vec![one(0, 1, of(30, 100)), one(0, 2, missing())];
    let results = Results::of(&facts);
    let all = results.transfer.as_ref().unwrap();
    assert_eq!(
        (all[0].from.as_str(), all[0].to.as_str()),
        ("m/b/chat", "n/b/chat")
    );
    assert!((all[0].lift.unwrap().mean - 0.2).abs() < 1e-12);
    assert_eq!((all[1].score, all[1].lift), (None, None));
    assert!(all[1].missing_reason.is_some());
    let rows = table::transfers(&results);
    assert_eq!(rows[1][4], "+20.0");
    assert_eq!(rows[2][3], "—");
    facts.transfer = false;
    assert!(Results::of(&facts).transfer.is_none());
}

#[test]
fn csv_fields_are_text_or_numbers_and_never_formulas() {
    let mut odd = cell("=cmd/b/chat", of(50, 100), of(10, 100));
    odd.cause = "-1,\"a\"\nb".to_owned();
    odd.model = "@m".to_owned();
    let csv = table::csv(&Results::of(&facts(vec![
        odd,
        stopped("m/c/chat", "failed", "\tx"),
    ])));
    let lines: Vec<&str> = csv.split('\n').collect();
    assert!(lines[0].starts_with("cell,model,benchmark,harness,seed,repeat,state,cause,label"));
    assert!(lines[0].contains(",vs_starting_skill_lift_points,"));
    assert!(
        lines[1].starts_with("'=cmd/b/chat,'@m,b,chat,42,1,improved,\"'-1,\"\"a\"\""),
        "{csv}"
    );
    assert!(
        csv.contains(",worse,,0.5,0.1,-40,"),
        "numbers stay numbers: {csv}"
    );
    let failed = lines[3];
    assert!(
        failed.starts_with("m/c/chat,m,c,chat,42,1,failed,'\tx,,the cell is failed,,,,,,,"),
        "{csv}"
    );
    assert!(csv.ends_with('\n'));
}

#[test]
fn the_table_says_what_happened_in_words() {
    let results = Results::of(&facts(vec![
        cell("m/b/chat", of(40, 100), of(50, 100)),
        stopped("m/c/chat", "failed", "the disk is full\nand more"),
        stopped("m/d/chat", "waiting", ""),
    ]));
    let observed = Observed {
        cells: vec![CellObserved {
            wall_s: Some(61.0),
            ..CellObserved::default()
        }],
        ..Observed::default()
    };
    let rows = table::cells(&results, Some(&observed));
    assert_eq!(
        rows[1],
        [
            "m/b/chat",
            "40.0%",
            "50.0%",
            "+10.0",
            "+4.1 to +15.9",
            "best",
            "1.5 k",
            "$1.50",
            "1 min 1 s",
            "improved"
        ]
    );
    assert_eq!(
        rows[2][1..],
        [
            "—",
            "—",
            "—",
            "—",
            "—",
            "—",
            "—",
            "—",
            "failed: the disk is full"
        ]
    );
    assert_eq!(rows[3].last().map(String::as_str), Some("waiting"));
}

#[test]
fn the_order_in_which_facts_come_in_changes_nothing() {
    let all = facts(vec![
        cell("m/b/chat", of(40, 100), of(50, 100)),
        cell("n/b/chat", of(10, 100), of(50, 100)),
    ]);
    let first = serde_json::to_string(&Results::of(&all)).unwrap();
    let again: Results = serde_json::from_str(&first).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), first);
    assert!(
        !first.contains("wall") && !first.contains("_ms"),
        "no time is among the results"
    );
}
