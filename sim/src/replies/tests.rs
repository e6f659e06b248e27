use serde_json::{Value, json};

use super::*;
use crate::generate::split;
use crate::markers::{Kind, Markers};

const MODEL: &str = "sim-target";

fn call<'a>(sys: &'a str, user: &'a str) -> Call<'a> {
    Call {
        sys,
        user,
        model: MODEL,
        n_messages: 2,
        stage: None,
    }
}

fn tag(id: &str, family: &str) -> String {
    format!("[[sim item={id} fam={family} gold=calm otter 1234]] Which?\n")
}

#[track_caller]
fn json_reply(params: &Params, sys: &str, user: &str) -> Value {
    serde_json::from_str(&reply(params, &call(sys, user)).text).expect("JSON")
}

fn certain(change: impl FnOnce(&mut Params)) -> Params {
    let mut params = Params {
        p_harm: 0.0,
        p_note: 0.0,
        ..Params::default()
    };
    change(&mut params);
    params
}

fn append(kind: Kind, name: &str) -> Value {
    json!({"op": "append", "content": kind.line(name)})
}

fn delete(kind: Kind, name: &str) -> Value {
    json!({"op": "delete", "target": kind.line(name)})
}

// Target.

#[test]
fn the_specified_item_is_right_without_a_rule() {
    let item = &split(42, "val", 1)[0];
    let seen = reply(&Params::default(), &call("", &item.question));
    assert!(
        seen.text
            .ends_with(&format!("<answer>{}</answer>", item.answers[0]))
    );
    assert_eq!(seen.key, "target|sim-target|val-00000||2");
}

#[test]
fn wrong_answers_are_near_or_unknown() {
    let check = |p_near: f64, expected: &str| {
        let params = certain(|p| (p.p_none, p.p_near) = (0.0, p_near));
        let seen = reply(&params, &call("skill", &tag("a", "K00"))).text;
        assert!(
            seen.ends_with(&format!("\n<answer>{expected}</answer>")),
            "{seen}"
        );
    };
    check(1.0, "calm otter");
    check(0.0, "unknown");
}

#[test]
fn rules_help_and_traps_win() {
    let check = |skill: &str, expected: bool| {
        let params = certain(|p| (p.p_rule, p.p_none, p.p_trap, p.crowd) = (1.0, 0.0, 0.0, 1.0));
        let seen = reply(&params, &call(skill, &tag("a", "K03"))).text;
        assert_eq!(
            seen.contains("<answer>calm otter 1234</answer>"),
            expected,
            "{skill}"
        );
    };
    check("", false);
    check("[[RULE:K03]]", true);
    check("[[RULE:K02]]", false);
    check("[[RULE:K03]] [[NOTE:K03]]", true);
    check("[[RULE:K03]] [[TRAP:K03]]", false);
    // A trap of another family crowds this one.
    check("[[RULE:K03]] [[TRAP:K09]]", false);
}

#[test]
fn long_replies_are_padded_to_the_character() {
    let params = certain(|p| p.reply_chars = 5_000);
    let seen = reply(&params, &call("", &tag("a", "K00"))).text;
    assert_eq!(seen.chars().count(), 5_000);
    assert!(seen.ends_with("</answer>"));
}

#[test]
fn the_last_tag_is_the_task() {
    let user = format!("{}{}", tag("a", "K00"), tag("b", "K01"));
    assert_eq!(
        reply(&Params::default(), &call("s", &user)).key,
        "target|sim-target|b||2"
    );
}

/// Returns the share of right answers to a split with rules for the first `n` families.
fn accuracy(split_name: &str, n: usize, rules: usize) -> f64 {
    let mut skill = String::new();
    for k in 0..rules {
        skill += &Kind::Rule.line(&crate::world::family_name(k));
        skill.push('\n');
    }
    let items = split(42, split_name, n);
    let right = items.iter().filter(|item| {
        let answer = format!("<answer>{}</answer>", item.answers[0]);
        reply(&Params::default(), &call(&skill, &item.question))
            .text
            .contains(&answer)
    });
    right.count() as f64 / n as f64
}

