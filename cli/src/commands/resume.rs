//! `skillopt resume`: goes on with a run or a sweep, perhaps with new limits.

use skillopt_proto::v1::{ResumeRunRequest, ResumeSweepRequest};

use crate::args::ResumeArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::remote;

use super::pause::{tell_run, tell_sweep, unknown};

pub(crate) fn run(args: &ResumeArgs, out: &Out) -> Result<Exit, Failure> {
    let (id, caps) = (&args.id, args.caps);
    let micro_usd = caps.usd.map(|usd| usd.0);
    remote::ask(&args.remote, out, async |remote| {
        let asked = ResumeRunRequest {
            id: id.clone(),
            cap_requests: caps.requests,
            cap_tokens: caps.tokens,
            cap_micro_usd: micro_usd,
        };
        let answer = remote
            .find(async |clients| clients.runs().resume_run(asked.clone()).await)
            .await?;
        if let Some(answer) = answer {
            tell_run(&answer.run.unwrap_or_default(), out);
            return Ok(Exit::Done);
        }
        let asked = ResumeSweepRequest {
            id: id.clone(),
            cap_requests: caps.requests,
            cap_tokens: caps.tokens,
            cap_micro_usd: micro_usd,
        };
        let answer = remote
            .find(async |clients| clients.sweeps().resume_sweep(asked.clone()).await)
            .await?
            .ok_or_else(|| unknown(id))?;
        tell_sweep(&answer.sweep.unwrap_or_default(), out);
        Ok(Exit::Done)
    })
}
