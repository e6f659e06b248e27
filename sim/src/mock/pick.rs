//! Finds the reply to a request, and fills its texts.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::ask::{Api, Ask};
use super::script::{Reply, Rule, Script, Tokens, When};

/// Counters of a script: how often each rule fitted, and each fault struck.
pub(super) struct Counters {
    fits: Vec<AtomicU64>,
    faults: Vec<AtomicU64>,
}

impl Counters {
    pub(super) fn of(script: &Script) -> Self {
        let zeros = || {
            (0..=script.rules.len())
                .map(|_| AtomicU64::new(0))
                .collect()
        };
        Self {
            fits: zeros(),
            faults: zeros(),
        }
    }
}

/// What is said to one request.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<Call>,
    pub(super) finish: String,
    pub(super) usage: Tokens,
    pub(super) chunk_chars: usize,
    pub(super) request: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON text, or whatever the script wants there.
    pub(super) arguments: String,
    pub(super) custom: bool,
}

/// Returns the reply to a request and the number of its rule; the default's is past the last.
pub(super) fn pick<'a>(
    script: &'a Script,
    counters: &Counters,
    api: Api,
    ask: &Ask,
) -> (&'a Reply, usize) {
    let fits = |rule: &Rule| fits(&rule.when, api, ask);
    let found = script.rules.iter().position(fits);
    let number = found.unwrap_or(script.rules.len());
    let earlier = counters.fits[number].fetch_add(1, Ordering::Relaxed);
    let reply = found.and_then(|at| {
        let rule = &script.rules[at];
        let last = rule.sequence.len().checked_sub(1);
        match last {
            Some(last) => {
                let place = usize::try_from(earlier).unwrap_or(usize::MAX);
                rule.sequence.get(place.min(last))
            }
            None => rule.reply.as_ref(),
        }
    });
    (reply.unwrap_or(&script.default), number)
}

/// Returns whether a rule's fault strikes this time.
pub(super) fn strikes(reply: &Reply, counters: &Counters, rule: usize) -> bool {
    let Some(fault) = &reply.fault else {
        return false;
    };
    let earlier = counters.faults[rule].fetch_add(1, Ordering::Relaxed);
    fault.times.is_none_or(|times| earlier < times)
}

fn fits(when: &When, api: Api, ask: &Ask) -> bool {
    let part = |wanted: &Option<String>, text: &str| {
        wanted.as_ref().is_none_or(|wanted| text.contains(wanted))
    };
    let header = |(name, wanted): (&String, &String)| {
        let value = ask.headers.get(&name.to_lowercase());
        value.is_some_and(|value| value.contains(wanted))
    };
    when.api
        .as_ref()
        .is_none_or(|wanted| wanted == api.as_str())
        && part(&when.model, &ask.model)
        && part(&when.text, &ask.text)
        && part(&when.last_user, &ask.last_user)
        && part(&when.system, &ask.system)
        && when
            .without
            .as_ref()
            .is_none_or(|text| !ask.text.contains(text))
        && when
            .tool
            .as_ref()
            .is_none_or(|tool| ask.tools.contains(tool))
        && when.tools.is_none_or(|any| any != ask.tools.is_empty())
        && when.turn.is_none_or(|turn| turn == ask.turn)
        && when.headers.iter().all(header)
}

/// Fills a reply.
pub(super) fn fill(reply: &Reply, ask: &Ask, request: u64) -> Said {
    let fill = |text: &str| {
        text.replace("{model}", &ask.model)
            .replace("{turn}", &ask.turn.to_string())
            .replace("{last_user}", &ask.last_user)
            .replace("{last_tool}", &ask.last_tool)
            .replace("{request}", &request.to_string())
    };
    let text = fill(&reply.text).repeat(reply.repeat.unwrap_or(1));
    let calls: Vec<Call> = reply
        .tool_calls
        .iter()
        .enumerate()
        .map(|(i, tool)| Call {
            id: tool
                .id
                .clone()
                .unwrap_or_else(|| format!("call_{request:06}{i:02}")),
            name: tool.name.clone(),
            arguments: match &tool.arguments {
                Value::String(text) => fill(text),
                Value::Null => "{}".to_owned(),
                value => fill(&value.to_string()),
            },
            custom: tool.custom,
        })
        .collect();
    let finish = reply.finish.clone().unwrap_or_else(|| {
        let word = if calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        word.to_owned()
    });
    let tokens = |text: &str| text.len().div_ceil(4) as u64;
    let said: u64 = calls.iter().map(|call| tokens(&call.arguments) + 8).sum();
    Said {
        usage: reply.usage.unwrap_or_else(|| Tokens {
            input: tokens(&ask.text),
            output: tokens(&text) + said,
            ..Tokens::default()
        }),
        text,
        reasoning: fill(&reply.reasoning),
        calls,
        finish,
        chunk_chars: reply.chunk_chars.unwrap_or(usize::MAX).max(1),
        request,
    }
}

/// Cuts a text into the pieces of a stream.
pub(super) fn pieces(text: &str, chars: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for (n, c) in text.chars().enumerate() {
        if n > 0 && n % chars == 0 {
            pieces.push(std::mem::take(&mut piece));
        }
        piece.push(c);
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}
