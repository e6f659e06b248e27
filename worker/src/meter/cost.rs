//! What a call costs: at most, before it; and what it was, after it.

use skillopt_backends::{CallError, ChatRequest};
use skillopt_core::job::{Payer, Price, Usage};
use skillopt_queue::ledger::Amount;

/// Tokens that a provider may add to each message, and to the call.
const OVERHEAD: u64 = 64;

/// Returns most that a call can come to: a token is at least a byte.
pub(super) fn worst(request: &ChatRequest, price: Option<Price>) -> Amount {
    let messages = request.messages.iter();
    let bytes: u64 = messages.map(|m| m.content.len() as u64 + OVERHEAD).sum();
    let schema = request.schema.as_ref();
    let schema = schema.map_or(0, |named| named.schema.to_string().len() as u64);
    let usage = Usage {
        calls: 1,
        prompt_tokens: bytes + schema + OVERHEAD,
        completion_tokens: u64::from(request.max_tokens),
    };
    spent(usage, price)
}

/// Returns what an answered call came to.
pub(super) fn spent(usage: Usage, price: Option<Price>) -> Amount {
    let (prompt_tokens, completion_tokens) = (usage.prompt_tokens, usage.completion_tokens);
    Amount {
        requests: 1,
        prompt_tokens,
        completion_tokens,
        micro_usd: price.map_or(0, |price| price.of(prompt_tokens, completion_tokens)),
    }
}

/// Returns the part of `most` that was sent.
pub(super) fn input(most: Amount, price: Option<Price>) -> Amount {
    let usage = Usage {
        calls: 1,
        prompt_tokens: most.prompt_tokens,
        completion_tokens: 0,
    };
    spent(usage, price)
}

/// Returns what a failed call may have been billed: where the provider refused it, nothing; where
/// it may have worked, what was sent.
pub(super) fn billed(error: &CallError, most: Amount, price: Option<Price>) -> Amount {
    match error {
        CallError::Timeout { .. }
        | CallError::Malformed { .. }
        | CallError::Filtered { .. }
        | CallError::Connection { .. } => input(most, price),
        CallError::Throttled { .. }
        | CallError::Unauthorized { .. }
        | CallError::Server { .. }
        | CallError::Rejected { .. }
        | CallError::Misconfigured { .. } => Amount {
            requests: 1,
            ..Amount::default()
        },
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
