//! What a call costs: at most, before it; and what it was, after it.

use skillopt_backends::gate::{IMAGE_TOKENS_MAX, OVERHEAD_TOKENS};
use skillopt_backends::{CallError, ChatRequest, Message, Tool};
use skillopt_core::job::{Payer, Price, Usage};
use skillopt_queue::ledger::{Amount, Counts};

/// Returns most that a call can come to: a token is at least a byte.
pub(super) fn worst(request: &ChatRequest, price: Option<Price>) -> Amount {
    let messages = request.messages.iter();
    let bytes: u64 = messages.map(|m| bytes_of(m) + OVERHEAD_TOKENS).sum();
    let tools = request.tools.iter().map(|tool| match tool {
        Tool::Function {
            name,
            description,
            parameters,
        } => name.len() + description.len() + parameters.to_string().len(),
        Tool::Provided(value) => value.to_string().len(),
    });
    let bytes = bytes
        + tools
            .map(|bytes| bytes as u64 + OVERHEAD_TOKENS)
            .sum::<u64>();
    let schema = request.schema.as_ref();
    let schema = schema.map_or(0, |named| named.schema.to_string().len() as u64);
    at_most(
        bytes + schema + OVERHEAD_TOKENS,
        u64::from(request.max_tokens),
        price,
    )
}

/// Returns what a call of so many tokens comes to at most.
pub(super) fn at_most(prompt_tokens: u64, completion_tokens: u64, price: Option<Price>) -> Amount {
    Amount {
        requests: 1,
        prompt_tokens,
        completion_tokens,
        micro_usd: price.map_or(0, |price| price.at_most(prompt_tokens, completion_tokens)),
    }
}

/// Returns how many bytes of a message may become tokens.
fn bytes_of(message: &Message) -> u64 {
    let text = message.content.as_text().len() as u64;
    let calls = message.tool_calls.iter();
    let calls: u64 = calls
        .map(|c| (c.name.len() + c.arguments.len()) as u64)
        .sum();
    let images = message.content.images().count() as u64;
    text + calls + images * IMAGE_TOKENS_MAX
}

/// Returns what an answered call came to.
pub(super) fn spent(usage: Usage, price: Option<Price>) -> Amount {
    Amount {
        requests: 1,
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        micro_usd: price.map_or(0, |price| price.of(usage)),
    }
}

/// Returns the part of `most` that is sent: all that is sure of a copy that lost.
pub(super) fn input(most: Amount, price: Option<Price>) -> Amount {
    let usage = Usage {
        calls: 1,
        prompt_tokens: most.prompt_tokens,
        completion_tokens: 0,
        ..Usage::default()
    };
    spent(usage, price)
}

/// Returns what a failed call may have been billed that says nothing of it: where the provider refused
/// it, nothing; where it may have worked, `most`, for an answer that nobody has seen may have been
/// as long as allowed, and a cap has to hold also then.
pub(super) fn billed(error: &CallError, most: Amount) -> Amount {
    match error {
        e if e.may_be_billed() => most,
        // There was no request.
        CallError::Connection { .. } | CallError::Machine { .. } | CallError::SignIn(_) => {
            Amount::default()
        }
        _ => Amount {
            requests: 1,
            ..Amount::default()
        },
    }
}

/// Returns what a call adds to the counts of its use.
pub(super) fn counts(used: Amount, usage: Usage, is_unpriced: bool, outcome: &str) -> Counts {
    Counts {
        requests: used.requests,
        prompt_tokens: used.prompt_tokens,
        completion_tokens: used.completion_tokens,
        cached_tokens: usage.cached_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        micro_usd: used.micro_usd,
        unpriced: if is_unpriced { used.requests } else { 0 },
        outcomes: [(outcome.to_owned(), used.requests)].into(),
    }
}

/// Returns the purses that pay.
pub(super) fn purses(payer: &Payer) -> Vec<String> {
    let parts = [
        ("run", &payer.run),
        ("sweep", &payer.sweep),
        ("tenant", &payer.tenant),
    ];
    let named = parts.into_iter().filter(|(_, name)| !name.is_empty());
    named.map(|(kind, name)| format!("{kind}/{name}")).collect()
}

/// Says how a cap of a purse is raised.
pub(super) fn raise(purse: &str, what: &str) -> String {
    let flag = if what == "dollars" { "usd" } else { what };
    match purse.split_once('/') {
        Some(("sweep", id)) => {
            format!("`skillopt resume {id} --{flag} N` goes on with a higher one")
        }
        Some(("tenant", name)) => format!(
            "an admin of the cluster raises it (`skillopt caps {name} --{flag} N`), then resume"
        ),
        _ => "raise it (`budget` in the configuration of a run), then resume".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_raised_where_it_was_set() {
        let words = raise("sweep/07a4", "dollars");
        assert!(words.contains("`skillopt resume 07a4 --usd N`"), "{words}");
        assert!(raise("run/07a4", "tokens").contains("`budget`"));
        let words = raise("tenant/lab", "requests");
        assert!(
            words.contains("`skillopt caps lab --requests N`"),
            "{words}"
        );
    }

    #[test]
    fn a_failed_call_counts_what_may_have_been_billed() {
        let endpoint = || "http://models".to_owned();
        let connection = |detail: &str| CallError::Connection {
            endpoint: endpoint(),
            detail: detail.to_owned(),
        };
        let most = Amount {
            requests: 1,
            prompt_tokens: 100,
            completion_tokens: 900,
            micro_usd: 1_000,
        };
        let whole = (1, 100, 900, 1_000);
        let unfit = CallError::Unfit {
            endpoint: endpoint(),
            detail: "no JSON".to_owned(),
            usage: Usage::default(),
        };
        let late = || CallError::Timeout {
            endpoint: endpoint(),
            limit: std::time::Duration::from_secs(1),
        };
        for (error, expected) in [
            (connection("client error (Connect): refused"), (0, 0, 0, 0)),
            (unfit, whole),
            (CallError::SignIn(Box::new(late())), (0, 0, 0, 0)),
            (
                connection("connection closed before message completed"),
                whole,
            ),
            (late(), whole),
            (
                CallError::Throttled {
                    endpoint: endpoint(),
                    retry_after: None,
                },
                (1, 0, 0, 0),
            ),
        ] {
            let a = billed(&error, most);
            let found = (
                a.requests,
                a.prompt_tokens,
                a.completion_tokens,
                a.micro_usd,
            );
            assert_eq!(found, expected, "{error}");
        }
    }
}
