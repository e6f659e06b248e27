//! What the golden runs do not cover.

mod world;

use serde_json::{Value, json};
use skillopt_core::skill::Folder;

use self::world::{World, append, edit};

/// Answers of the analyst in order; every other call gets no answer.
fn analyst(answers: Vec<Value>) -> impl Fn(&str, usize) -> Value {
    move |stage, n| match stage {
        "analyst" => answers.get(n).cloned().unwrap_or_default(),
        _ => Value::Null,
    }
}

#[test]
fn only_steps_that_reach_selection_move_the_scheduler() {
    let config =
        json!({"num_epochs": 4, "edit_budget": 8, "min_edit_budget": 2, "lr_scheduler": "linear"});
    let answers = vec![append("- a"), Value::Null, append("- b"), append("- c")];
    let told = World::new(config, analyst(answers)).run();
    // Four steps of which three count: the budgets of a run of four at 1, 2 and 3 (D19).
    assert_eq!(
        told.steps("edit_budget"),
        [json!(6), Value::Null, json!(5), json!(4)]
    );
    assert_eq!(told.json("runtime_state.json")["scheduler_position"], 3);
}

/// Both stages of the optimizer that are shown trajectories.
#[test]
fn what_a_codex_target_did_is_shown_to_the_optimizer_only_if_it_is_to_be() {
    for (target, flag, is_shown, is_summed) in [
        ("codex_exec", true, true, true),
        ("codex_exec", false, false, false),
        ("claude_code_exec", true, true, false),
        ("claude_code_exec", false, true, false),
        ("openai_chat", false, true, false),
    ] {
        let config = json!({
            "num_epochs": 2, "use_slow_update": true,
            "target_backend": target, "codex_trace_to_optimizer": flag,
        });
        let told = World::new(config, analyst(vec![append("- RULE-A")])).run();
        let what = format!("{target}, {flag}");
        for stage in ["analyst", "slow_update"] {
            let chats: Vec<_> = told.chats.iter().filter(|c| c.stage == stage).collect();
            assert!(!chats.is_empty(), "{what}: {stage}");
            for chat in chats {
                let shows = chat.user.contains("[action] bash make");
                assert_eq!(shows, is_shown, "{what}: {stage}: {}", chat.user);
                let sums = chat.user.contains("#### Trace summary");
                let wants = is_summed && stage == "analyst";
                assert_eq!(sums, wants, "{what}: {stage}: {}", chat.user);
            }
        }
    }
}

#[test]
fn a_rewrite_that_fails_has_moved_the_scheduler() {
    let config = json!({"num_epochs": 2, "skill_update_mode": "rewrite"});
    let suggestion = json!({"patch": {"revise_suggestions": [{"type": "add_rule", "title": "t", "instruction": "i"}]}});
    let told = World::new(config, analyst(vec![suggestion])).run();
    assert_eq!(told.steps("action"), ["skip_no_rewrite", "skip_no_patches"]);
    assert_eq!(told.json("runtime_state.json")["scheduler_position"], 1);
}

#[test]
fn a_memory_call_without_an_answer_keeps_the_memory() {
    let config = json!({"num_epochs": 4, "use_meta_skill": true});
    let told = World::new(config, |stage, n| match (stage, n) {
        ("analyst", _) => append("- x"),
        ("meta_skill", 0) => json!({"meta_skill_content": "Prefer short edits."}),
        _ => Value::Null,
    })
    .run();
    let written = |epoch| {
        told.json(&format!(
            "meta_skill/epoch_{epoch:02}/meta_skill_result.json"
        ))
    };
    assert_eq!(written(2)["action"], "write_meta_skill");
    assert_eq!(written(3)["action"], "no_content");
    let remembered: Vec<bool> = told
        .chats
        .iter()
        .filter(|c| c.stage == "analyst")
        .map(|c| c.user.contains("Prefer short edits."))
        .collect();
    // Epoch 4 still has what epoch 2 wrote (D28).
    assert_eq!(remembered, [false, false, true, true]);
    let last = told
        .chats
        .iter()
        .rfind(|c| c.stage == "meta_skill")
        .unwrap();
    assert!(last.user.contains("Prefer short edits."));
}

/// Step 1 is accepted, then guidance that scores higher is forced in; step 3 proposes something
/// that scores what the forced text scores.
fn forced(remeasure_stale: bool) -> World {
    let config = json!({
        "num_epochs": 3,
        "use_slow_update": true,
        "remeasure_stale": remeasure_stale,
    });
    World::new(config, |stage, n| match (stage, n) {
        ("analyst", 0) => append("- RULE-A"),
        ("analyst", 2) => append("- y"),
        ("slow_update", 0) => json!({"slow_update_content": "Mind RULE-B."}),
        _ => Value::Null,
    })
}