#[test]
fn accuracy_rises_with_the_rules_as_the_weights_say() {
    let weight = |k: usize| 1.0 / (k as f64 + 2.0);
    let total: f64 = (0..12).map(weight).sum();
    for rules in [0, 1, 3, 6, 12] {
        let share = (0..rules).map(weight).sum::<f64>() / total;
        let expected = share * 0.92 + (1.0 - share) * 0.15;
        let seen = accuracy("train", 3000, rules);
        assert!(
            (seen - expected).abs() < 0.025,
            "{rules} rules: {seen}, expected {expected}"
        );
    }
}

#[test]
fn the_specified_run_starts_at_15_percent() {
    for name in ["val", "test"] {
        assert!(
            (accuracy(name, 100, 0) - 0.15).abs() < 0.02,
            "{name}: {}",
            accuracy(name, 100, 0)
        );
    }
}

// Analysts.

#[test]
fn the_error_analyst_adds_the_most_frequent_missing_rule() {
    let user = format!(
        "[[RULE:K02]] L = 4\n{}{}{}{}",
        tag("a", "K02"),
        tag("b", "K02"),
        tag("c", "K05"),
        tag("a", "K02"),
    );
    let seen = json_reply(&certain(|_| ()), "failure_summary", &user);
    assert_eq!(seen["batch_size"], 3);
    assert_eq!(seen["failure_summary"][0]["failure_type"], "rule_missing");
    assert_eq!(seen["failure_summary"][0]["count"], 2);
    assert_eq!(seen["patch"]["edits"], json!([append(Kind::Rule, "K05")]));
    assert_eq!(seen.get("appendix_notes"), None);
    let summary = seen["failure_summary"].to_string();
    assert_eq!(Markers::of(&summary), Markers::default());
}

#[test]
fn traps_go_first_and_the_budget_cuts() {
    let user = |head: &str| {
        format!(
            "{head} [[TRAP:K01]]\n{}{}{}",
            tag("a", "K01"),
            tag("b", "K02"),
            tag("c", "K03")
        )
    };
    let check = |head: &str, rules: usize, expected: Value| {
        let params = certain(|p| p.rules_per_call = rules);
        let seen = json_reply(&params, "failure_summary", &user(head));
        assert_eq!(seen["patch"]["edits"], expected, "{head}");
    };
    let all = [
        delete(Kind::Trap, "K01"),
        append(Kind::Rule, "K01"),
        append(Kind::Rule, "K02"),
        append(Kind::Rule, "K03"),
    ];
    check("", 9, json!(all));
    check("at most L=2 edits", 9, json!(all[..2]));
    check("Large = x, L  = 1", 9, json!(all[..1]));
    check("", 0, json!(all[..1]));
}

#[test]
fn harm_is_a_trap_or_a_lost_rule_of_a_known_family() {
    let params = certain(|p| p.p_harm = 1.0);
    let mut seen_kinds = std::collections::BTreeSet::new();
    for i in 0..20 {
        let user = format!("[[RULE:K07]]\n{}", tag(&format!("i{i}"), "K07"));
        let edits = json_reply(&params, "failure_summary", &user)["patch"]["edits"].clone();
        assert!(
            edits == json!([append(Kind::Trap, "K07")])
                || edits == json!([delete(Kind::Rule, "K07")])
        );
        seen_kinds.insert(edits[0]["op"].to_string());
    }
    assert_eq!(seen_kinds.len(), 2);
    let nothing_known = json_reply(&params, "failure_summary", &tag("a", "K00"));
    assert_eq!(
        nothing_known["patch"]["edits"],
        json!([append(Kind::Rule, "K00")])
    );
}

