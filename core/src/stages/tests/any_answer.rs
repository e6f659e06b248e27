//! No answer of a model can do harm: whatever it says, a stage reads it or takes its fallback.

use proptest::prelude::*;

use super::*;
use crate::loose::tests::any_json;
use crate::patch;

const ANSWERS: [AnswerMode; 2] = [AnswerMode::Free, AnswerMode::SchemaBound];

fn read_everywhere(answer: Option<&str>) {
    for answers in ANSWERS {
        for mode in MODES {
            for side in SIDES {
                let shown = trajectories();
                let rules = analyst::Rules {
                    notes: true,
                    ..rules(side, mode, answers)
                };
                let raw = analyst::parse(answer, &analyst_input(rules, &shown));
                let raws: Vec<Value> = raw.into_iter().map(Value::Object).collect();
                let _ = patch::normalise(&raws, mode);
                read_selection(answer, mode, answers, side);
            }
        }
        let notes = ["a".to_owned(), "b".to_owned()];
        if let Some(fewer) = appendix::parse(
            answer,
            &appendix::Input {
                answers,
                notes: &notes,
            },
        ) {
            assert!(!fewer.is_empty() && fewer.len() < notes.len());
        }
    }
    let _ = (
        rewrite::parse(answer),
        slow_update::parse(answer),
        meta_skill::parse(answer),
    );
    assert!(rate::parse(answer, 2).learning_rate <= 2);
}

fn read_selection(answer: Option<&str>, mode: UpdateMode, answers: AnswerMode, side: Side) {
    let patches = [items(mode), items(mode)];
    let input = merge::Input {
        side,
        mode,
        answers,
        skill: SKILL,
        meta_skill: "",
        patches: &patches,
        level: 2,
    };
    let merged = merge::parse(answer, &input).patch;
    for item in patch::items(&merged, mode) {
        assert!(item.get("merge_level").is_some());
    }
    let patch = items(mode);
    let input = ranking::Input {
        mode,
        answers,
        skill: SKILL,
        meta_skill: "",
        patch: &patch,
        budget: 1,
    };
    assert_eq!(ranking::parse(answer, &input).indices.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_json_is_read(answer in any_json()) {
        read_everywhere(Some(&answer.to_string()));
    }

    #[test]
    fn any_text_is_read(answer in ".{0,60}") {
        read_everywhere(Some(&answer));
    }

    #[test]
    fn the_merge_tree_covers_every_patch_and_ends(n in 0usize..200, size in 0usize..12) {
        let mut left = n;
        let mut levels = 0;
        while left > 1 {
            let batches = merge::batches(left, size);
            let covered: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..left).collect::<Vec<_>>());
            prop_assert!(batches.len() < left);
            left = batches.len();
            levels += 1;
        }
        prop_assert!(levels <= 8);
    }
}

#[test]
fn no_answer_takes_the_fallback() {
    read_everywhere(None);
    assert!(rate::parse(None, 3).fallback);
    assert_eq!(
        rate::parse(None, 3).error.as_deref(),
        Some("the model gave no answer")
    );
    assert_eq!(rewrite::parse(None), None);
}
