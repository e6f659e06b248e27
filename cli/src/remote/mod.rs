//! The client of a cluster: where it is, how it is asked, and what its refusals mean to a person.
//!
//! Start at [`ask`] for one question, at [`Remote`] for more.

mod address;
mod away;
mod blobs;
mod download;
mod link;
mod refusal;
mod row;
mod watch;
mod watch_sweep;

pub(crate) use address::Address;
pub(crate) use away::Away;
pub(crate) use blobs::upload;
pub(crate) use download::{Wanted, download};
pub(crate) use link::{Patience, Remote};
pub(crate) use row::{halt, run_json, run_state};
pub(crate) use watch::{News, watch};
pub(crate) use watch_sweep::watch_sweep;

use skillopt_runtime::Shutdown;

use crate::args::RemoteArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::process;

/// Runs `work` with a connection to the coordinator; Ctrl-C ends it.
///
/// # Errors
/// No coordinator is named, or what `work` says.
pub(crate) fn ask<T>(
    args: &RemoteArgs,
    out: &Out,
    work: impl AsyncFnOnce(&Remote) -> Result<T, Failure>,
) -> Result<T, Failure> {
    talk(&Address::of(args)?, out, work)
}

/// Does what [`ask`] does, with an address that was read before.
///
/// # Errors
/// What `work` says.
pub(crate) fn talk<T>(
    address: &Address,
    out: &Out,
    work: impl AsyncFnOnce(&Remote) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let shutdown = Shutdown::new();
    let stop = shutdown.drain.clone();
    let asked = async {
        let remote = Remote::new(address, Patience::ONE_CALL, out);
        tokio::select! {
            biased;
            answer = work(&remote) => answer,
            () = stop.cancelled() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    };
    process::block_on(&shutdown, |_| {}, asked)?
}
