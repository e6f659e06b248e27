//! `skillopt why`: why a run or a job is not moving, in words.

use serde_json::json;
use skillopt_proto::v1::{Wait, WhyRequest};

use crate::args::WhyArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::table::table;
use crate::output::words::{count, harmless, span};
use crate::output::{Out, Tone};
use crate::remote;

pub(crate) fn run(args: &WhyArgs, out: &Out) -> Result<Exit, Failure> {
    let asked = WhyRequest {
        id: args.id.clone().unwrap_or_default(),
    };
    let answer = remote::ask(&args.remote, out, async |remote| {
        remote
            .call(async |clients| clients.cluster().why(asked.clone()).await)
            .await
    })?;
    if out.json {
        let waits: Vec<_> = answer
            .waits
            .iter()
            .map(|w| {
                json!({"code": w.code, "words": w.words, "count": w.count, "oldest_ms": w.oldest_ms, "help": w.help})
            })
            .collect();
        out.object(
            "why",
            json!({
                "id": args.id,
                "words": answer.words,
                "waiting": answer.waiting,
                "running": answer.running,
                "waits": waits,
            }),
        );
        return Ok(Exit::Done);
    }
    let mut lines = answer.words.lines();
    if let Some(first) = lines.next() {
        out.line(out.paint.of(Tone::Strong, &harmless(first)));
    }
    lines.for_each(|line| out.line(harmless(line)));
    if answer.waits.is_empty() {
        return Ok(Exit::Done);
    }
    out.line("");
    for line in waits(&answer.waits) {
        out.line(line);
    }
    out.line(format!(
        "{} waiting, {} running",
        count(answer.waiting),
        count(answer.running)
    ));
    Ok(Exit::Done)
}

fn waits(waits: &[Wait]) -> Vec<String> {
    let head = ["jobs", "oldest", "wait because", "what helps"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(waits.iter().map(|wait| {
        vec![
            count(wait.count),
            span(wait.oldest_ms),
            harmless(&wait.words),
            harmless(&wait.help),
        ]
    }));
    table(&rows)
}