#[test]
fn a_forced_text_is_unscored_until_it_is_measured() {
    let told = forced(false).run();
    // The incumbent's score is the old one, and the record says so (D40).
    assert_eq!(
        told.steps("action"),
        ["accept_new_best", "skip_no_patches", "accept_new_best"]
    );
    assert_eq!(
        told.steps("score_is_stale"),
        [Value::Null, json!(true), Value::Null]
    );
    assert_eq!(told.steps("current_score"), [0.5, 0.5, 1.0]);
    assert!(told.rolls_of(|s| s.contains("incumbent_eval")).is_empty());
    // The forced text got no score when it was installed (D3), so nothing was cached for it.
    let slow = told.json("slow_update/epoch_02/slow_result.json");
    assert_eq!(slow["action"], "force_accept");
    assert_eq!(slow["selection_hard"], Value::Null);
    assert!(
        told.rolls_of(|s| s.starts_with("slow_update/epoch_02/selection"))
            .is_empty()
    );
}

#[test]
fn a_stale_incumbent_is_measured_again_if_asked() {
    let told = forced(true).run();
    // The candidate scores what the forced text already scores: a tie.
    assert_eq!(told.steps("action")[2], "reject");
    assert_eq!(told.steps("current_score")[2], 1.0);
    assert_eq!(told.steps("score_is_stale")[2], Value::Null);
    let again = told.rolls_of(|s| s == "steps/step_0003/incumbent_eval");
    assert_eq!(again.len(), 4);
    assert!(
        again
            .iter()
            .all(|r| r.skill.document.contains("Mind RULE-B."))
    );
    // Being measured, it is the best from then on: it came about at the end of step 2.
    assert_eq!(told.steps("best_score")[2], 1.0);
    assert_eq!(told.steps("best_step")[2], 2);
    assert_eq!(told.steps("best_origin")[2], "slow_update_epoch_02");
    assert_eq!(told.ending.best_step, 2);
}

#[test]
fn notes_make_the_score_stale_and_are_never_measured_by_themselves() {
    let config = json!({"num_epochs": 2, "use_skill_aware_reflection": true});
    let told = World::new(
        config,
        analyst(vec![
            json!({"appendix_notes": ["RULE-A holds."]}),
            edit("delete", "not there at all", ""),
        ]),
    )
    .run();
    assert_eq!(told.steps("score_is_stale"), [json!(true), Value::Null]);
    // The patch changed nothing, but its text carries the note and was measured as it stands.
    assert_eq!(told.steps("action")[1], "accept_new_best");
    assert_eq!(told.steps("selection_hard")[1], 0.5);
}

#[test]
fn the_same_skill_on_the_same_item_is_a_new_sample_each_time() {
    let config = json!({"num_epochs": 4, "batch_size": 2});
    // Accepted in step 3, which is the first of epoch 2.
    let answers = vec![Value::Null, Value::Null, append("- RULE-A")];
    let told = World::new(config, analyst(answers)).run();
    let repeats = |step: u32| -> Vec<u32> {
        let stage = format!("steps/step_{step:04}/rollout");
        told.rolls_of(|s| s == stage)
            .iter()
            .map(|r| r.repeat)
            .collect()
    };
    assert_eq!(repeats(1), [0, 0]);
    assert_eq!(repeats(2), [0, 0]);
    assert_eq!(repeats(3), [1, 1]);
    // From here on another skill: nothing was sampled with it before.
    assert_eq!(repeats(4), [0, 0]);
    let later: u32 = (5..=8).flat_map(repeats).sum();
    // Epochs 3 and 4 see all four items twice more, two of them for the second and third time,
    // the other two for the first and second.
    assert_eq!(later, 2 * (1 + 2) + 2);
    // A measurement is not a sample: all its rollouts are the first ones.
    assert!(
        told.rolls_of(|s| s.contains("eval"))
            .iter()
            .all(|r| r.repeat == 0)
    );
}

#[test]
fn a_top_up_stops_as_soon_as_enough_items_changed() {
    let config = json!({
        "num_epochs": 2,
        "use_slow_update": true,
        "longitudinal_pair_policy": "changed",
        "slow_update_samples": 3,
    });
    // The second epoch gains RULE-B, which helps every third item.
    let mut world = World::new(
        config,
        analyst(vec![append("- RULE-A"), append("- RULE-B")]),
    );
    let needs = |i| {
        if i % 3 == 0 {
            vec!["RULE-B"]
        } else {
            vec!["NEVER"]
        }
    };
    world.train = (0..30).map(needs).collect();
    world.val = vec![vec!["RULE-A"], vec!["RULE-B"]];
    let mut expected_calls = 0;
    world.config["minibatch_size"] = 30.into();
    let told = world.run();
    let changes = |id: &str| id.trim_start_matches('t').parse::<usize>().unwrap() % 3 == 0;
    let sample = told.rolls_of(|s| s == "slow_update/epoch_02/rollout_prev");
    let mut changed = sample.iter().filter(|r| changes(&r.item)).count();
    let top_up = told.rolls_of(|s| s.starts_with("slow_update/epoch_02/rollout_prev/topup/"));
    for roll in &top_up {
        assert!(changed < 3, "{} was rolled out in vain", roll.item);
        changed += usize::from(changes(&roll.item));
        expected_calls += 1;
    }
    assert_eq!(changed, 3);
    let other_side = told.rolls_of(|s| s.starts_with("slow_update/epoch_02/rollout_curr/topup/"));
    assert_eq!(other_side.len(), expected_calls);
    let pairs = told.json("slow_update/epoch_02/comparison_pairs.json");
    assert_eq!(pairs.as_array().unwrap().len(), 3);
}

