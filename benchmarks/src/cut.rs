//! Answers that the token limit cut: a row that blames the answer must not hide that.

use skillopt_backends::{ChatReply, Finish};

/// Returns at how many tokens an answer was cut, if it was; `max_tokens` is what was asked for, of which
/// a backend may have made less.
pub(crate) fn at(reply: &ChatReply, max_tokens: u32) -> Option<u64> {
    let received = reply.usage.completion_tokens;
    (reply.finish == Finish::Length).then_some(match received {
        0 => u64::from(max_tokens),
        received => received,
    })
}

/// Adds to why an answer failed that it was cut; an answer that is right all the same has not failed.
pub(crate) fn told(reason: String, cut: Option<u64>) -> String {
    match cut {
        Some(tokens) if !reason.is_empty() => format!("{reason} (cut at {tokens} tokens)"),
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use skillopt_core::job::Usage;

    use super::*;

    #[test]
    fn an_answer_was_cut_at_what_came_or_else_at_what_was_asked_for() {
        for (finish, received, want) in [
            (Finish::Length, 500, Some(500)),
            (Finish::Length, 0, Some(16_384)),
            (Finish::Stop, 500, None),
        ] {
            let usage = Usage {
                completion_tokens: received,
                ..Usage::default()
            };
            let reply = ChatReply {
                finish,
                ..ChatReply::text("x", usage)
            };
            assert_eq!(at(&reply, 16_384), want, "{finish:?} {received}");
        }
    }

    #[test]
    fn only_a_failure_is_told_to_come_of_a_cut() {
        for (reason, cut, want) in [
            ("empty answer", Some(9), "empty answer (cut at 9 tokens)"),
            ("empty answer", None, "empty answer"),
            ("", Some(9), ""),
        ] {
            assert_eq!(told(reason.to_owned(), cut), want);
        }
    }
}
