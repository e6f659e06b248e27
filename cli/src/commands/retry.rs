//! `skillopt retry`: runs cells of a sweep again that failed or were cancelled.

use skillopt_proto::v1::RetryCellsRequest;

use crate::args::RetryArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::remote;

pub(crate) fn run(args: &RetryArgs, out: &Out) -> Result<Exit, Failure> {
    let asked = RetryCellsRequest {
        id: args.id.clone(),
        cells: args.cells.clone(),
    };
    remote::ask(&args.remote, out, async |remote| {
        let answer = remote
            // A second call would find the cells at work.
            .call_once(async |clients| clients.sweeps().retry_cells(asked.clone()).await)
            .await?;
        super::pause::tell_sweep(&answer.sweep.unwrap_or_default(), out);
        Ok(Exit::Done)
    })
}