const FRONT: &str = "---\nname: mock\n# kept   as it is\n\n\n\ndescription:  'does RULE-A'\n---\n";

/// Checks that no text of a run lost or changed the front matter.
#[track_caller]
fn check_front_matter(config: Value, model: impl Fn(&str, usize) -> Value + 'static) {
    let mut world = World::new(config, model);
    world.skill = Folder::of_document(format!("{FRONT}# Skill\n\n- base rule\n"));
    world.val = vec![vec!["BETTER"], vec!["NEVER"]];
    let told = world.run();
    let mut seen = 0;
    for roll in &told.rolls {
        assert!(
            roll.skill.document.starts_with(FRONT),
            "{}",
            roll.skill.document
        );
    }
    let mut folders = vec![told.dir.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(text.starts_with(FRONT), "{}: {text}", path.display());
                assert_eq!(text.matches("---\n").count(), 2, "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 6, "{seen} documents");
    assert!(told.text("best_skill.md").contains("BETTER"));
}

#[test]
fn edits_guidance_and_notes_leave_the_front_matter_alone() {
    let config =
        json!({"num_epochs": 3, "use_slow_update": true, "use_skill_aware_reflection": true});
    check_front_matter(config, |stage, n| match (stage, n) {
        ("analyst", 0) => edit(
            "replace",
            "description:  'does RULE-A'",
            "description: other",
        ),
        ("analyst", 1) => {
            let mut answer = append("- BETTER");
            answer["appendix_notes"] = json!(["A note."]);
            answer
        }
        ("analyst", _) => edit("delete", "---\n", ""),
        ("slow_update", 0) => json!({"slow_update_content": "Mind the gap."}),
        _ => Value::Null,
    });
}

#[test]
fn whole_rewrites_leave_the_front_matter_alone() {
    let documents = [
        "# New\n\n- BETTER\n",
        "---\nname: other\n---\n# Newer\n\n- BETTER\n",
    ];
    for mode in ["rewrite", "full_rewrite"] {
        let config = json!({"num_epochs": 2, "skill_update_mode": mode});
        check_front_matter(config, move |stage, n| match (stage, mode) {
            ("analyst", "rewrite") => {
                json!({"patch": {"revise_suggestions": [{"type": "add_rule", "title": "t", "instruction": "i"}]}})
            }
            ("analyst", _) => {
                json!({"patch": {"skill_candidates": [{"new_skill": documents[n % 2]}]}})
            }
            ("rewrite", _) => json!({"new_skill": documents[n % 2]}),
            _ => Value::Null,
        });
    }
}

#[test]
fn the_files_beside_a_skill_go_with_it() {
    let mut world = World::new(json!({}), analyst(vec![append("- RULE-A")]));
    world
        .skill
        .insert("scripts/check.py", b"print(1)\n".to_vec())
        .unwrap();
    let told = world.run();
    assert!(told.rolls.iter().all(|r| r.skill.files().len() == 1));
    assert_eq!(told.text("best_skill/SKILL.md"), told.text("best_skill.md"));
    assert!(told.text("best_skill.md").contains("RULE-A"));
    assert_eq!(told.text("best_skill/scripts/check.py"), "print(1)\n");
    let plain = World::new(json!({}), analyst(vec![append("- RULE-A")])).run();
    assert!(!plain.dir.path().join("best_skill").exists());
}

#[test]
fn an_unusable_answer_is_asked_for_once_more() {
    let config = json!({"num_epochs": 1, "reask_unusable": true});
    let told = World::new(config, analyst(vec![Value::Null, append("- RULE-A")])).run();
    assert_eq!(told.steps("action"), ["accept_new_best"]);
    let [first, second] = &told.chats[..] else {
        panic!("two calls: {:?}", told.chats);
    };
    assert_eq!(first.user, second.user);
    // Another text, so that the store has no answer for it yet (D22).
    assert_ne!(first.system, second.system);
}

#[test]
fn bound_answers_are_short() {
    let limit = |mode: &str| {
        let config = json!({"optimizer_answer_mode": mode});
        let told = World::new(config, analyst(vec![append("- RULE-A")])).run();
        told.chats[0].max_tokens
    };
    assert_eq!(limit("free"), 16_384);
    assert!(limit("schema") < 16_384);
}

#[test]
fn equal_runs_leave_equal_folders() {
    let files = |told: &world::Told| {
        let mut files = std::collections::BTreeMap::new();
        let mut folders = vec![told.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(told.dir.path()).unwrap().to_owned();
                    files.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
        files
    };
    let (first, second) = (forced(true).run(), forced(true).run());
    let (first, second) = (files(&first), files(&second));
    assert!(first.len() > 20);
    assert_eq!(first, second);
}
