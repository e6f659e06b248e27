//! `skillopt caps`: what all runs of a tenant together may use.

use skillopt_proto::v1::{SetCapsRequest, UsageRequest};

use super::usage;
use crate::args::{By, CapsArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::remote;

pub(crate) fn run(args: &CapsArgs, out: &Out) -> Result<Exit, Failure> {
    let is_look =
        args.requests.is_none() && args.tokens.is_none() && args.usd.is_none() && !args.lift;
    let rows = if is_look {
        let asked = UsageRequest {
            by: "tenant".to_owned(),
            id: args.tenant.clone(),
        };
        let answer = remote::ask(&args.remote, out, async |remote| {
            remote
                .call(async |clients| clients.cluster().usage(asked.clone()).await)
                .await
        })?;
        answer.rows
    } else {
        let asked = SetCapsRequest {
            tenant: args.tenant.clone(),
            cap_requests: args.requests,
            cap_tokens: args.tokens,
            cap_micro_usd: args.usd.map(|usd| usd.0),
            lift: args.lift,
        };
        let answer = remote::ask(&args.remote, out, async |remote| {
            remote
                .call(async |clients| clients.cluster().set_caps(asked.clone()).await)
                .await
        })?;
        answer.tenant.into_iter().collect()
    };
    usage::tell(By::Tenant, &rows, out);
    Ok(Exit::Done)
}
