//! `skillopt cancel`: ends a run or a sweep for good.

use serde_json::json;
use skillopt_proto::v1::{CancelRunRequest, CancelSweepRequest};

use crate::args::CancelArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::words::plural;
use crate::remote::{self, run_json};

pub(crate) fn run(args: &CancelArgs, out: &Out) -> Result<Exit, Failure> {
    let id = &args.id;
    remote::ask(&args.remote, out, async |remote| {
        let asked = CancelRunRequest { id: id.clone() };
        let answer = remote
            .find(async |clients| clients.runs().cancel_run(asked.clone()).await)
            .await?;
        if let Some(answer) = answer {
            let run = answer.run.unwrap_or_default();
            if out.json {
                out.object(
                    "cancelled",
                    json!({"run": run_json(&run), "removed": answer.removed, "signalled": answer.signalled}),
                );
            } else {
                let verb = match run.state.as_str() {
                    "cancelled" => "is cancelled",
                    _ => "is being cancelled",
                };
                out.line(format!(
                    "run {} {verb}: {} left the queue, {} told to stop",
                    run.id,
                    plural(answer.removed, "job"),
                    if answer.signalled == 1 {
                        "1 was".to_owned()
                    } else {
                        format!("{} were", answer.signalled)
                    }
                ));
            }
            return Ok(Exit::Done);
        }
        let asked = CancelSweepRequest { id: id.clone() };
        let answer = remote
            .find(async |clients| clients.sweeps().cancel_sweep(asked.clone()).await)
            .await?
            .ok_or_else(|| super::pause::unknown(id))?;
        let sweep = answer.sweep.unwrap_or_default();
        if sweep.state == "running" && !out.json {
            out.line(format!("sweep {} is being cancelled", sweep.id));
        } else {
            super::pause::tell_sweep(&sweep, out);
        }
        Ok(Exit::Done)
    })
}
