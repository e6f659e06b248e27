//! `skillopt retry`: runs cells of a sweep again that failed or were cancelled.

use skillopt_proto::v1::{GetRunRequest, RetryCellsRequest};

use crate::args::RetryArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::remote::{self, Remote};

pub(crate) fn run(args: &RetryArgs, out: &Out) -> Result<Exit, Failure> {
    let asked = RetryCellsRequest {
        id: args.id.clone(),
        cells: args.cells.clone(),
    };
    remote::ask(&args.remote, out, async |remote| {
        let answer = remote
            // A second call would find the cells at work.
            .call_once(async |clients| clients.sweeps().retry_cells(asked.clone()).await)
            .await;
        let answer = match answer {
            Err(failure) if failure.exit == Exit::Usage && is_run(remote, &args.id).await => {
                return Err(Failure::usage(format!(
                    "`{}` is a run; `retry` is for sweeps",
                    args.id
                ))
                .hint(format!(
                    "`skillopt resume {}` goes on with a paused run",
                    args.id
                )));
            }
            answer => answer?,
        };
        super::pause::tell_sweep(&answer.sweep.unwrap_or_default(), out);
        Ok(Exit::Done)
    })
}

/// Tells whether there is a run of this id.
async fn is_run(remote: &Remote, id: &str) -> bool {
    let asked = GetRunRequest { id: id.to_owned() };
    let found = remote
        .call_once(async |clients| clients.runs().get_run(asked).await)
        .await;
    found.is_ok()
}
