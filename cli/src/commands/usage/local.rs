//! What a run in a folder of this machine has used.

use std::collections::BTreeMap;
use std::path::Path;

use skillopt_coordinator::folder::RunFolder;
use skillopt_proto::v1::Usage;
use skillopt_queue::ledger::{Counts, Tally, Use};

use super::tell;
use crate::args::By;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::identity;
use crate::marker::Marker;
use crate::output::Out;
use crate::spent::Spent;

/// Shows what the run in `path` has used.
///
/// # Errors
/// There is none, it is one of a cluster, or nobody wrote down what it used.
pub(super) fn run(path: &Path, by: By, out: &Out) -> Result<Exit, Failure> {
    let (run, _) = identity(path)?;
    let folder = RunFolder::new(path);
    let Some(spent) = Spent::read(&folder)? else {
        return Err(unknown(path, &folder));
    };
    let tally = spent.tally();
    let rows = match by {
        By::Run => vec![whole(run.as_str(), path, &spent, &tally)],
        By::Role => parts(&tally, |of| &of.role),
        By::Stage => parts(&tally, |of| &of.stage),
        By::Model => parts(&tally, |of| &of.model),
        By::Sweep | By::Tenant => {
            let words = format!(
                "`{}` is a run of one process, which belongs to no {}",
                path.display(),
                by.word()
            );
            return Err(Failure::usage(words).hint("use `--by run`, `role`, `stage` or `model`"));
        }
    };
    if rows.is_empty() && !out.json {
        out.chat("nothing was used yet");
        return Ok(Exit::Done);
    }
    tell(by, &rows, out);
    Ok(Exit::Done)
}

fn unknown(path: &Path, folder: &RunFolder) -> Failure {
    let shown = path.display();
    match Marker::read(folder).filter(|marker| !marker.run.is_empty()) {
        Some(Marker {
            run, coordinator, ..
        }) => Failure::usage(format!("`{shown}` holds a run of a cluster")).hint(format!(
            "ask there: `skillopt usage {run} --coordinator {coordinator}`"
        )),
        None => Failure::usage(format!("`{shown}` does not say what its run has used")).hint(
            "runs write it down since this release; `skillopt show` has the tokens of the answers",
        ),
    }
}

/// Returns what the whole run has used.
fn whole(id: &str, path: &Path, spent: &Spent, tally: &Tally) -> Usage {
    let used = spent.amount.minus(spent.held);
    let counted = counted(id.to_owned(), tally.total());
    Usage {
        name: path.display().to_string(),
        requests: used.requests,
        prompt_tokens: used.prompt_tokens,
        completion_tokens: used.completion_tokens,
        micro_usd: counted.micro_usd.map(|_| used.micro_usd),
        reserved_requests: spent.held.requests,
        reserved_tokens: spent.held.tokens(),
        reserved_micro_usd: spent.held.micro_usd,
        cap_requests: spent.caps.requests,
        cap_tokens: spent.caps.tokens,
        cap_micro_usd: spent.caps.micro_usd,
        ..counted
    }
}

/// Adds up by a part of what calls were for.
fn parts(tally: &Tally, part: impl Fn(&Use) -> &str) -> Vec<Usage> {
    let mut rows: BTreeMap<&str, Counts> = BTreeMap::new();
    for (of, counts) in &tally.0 {
        rows.entry(part(of)).or_default().add(counts);
    }
    let rows = rows.into_iter();
    rows.map(|(id, counts)| counted(id.to_owned(), counts))
        .collect()
}

/// One unknown price makes a sum unknown, and not less.
fn counted(id: String, counts: Counts) -> Usage {
    Usage {
        id,
        requests: counts.requests,
        prompt_tokens: counts.prompt_tokens,
        completion_tokens: counts.completion_tokens,
        cached_tokens: counts.cached_tokens,
        reasoning_tokens: counts.reasoning_tokens,
        micro_usd: (counts.unpriced == 0).then_some(counts.micro_usd),
        unpriced_requests: counts.unpriced,
        outcomes: counts.outcomes.into_iter().collect(),
        ..Usage::default()
    }
}
