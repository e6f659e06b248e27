//! Follows a sweep: tells of each cell as it ends.

use std::collections::BTreeSet;

use skillopt_coordinator::read_model::is_over;
use skillopt_proto::v1::Sweep;
use skillopt_runtime::Shutdown;

use crate::args::WatchArgs;
use crate::commands::sweep_results::{self as results, Shown};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::remote::{self, Address, Patience, Remote};

/// Watches the sweep `id` and shows its results at the end; nothing if there is none.
///
/// # Errors
/// Nobody answers for too long, or a refusal.
pub(crate) async fn watch(
    args: &WatchArgs,
    id: &str,
    out: &Out,
    shutdown: &Shutdown,
) -> Result<Option<Exit>, Failure> {
    let address = Address::of(&args.remote)?;
    let remote = Remote::new(&address, Patience::WHOLE_RUN, out);
    let watched = async {
        let Some(mut shown) = results::find(&remote, id).await? else {
            return Ok(None);
        };
        if !args.how.once {
            // A paused one is shown as it is.
            follow(&remote, id, false, out).await?;
            shown = results::fetch(&remote, id).await?;
        }
        results::print(&shown, out)?;
        Ok(Some(exit(&shown)))
    };
    let ended = shutdown.drain.run_until_cancelled(watched).await;
    ended.unwrap_or(Ok(Some(Exit::Interrupted)))
}

/// Follows the sweep until all cells have ended, or it is paused; tells of each cell that ends.
///
/// # Errors
/// Nobody answers for too long, or a refusal.
pub(crate) async fn follow(
    remote: &Remote,
    id: &str,
    existed: bool,
    out: &Out,
) -> Result<(), Failure> {
    let mut told = BTreeSet::new();
    // The first picture of a paused sweep may be older than its going on.
    let mut pictures = u32::from(!existed);
    remote::watch_sweep(remote, id, |sweep| {
        pictures += 1;
        tell(&sweep, &mut told, out);
        !(sweep.state == "paused" && pictures > 1)
    })
    .await
}

/// Tells of cells that have ended since.
fn tell(sweep: &Sweep, told: &mut BTreeSet<String>, out: &Out) {
    for cell in &sweep.cells {
        let Some(run) = &cell.run else { continue };
        if !is_over(&run.state) || !told.insert(format!("{} {}", cell.name, run.id)) {
            continue;
        }
        if out.json {
            out.object("cell_ended", results::cell_json(cell));
        } else {
            let cause = match run.cause.lines().next() {
                Some(cause) if !cause.is_empty() => format!(": {cause}"),
                _ => String::new(),
            };
            out.chat(format!(
                "{:>4}/{}  {}  {}{cause}",
                told.len(),
                sweep.cells.len(),
                cell.name,
                run.state
            ));
        }
    }
}

/// All cells came to their end: 0; some wait for a person: 4; some were cancelled: 6; else 1.
pub(crate) fn exit(shown: &Shown) -> Exit {
    let counts = &shown.results.counts;
    if counts.finished == counts.cells {
        Exit::Done
    } else if counts.paused > 0 || shown.state == "paused" {
        Exit::Paused
    } else if counts.failed == 0 && counts.cancelled > 0 {
        Exit::Cancelled
    } else {
        Exit::Unexpected
    }
}