#[test]
fn reminders_are_given_when_asked_for() {
    let sys = "failure_summary appendix_notes";
    let known = json_reply(
        &certain(|_| ()),
        sys,
        &format!("[[RULE:K02]]{}", tag("a", "K02")),
    );
    assert_eq!(known["appendix_notes"].as_array().map(Vec::len), Some(1));
    let unknown = json_reply(&certain(|_| ()), sys, &tag("a", "K02"));
    assert_eq!(unknown["appendix_notes"], json!([]));
}

#[test]
fn the_success_analyst_notes_now_and_then() {
    let params = certain(|p| p.p_note = 1.0);
    let seen = json_reply(&params, "success_patterns", &tag("a", "K02"));
    let line = seen["patch"]["edits"][0]["content"]
        .as_str()
        .expect("a note");
    let tag_of = Markers::of(line)
        .notes
        .into_iter()
        .next()
        .expect("a marker")
        .to_owned();
    assert_eq!(line, Kind::Note.line(&tag_of));
    assert_eq!(tag_of.len(), 2);
    assert!(seen["success_patterns"].is_array());

    // NOTE markers are not part of the key, so the same tag is drawn and left out.
    let again = format!("[[NOTE:{tag_of}]]{}", tag("a", "K02"));
    assert_eq!(
        json_reply(&params, "success_patterns", &again)["patch"]["edits"],
        json!([])
    );
    let never = json_reply(&certain(|_| ()), "success_patterns", &tag("a", "K02"));
    assert_eq!(never["patch"]["edits"], json!([]));
}

// Update modes.

#[test]
fn suggestions_carry_the_line_as_instruction() {
    let sys = "failure_summary revise_suggestions";
    let user = format!("[[TRAP:K01]]{}", tag("a", "K01"));
    let seen = json_reply(&certain(|_| ()), sys, &user);
    let list = &seen["patch"]["revise_suggestions"];
    assert_eq!(list[0]["type"], "remove_rule");
    assert_eq!(list[0]["instruction"], Kind::Trap.line("K01"));
    assert_eq!(list[1]["type"], "add_rule");
    assert_eq!(list[1]["priority_hint"], "high");
}

#[test]
fn a_candidate_lists_the_known_markers_after_the_change() {
    let sys = "failure_summary skill_candidates new_skill";
    let user = format!("[[TRAP:K01]][[RULE:K00]][[NOTE:aa]]{}", tag("a", "K01"));
    let seen = json_reply(&certain(|_| ()), sys, &user);
    let list = seen["patch"]["skill_candidates"]
        .as_array()
        .expect("candidates");
    assert_eq!(list.len(), 1);
    let expected = format!(
        "# Answering questions about records\n\n{}\n{}\n{}\n",
        Kind::Rule.line("K00"),
        Kind::Rule.line("K01"),
        Kind::Note.line("aa"),
    );
    assert_eq!(list[0]["new_skill"], expected);
}

// Merge.

#[test]
fn equal_edits_are_joined_and_ordered_by_support() {
    let patches = json!([
        {"edits": [append(Kind::Rule, "K09"), append(Kind::Rule, "K01")]},
        {"patch": {"edits": [
            {"op": "append", "content": Kind::Rule.line("K09"), "support_count": 3,
             "merge_level": 1},
            {"op": "append", "content": Kind::Rule.line("K00"), "source_type": "success",
             "merge_level": 1, "support_count": 1},
        ]}},
        {"reasoning": "empty"},
    ]);
    let user = format!("skill\n[not json]\n{patches:#}\n");
    let seen = json_reply(&Params::default(), "support_count", &user);
    let expected = |name: &str, n: u64, source: &str| {
        json!({"op": "append", "content": Kind::Rule.line(name), "support_count": n,
               "source_type": source})
    };
    let edits = json!([
        expected("K09", 4, "failure"),
        expected("K00", 1, "success"),
        expected("K01", 1, "failure"),
    ]);
    assert_eq!(seen["edits"].to_string(), edits.to_string());
}

