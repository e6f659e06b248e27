//! `skillopt token`: who may do what in a cluster.

use serde_json::json;
use skillopt_proto::v1::{CreateTokenRequest, ListTokensRequest, RevokeTokenRequest, Token};

use crate::args::{Role, TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::table::table;
use crate::output::words::harmless;
use crate::process::date;
use crate::remote;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

impl Role {
    const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Admin => "admin",
        }
    }
}

pub(crate) fn run(command: &TokenCommand, out: &Out) -> Result<Exit, Failure> {
    match command {
        TokenCommand::Create(args) => create(args, out),
        TokenCommand::List(args) => list(args, out),
        TokenCommand::Revoke(args) => revoke(args, out),
    }
}

fn create(args: &TokenCreateArgs, out: &Out) -> Result<Exit, Failure> {
    let asked = CreateTokenRequest {
        role: args.role.word().to_owned(),
        tenant: args.tenant.clone(),
        name: args.name.clone(),
        lasts_ms: args.days.map_or(0, |days| u64::from(days) * DAY_MS),
    };
    // Asked twice it would make two, one of which nobody has seen.
    let made = remote::ask(&args.remote, out, async |remote| {
        remote
            .call_once(async |clients| clients.cluster().create_token(asked).await)
            .await
    })?;
    if out.json {
        out.object("token", json!({"id": made.id, "token": made.token}));
        return Ok(Exit::Done);
    }
    out.line(&made.token);
    out.chat(format!(
        "this is shown once; take it back with `skillopt token revoke {}`",
        made.id
    ));
    Ok(Exit::Done)
}

fn list(args: &TokenListArgs, out: &Out) -> Result<Exit, Failure> {
    let answer = remote::ask(&args.remote, out, async |remote| {
        remote
            .call(async |clients| clients.cluster().list_tokens(ListTokensRequest {}).await)
            .await
    })?;
    if out.json {
        for token in &answer.tokens {
            let ends = (token.ends_ms > 0).then_some(token.ends_ms);
            out.object(
                "token",
                json!({
                    "id": token.id,
                    "name": token.name,
                    "role": token.role,
                    "tenant": token.tenant,
                    "created_unix_ms": token.created_ms,
                    "ends_unix_ms": ends,
                }),
            );
        }
        return Ok(Exit::Done);
    }
    if answer.tokens.is_empty() {
        out.chat("no token; `skillopt token create` makes one");
        return Ok(Exit::Done);
    }
    let head = ["token", "name", "role", "tenant", "made", "ends"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(answer.tokens.iter().map(row));
    for line in table(&rows) {
        out.line(line);
    }
    Ok(Exit::Done)
}

fn row(token: &Token) -> Vec<String> {
    vec![
        token.id.clone(),
        harmless(&token.name),
        token.role.clone(),
        match token.tenant.as_str() {
            "" => "all".to_owned(),
            tenant => harmless(tenant),
        },
        date(token.created_ms),
        match token.ends_ms {
            0 => "never".to_owned(),
            ms => date(ms),
        },
    ]
}

fn revoke(args: &TokenRevokeArgs, out: &Out) -> Result<Exit, Failure> {
    let asked = RevokeTokenRequest {
        id: args.id.clone(),
    };
    remote::ask(&args.remote, out, async |remote| {
        remote
            .call(async |clients| clients.cluster().revoke_token(asked.clone()).await)
            .await
    })?;
    if out.json {
        out.object("revoked", json!({"id": args.id}));
    } else {
        out.line(format!("token {} is void", args.id));
    }
    Ok(Exit::Done)
}
