//! Waits for a sweep: tells of each cell as it ends, then shows and writes the results.

use std::sync::{Arc, OnceLock};

use skillopt_runtime::Shutdown;

use super::Order;
use crate::commands::sweep_results as results;
use crate::commands::sweep_watch::{exit, follow};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::process;
use crate::remote::{Patience, Remote};

/// Submits, follows the sweep to its end or to a pause, shows the results and writes them.
///
/// # Errors
/// Nobody answers, a refusal, or the results cannot be written.
pub(super) fn wait(order: &Order<'_>, out: &Out) -> Result<Exit, Failure> {
    let shutdown = Shutdown::new();
    let id = Arc::<OnceLock<String>>::default();
    let stop = shutdown.clone();
    let work = async {
        let remote = Remote::new(&order.address, Patience::WHOLE_RUN, out);
        let follow = async {
            let (sweep, existed) = order.submit(&remote, out).await?;
            drop(id.set(sweep.id.clone()));
            follow(&remote, &sweep.id, existed, out).await?;
            let shown = results::fetch(&remote, &sweep.id).await?;
            if let Some(dir) = &order.args.out {
                results::write(&shown, dir)?;
                if order.args.cells {
                    results::fetch_cells(&remote, &shown, dir, out).await?;
                }
            }
            Ok(shown)
        };
        tokio::select! {
            biased;
            ended = follow => ended,
            () = stop.drain.cancelled() => Err(left(id.get())),
        }
    };
    let told = told(out, &id);
    let shown = process::block_on(&shutdown, told, work)??;
    results::print(&shown, out)?;
    if let Some(dir) = &order.args.out {
        out.chat(format!("results: {}", dir.join("sweep.json").display()));
    }
    Ok(exit(&shown))
}

/// The person has gone; the sweep has not.
fn left(id: Option<&String>) -> Failure {
    let failure = Failure::new(Exit::Interrupted, "interrupted");
    match id {
        Some(id) => failure.hint(format!(
            "sweep {id} goes on in the cluster; look at it with `skillopt show {id}`, end it with \
             `skillopt cancel {id}`"
        )),
        None => failure,
    }
}

/// Says what Ctrl-C does.
fn told(out: &Out, id: &Arc<OnceLock<String>>) -> impl Fn(u32) + Send + Sync + 'static {
    let (out, id) = (out.clone(), Arc::clone(id));
    move |count| {
        if count == 1 && id.get().is_some() {
            out.note("leaving; the sweep goes on in the cluster");
        }
    }
}
