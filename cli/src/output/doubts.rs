//! What makes a score doubtful: items that no model answered, and answers that were cut.

use skillopt_config::RunConfig;
use skillopt_coordinator::folder::Unanswered;

use super::Out;
use super::words::{count, plural};

/// Warns of what makes a score doubtful; each warning comes with the key that helps.
pub(crate) fn warn(unanswered: Option<&Unanswered>, truncated: u64, config: &RunConfig, out: &Out) {
    for (key, words) in doubts(unanswered, truncated, config) {
        out.warning(&key, &words);
    }
}

fn doubts(
    unanswered: Option<&Unanswered>,
    truncated: u64,
    config: &RunConfig,
) -> Vec<(String, String)> {
    let mut doubts = Vec::new();
    if let Some(Unanswered { n, of, cause }) = unanswered {
        let words = format!(
            "{} of {} got no answer from the model, and count as wrong: {cause}",
            count(*n),
            plural(*of, "item")
        );
        doubts.push(("model.target_backend".to_owned(), words));
    }
    if truncated > 0 {
        let key = match config.answer_cap() {
            Some((key, cap)) if cap <= config.max_completion_tokens => format!("model.{key}"),
            _ => "env.max_completion_tokens".to_owned(),
        };
        let words = format!(
            "{} cut at the limit of tokens, and may count as wrong; raise `{key}`",
            match truncated {
                1 => "1 answer was".to_owned(),
                n => format!("{} answers were", count(n)),
            }
        );
        doubts.push((key, words));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_without_an_answer_and_cut_answers_are_counted_with_what_helps() {
        let unanswered = Unanswered {
            n: 11,
            of: 12,
            cause: "too long".to_owned(),
        };
        let config = RunConfig {
            target_backend: "openai_compatible".to_owned(),
            ..RunConfig::default()
        };
        let words: Vec<String> = doubts(Some(&unanswered), 1, &config)
            .into_iter()
            .map(|(_, words)| words)
            .collect();
        assert_eq!(
            words,
            [
                "11 of 12 items got no answer from the model, and count as wrong: too long",
                "1 answer was cut at the limit of tokens, and may count as wrong; raise \
                 `model.openai_compatible_max_tokens`",
            ]
        );
        let config = RunConfig {
            max_completion_tokens: 100,
            ..config
        };
        let doubts = doubts(None, 2, &config);
        assert_eq!(doubts.len(), 1);
        assert!(doubts[0].1.starts_with("2 answers were cut"), "{doubts:?}");
        assert_eq!(doubts[0].0, "env.max_completion_tokens");
    }

    #[test]
    fn a_run_whose_items_were_all_answered_in_full_leaves_no_doubt() {
        assert!(doubts(None, 0, &RunConfig::default()).is_empty());
    }
}
