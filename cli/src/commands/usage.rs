//! `skillopt usage`: requests, tokens and dollars, by who paid or by what calls were for.

mod local;

use std::path::Path;

use serde_json::{Value, json};
use skillopt_coordinator::read_model::LedgerRow;
use skillopt_proto::v1::{Usage, UsageRequest};

use crate::args::{By, UsageArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::is_run;
use crate::output::Out;
use crate::output::table::table;
use crate::output::words::{amount, count, harmless, money};
use crate::remote;

impl By {
    const fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Sweep => "sweep",
            Self::Tenant => "tenant",
            Self::Role => "role",
            Self::Stage => "stage",
            Self::Model => "model",
        }
    }

    /// Whether it is somebody who pays, and may have a cap.
    const fn is_payer(self) -> bool {
        matches!(self, Self::Run | Self::Sweep | Self::Tenant)
    }
}

pub(crate) fn run(args: &UsageArgs, out: &Out) -> Result<Exit, Failure> {
    if let Some(folder) = args.id.as_deref().map(Path::new)
        && is_here(folder, args.remote.coordinator.is_some())
    {
        return local::run(folder, args.by.unwrap_or(By::Run), out);
    }
    let asked = UsageRequest {
        by: args.by.map_or("", By::word).to_owned(),
        id: args.id.clone().unwrap_or_default(),
    };
    let answer = remote::ask(&args.remote, out, async |remote| {
        remote
            .call(async |clients| clients.cluster().usage(asked.clone()).await)
            .await
    })?;
    // Without a word it is a run, or a sweep if the id is one's.
    let by = args.by.unwrap_or(match answer.by.as_str() {
        "sweep" => By::Sweep,
        _ => By::Run,
    });
    if answer.rows.is_empty() && !out.json {
        out.chat(match by {
            By::Run => "no lone run has used anything; `--by sweep` shows what sweeps have used",
            _ => "nothing was used yet",
        });
        return Ok(Exit::Done);
    }
    tell(by, &answer.rows, out);
    Ok(Exit::Done)
}

/// Returns whether a run of this machine is meant: a folder with one; or any folder, where nobody
/// named a cluster.
fn is_here(folder: &Path, has_cluster: bool) -> bool {
    is_run(folder) || (!has_cluster && folder.is_dir())
}

/// Says what was used.
pub(super) fn tell(by: By, used: &[Usage], out: &Out) {
    if out.json {
        for row in used {
            out.object("usage", json(by, row));
        }
        return;
    }
    let mut rows = Vec::new();
    if by.is_payer() {
        let head = [
            by.word(),
            "name",
            "requests",
            "sent",
            "received",
            "held",
            "dollars",
            "limits",
        ];
        rows.push(head.map(str::to_owned).to_vec());
        rows.extend(used.iter().map(row));
    } else {
        let head = [
            by.word(),
            "requests",
            "sent",
            "cached",
            "received",
            "reasoning",
            "dollars",
            "what came",
        ];
        rows.push(head.map(str::to_owned).to_vec());
        rows.extend(used.iter().map(part_row));
    }
    for line in table(&rows) {
        out.line(line);
    }
}

fn row(row: &Usage) -> Vec<String> {
    let text = |text: &str| {
        if text.is_empty() {
            "—".to_owned()
        } else {
            harmless(text)
        }
    };
    vec![
        harmless(&row.id),
        text(&row.name),
        count(row.requests),
        amount(row.prompt_tokens),
        amount(row.completion_tokens),
        count(row.reserved_requests),
        money(row.micro_usd.map(usd)),
        limits(row),
    ]
}

fn part_row(row: &Usage) -> Vec<String> {
    vec![
        harmless(&row.id),
        count(row.requests),
        amount(row.prompt_tokens),
        amount(row.cached_tokens),
        amount(row.completion_tokens),
        amount(row.reasoning_tokens),
        money(row.micro_usd.map(usd)),
        outcomes(row),
    ]
}

/// Says what came of calls, the most frequent first.
fn outcomes(row: &Usage) -> String {
    let mut all: Vec<(&String, &u64)> = row.outcomes.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let words = all.into_iter().map(|(word, n)| {
        let word = harmless(word).replace('_', " ");
        format!("{word} {}", count(*n))
    });
    let words: Vec<String> = words.collect();
    words.join(", ")
}

/// Says what a purse may use at most.
fn limits(row: &Usage) -> String {
    let parts = [
        row.cap_requests.map(|n| format!("{} requests", count(n))),
        row.cap_tokens.map(|n| format!("{} tokens", amount(n))),
        row.cap_micro_usd.map(|cap| money(Some(usd(cap)))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact below nine thousand million dollars"
)]
fn usd(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// Returns the row that all views of a purse show, with the name of who spends.
fn json(by: By, row: &Usage) -> Value {
    if !by.is_payer() {
        return part_json(by, row);
    }
    let by = by.word();
    let unknown = row.micro_usd.is_none();
    let mut value = json!(LedgerRow {
        purse: format!("{by}/{}", row.id),
        requests: row.requests,
        prompt_tokens: row.prompt_tokens,
        completion_tokens: row.completion_tokens,
        cost_usd: row.micro_usd.map(usd),
        cost_usd_missing_reason: unknown.then(|| "the price of some model is unknown".to_owned()),
        reserved_requests: row.reserved_requests,
        reserved_tokens: row.reserved_tokens,
        reserved_usd: usd(row.reserved_micro_usd),
        cap_requests: row.cap_requests,
        cap_tokens: row.cap_tokens,
        cap_usd: row.cap_micro_usd.map(usd),
    });
    told(&mut value, row);
    value["id"] = row.id.clone().into();
    value["name"] = row.name.clone().into();
    value
}

fn part_json(by: By, row: &Usage) -> Value {
    let mut value = json!({
        "by": by.word(),
        "id": row.id,
        "requests": row.requests,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "cost_usd": row.micro_usd.map(usd),
    });
    told(&mut value, row);
    value
}

/// Adds what is told of calls beside their sums.
fn told(value: &mut Value, row: &Usage) {
    value["cached_tokens"] = row.cached_tokens.into();
    value["reasoning_tokens"] = row.reasoning_tokens.into();
    value["unpriced_requests"] = row.unpriced_requests.into();
    let outcomes: std::collections::BTreeMap<_, _> = row.outcomes.iter().collect();
    value["outcomes"] = json!(outcomes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_calls_is_said_in_order() {
        let outcomes = [("answer", 1_200), ("server_error", 3), ("throttled", 3)];
        let seen = part_row(&Usage {
            id: "merge".to_owned(),
            requests: 1_206,
            cached_tokens: 5,
            outcomes: outcomes.map(|(word, n)| (word.to_owned(), n)).into(),
            ..Usage::default()
        });
        assert_eq!(seen[3], "5");
        assert_eq!(seen[7], "answer 1,200, server error 3, throttled 3");
    }

    #[test]
    fn an_unknown_price_is_not_nothing() {
        let seen = row(&Usage {
            id: "r1".to_owned(),
            requests: 1_200,
            cap_micro_usd: Some(5_000_000),
            cap_requests: Some(9),
            ..Usage::default()
        });
        assert_eq!(
            seen,
            [
                "r1",
                "—",
                "1,200",
                "0",
                "0",
                "0",
                "price unknown",
                "9 requests, $5.00"
            ]
        );
    }
}
