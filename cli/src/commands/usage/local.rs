//! What a run in a folder of this machine has used.

use std::path::Path;

use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::usage::{self, Part};
use skillopt_queue::ledger::Balance;

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
    let by_part = |part: Part| usage::by_part(std::slice::from_ref(&tally), part);
    let rows = match by {
        By::Run => {
            let balance = Balance {
                spent: spent.amount.minus(spent.held),
                reserved: spent.held,
                caps: spent.caps,
                has_unpriced: tally.total().unpriced > 0,
            };
            let (id, name) = (run.as_str().to_owned(), path.display().to_string());
            vec![usage::of_purse(id, name, &balance, &tally)]
        }
        By::Role => by_part(|of| &of.role),
        By::Stage => by_part(|of| &of.stage),
        By::Model => by_part(|of| &of.model),
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