#[test]
fn merged_edits_get_the_source_of_their_stage() {
    let user = format!("x\n{}\n", json!([{"edits": [append(Kind::Rule, "K09")]}]));
    let check = |sys: &str, expected: &str| {
        let seen = json_reply(&Params::default(), sys, &user);
        assert_eq!(seen["edits"][0]["source_type"], expected, "{sys}");
    };
    check("support_count", "failure");
    check("support_count \"source_type\": \"success\"", "success");
    check("support_count failure|success", "failure");
}

#[test]
fn a_merge_of_candidates_lists_all_their_markers() {
    let sys = "support_count new_skill skill_candidates";
    let candidates = json!([
        {"skill_candidates": [{"title": "a", "new_skill": Kind::Rule.line("K01")}]},
        {"patch": {"skill_candidates": [{"title": "b", "new_skill": Kind::Trap.line("K00")}]}},
    ]);
    let seen = json_reply(&Params::default(), sys, &format!("x\n{candidates}\n"));
    let list = seen["skill_candidates"].as_array().expect("candidates");
    assert_eq!(list.len(), 1);
    let document = list[0]["new_skill"].as_str().expect("a document");
    assert_eq!(Markers::of(document).fingerprint(), "RULE:K01,TRAP:K00");
    assert_eq!(list[0]["support_count"], 2);
}

#[test]
fn a_merge_of_nothing_is_empty() {
    let seen = json_reply(&Params::default(), "support_count", "no array here\n");
    assert_eq!(seen["edits"], json!([]));
}

// Pools.

#[test]
fn ranking_takes_the_best_supported_lines() {
    let user = "skill [9] not a line\n\
                [0] op=append content=- [[RULE:K00]] support=1\n\
                [1] op=append content=- [[NOTE:00]] support=5\n\
                [2] op=append content=- [[RULE:K02]] support=3\n\
                [3] op=append content=- [[RULE:K03]]\n\
                [x] no\n";
    let check = |budget: &str, expected: Value| {
        let user = format!("{user}{budget}\n");
        let seen = json_reply(&Params::default(), "selected_indices", &user);
        assert_eq!(seen["selected_indices"], expected);
    };
    check("budget = 2", json!([2, 0]));
    check("budget=9", json!([2, 0, 3, 1]));
    check("", json!([2, 0, 3, 1]));
}

#[test]
fn half_of_the_harmful_lines_are_seen_through() {
    let mut last = 0;
    for i in 0..400 {
        let (op, kind) = [("append", "TRAP"), ("delete", "RULE")][i % 2];
        let user = format!("[0] op={op} [[{kind}:K{i}]] support=5\n[1] op=append good\n");
        let seen = json_reply(&Params::default(), "selected_indices", &user);
        last += usize::from(seen["selected_indices"] == json!([1, 0]));
    }
    assert!((150..250).contains(&last), "{last}");
    // A deleted trap or an added rule is never harmful.
    for line in ["op=delete [[TRAP:K01]]", "op=append [[RULE:K01]]"] {
        let user = format!("[0] {line}\n[1] x\n");
        let seen = json_reply(&Params::default(), "selected_indices", &user);
        assert_eq!(seen["selected_indices"], json!([0, 1]));
    }
}

#[test]
fn the_autonomous_rate_is_at_most_three() {
    let check = |lines: usize| {
        let user: String = (0..lines).map(|i| format!("[{i}] edit\n")).collect();
        json_reply(&Params::default(), "\"learning_rate\"", &user)["learning_rate"].clone()
    };
    assert_eq!(
        [check(0), check(2), check(7)],
        [json!(0), json!(2), json!(3)]
    );
}

// Looking back, rewriting, the rest.

#[test]
fn guidance_mostly_brings_the_most_frequent_missing_rule() {
    let mut with_rule = 0;
    for i in 0..100 {
        let user = format!(
            "[[RULE:K00]]{}{}",
            tag(&format!("i{i}"), "K00"),
            tag("b", "K04")
        );
        let seen = json_reply(&Params::default(), "slow_update_content", &user);
        let content = seen["slow_update_content"].as_str().expect("text");
        with_rule += usize::from(content.ends_with(&format!("\n{}", Kind::Rule.line("K04"))));
    }
    assert!((70..=90).contains(&with_rule), "{with_rule}");
}

#[test]
fn memory_counts_items_without_a_marker() {
    let user = format!("[[RULE:K00]]{}{}", tag("a", "K00"), tag("b", "K04"));
    let seen = json_reply(&Params::default(), "meta_skill_content", &user);
    let content = seen["meta_skill_content"].as_str().expect("text");
    assert!(content.contains(" 2 items") && !content.contains("[["));
}

#[test]
fn a_rewrite_lists_markers_and_keeps_the_guidance() {
    let block = "<!-- SLOW_UPDATE_START -->\nRead [[RULE:K09]].\n<!-- SLOW_UPDATE_END -->";
    let user = format!("[[TRAP:K01]] [[RULE:K03]]\n{block}\nrest\n");
    let seen = json_reply(&Params::default(), "new_skill change_summary", &user);
    let expected = format!(
        "# Answering questions about records\n\n{}\n{}\n{}\n\n{block}\n",
        Kind::Rule.line("K03"),
        Kind::Rule.line("K09"),
        Kind::Trap.line("K01"),
    );
    assert_eq!(seen["new_skill"], expected);
}

#[test]
fn notes_are_consolidated_and_the_rest_is_ok() {
    let seen = json_reply(&Params::default(), "", "appendix_notes: …");
    assert_eq!(seen["appendix_notes"].as_array().map(Vec::len), Some(1));
    assert_eq!(reply(&Params::default(), &call("a", "b")).text, "ok");
}

// Keys.

#[test]
fn keys_name_the_work() {
    let h = crate::unit::short_hash;
    let check = |sys: &str, user: &str, expected: String| {
        assert_eq!(reply(&Params::default(), &call(sys, user)).key, expected);
    };
    let items = format!(
        "L=2 [[TRAP:K01]][[NOTE:x]]{}{}",
        tag("b", "K00"),
        tag("a", "K00")
    );
    let ids = h("a,b");
    for stage in ["slow_update", "meta_skill"] {
        let sys = format!("{stage}_content");
        check(&sys, &items, format!("{stage}|sim-target|{ids}|TRAP:K01"));
    }
    check(
        "failure_summary",
        &items,
        format!("analyst_error|sim-target|{ids}|TRAP:K01"),
    );
    check(
        "success_patterns",
        &items,
        format!("analyst_success|sim-target|{ids}|TRAP:K01"),
    );
    let array = json!([{"edits": [{"op": "b"}, {"op": "a", "content": "c"}]}]);
    check(
        "support_count",
        &format!("\n{array}\n"),
        format!("merge_failure|sim-target|{}", h("a|c|\nb|")),
    );
    let pool = "[1] b\n[0] a\nbudget = 1\n";
    check(
        "selected_indices",
        pool,
        format!("ranking|sim-target|1|{}", h("[0] a\n[1] b")),
    );
    check(
        "\"learning_rate\"",
        pool,
        format!("lr_autonomous|sim-target|{}", h("[1] b\n[0] a")),
    );
    check(
        "new_skill",
        "[[RULE:K01]]",
        "rewrite|sim-target|RULE:K01".to_owned(),
    );
    check(
        "",
        "appendix_notes",
        format!("appendix|sim-target|{}", h("appendix_notes")),
    );
    check("", "hello", format!("other|sim-target|{}", h("hello")));
}

#[test]
fn a_named_stage_wins_over_the_texts() {
    let task = tag("a", "K00");
    let named = Call {
        stage: Some(Stage::Rewrite),
        ..call("failure_summary", &task)
    };
    assert_eq!(reply(&Params::default(), &named).stage, Stage::Rewrite);
    let without_item = Call {
        stage: Some(Stage::Target),
        ..call("", "no tag")
    };
    assert!(
        reply(&Params::default(), &without_item)
            .text
            .contains("<answer>unknown</answer>")
    );
}
