//! The programs of a cluster: coordinator, worker, and both at once for trying out.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use skillopt_core::capability::Kind;

use crate::models::Pattern;

/// Where Redis is.
#[derive(Clone, Debug, Args)]
pub(crate) struct RedisArgs {
    /// Keep queue and answers in this Redis, as in `redis://host:6379/0`; with a password better in
    /// the environment
    #[arg(
        long,
        value_name = "URL",
        env = "SKILLOPT_REDIS_URL",
        hide_env_values = true
    )]
    pub(crate) redis: Option<String>,
    /// Read the password of Redis from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_password_file: Option<PathBuf>,
    /// Trust the certificates that this PEM file vouches for, with `rediss://` [default: those that
    /// the system trusts]
    #[arg(long, value_name = "FILE")]
    pub(crate) redis_ca: Option<PathBuf>,
    /// Begin all keys with this word, so that several clusters may share a Redis
    #[arg(long, value_name = "WORD", default_value = "skillopt")]
    pub(crate) namespace: String,
    /// Keep large values at this place: a folder, or `s3://…`, `gs://…`, `az://…`
    #[arg(
        long,
        value_name = "URL",
        env = "SKILLOPT_OBJECTS",
        hide_env_values = true
    )]
    pub(crate) objects: Option<String>,
    /// Keep answers, inputs and logs for so many days after they were last used; 0 for ever. Give
    /// all coordinators and workers the same
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(..=36_500))]
    pub(crate) keep_days: u32,
    /// Set a job aside, and pause its run, once so many workers lost it: more where machines are
    /// often taken away. Give all coordinators and workers the same
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) losses_max: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt coordinator --redis redis://127.0.0.1:6379\n  \
    skillopt coordinator --redis rediss://redis:6380 --listen 0.0.0.0:7420 \\\n    \
    --tls-cert cert.pem --tls-key key.pem --admin-token-file token\n\n\
    A coordinator keeps nothing that it needs again: any number of them may share one Redis.\n\
    SIGTERM hands its runs to the others; a second one ends it at once.")]
pub(crate) struct CoordinatorArgs {
    #[command(flatten)]
    pub(crate) redis: RedisArgs,
    /// Serve gRPC on this address; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7420")]
    pub(crate) listen: SocketAddr,
    /// Serve `/healthz`, `/readyz` and `/metrics` on this address
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// Prove to clients who this is with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Read the certificate's private key (PEM) from this file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate that this PEM file vouches for
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Let in whoever shows the token in this file, as an admin; others then need a token too
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Allow plain text, and calls without a token, from other machines
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Show this name in lists [default: host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Make run folders here; they may be lost at any time [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Run at most so many runs at once
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs_max: u32,
    /// Read the rates of provider accounts from this YAML or JSON file
    #[arg(long, value_name = "FILE")]
    pub(crate) limits: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt worker --redis redis://127.0.0.1:6379 --slots chat=256\n  \
    OPENAI_COMPATIBLE_API_KEY=… skillopt worker --redis rediss://redis:6380 --slots chat=64,exec=4\n\n\
    Credentials of models are the worker's own: they stay in its environment. SIGTERM lets it finish\n\
    what it has within --drain-seconds and hand back the rest; a second one ends it at once.")]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) redis: RedisArgs,
    /// Run so many jobs at once, by kind
    #[arg(
        long,
        value_name = "KIND=N,…",
        default_value = "chat=256",
        value_parser = slots
    )]
    pub(crate) slots: Slots,
    /// Serve `/healthz`, `/readyz` and `/metrics` on this address
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// Show this name in lists [default: host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Let jobs under way go on for so long after SIGTERM
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub(crate) drain_seconds: u64,
    /// Give jobs of a worker that is not heard of for so long to others; an outage of Redis of up to
    /// two thirds of it costs nothing
    #[arg(long, value_name = "N", default_value_t = 45, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) lease_seconds: u64,
    /// Call servers that need no key if their address is like this, as in `http://gpu-*:8000/v1`;
    /// servers on this machine may always be called
    #[arg(long, value_name = "URL")]
    pub(crate) allow_endpoint: Vec<Pattern>,
    /// Keep items, skills and prompts in so much memory, in MiB
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cache_mib: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    skillopt up\n  \
    skillopt up --workers 4 --slots chat=64 --dir cluster\n\n\
    Starts redis-server, a coordinator and workers on this machine, for trying it out. Ctrl-C takes\n\
    all down again.")]
pub(crate) struct UpArgs {
    /// Start so many workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,
    /// Let each worker run so many jobs at once, by kind
    #[arg(
        long,
        value_name = "KIND=N,…",
        default_value = "chat=64",
        value_parser = slots
    )]
    pub(crate) slots: Slots,
    /// Serve gRPC on this address; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7420")]
    pub(crate) listen: SocketAddr,
    /// Keep answers and logs here, for the next time [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Use this program as Redis
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub(crate) redis_server: PathBuf,
}

/// How a child of `skillopt up` is started: it dies with its parent.
#[derive(Debug, Args)]
pub(crate) struct ChildArgs {
    /// The parent's process number
    #[arg(long, value_name = "PID")]
    pub(crate) parent: i32,
    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// What a sandbox tells its init, which reads it itself.
#[derive(Debug, Args)]
pub(crate) struct SandboxInitArgs {
    /// A mode and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<std::ffi::OsString>,
}

/// Slots by kind, each kind once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots(pub(crate) Vec<(Kind, usize)>);

/// Most slots of one kind: thousands of calls in flight are fine, a typo is not.
const SLOTS_MAX: usize = 100_000;

impl std::fmt::Display for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(kind, n)| format!("{kind}={n}"))
            .collect();
        f.write_str(&parts.join(","))
    }
}

/// Reads `chat=256,exec=4`; a lone number counts for `chat`.
fn slots(text: &str) -> Result<Slots, String> {
    let mut all: Vec<(Kind, usize)> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (name, number) = part.split_once('=').unwrap_or(("chat", part));
        let kind = Kind::parse(name).ok_or_else(|| {
            let names = Kind::ALL.map(|kind| format!("`{kind}`")).join(" or ");
            format!(
                "there are no slots of the kind `{name}`; write {names}, as in `chat=256,exec=4`"
            )
        })?;
        let n: usize = number
            .parse()
            .ok()
            .filter(|n| *n <= SLOTS_MAX)
            .ok_or_else(|| {
                format!("`{number}` is no number of slots from 0 to {SLOTS_MAX}; write `{kind}=64`")
            })?;
        if all.iter().any(|(known, _)| *known == kind) {
            return Err(format!("`{kind}` is there twice"));
        }
        all.push((kind, n));
    }
    if all.iter().all(|(_, n)| *n == 0) {
        return Err("a worker without slots does nothing; write `chat=64`".to_owned());
    }
    Ok(Slots(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_by_kind() {
        for (text, want) in [
            ("chat=256,exec=4", Ok("chat=256,exec=4")),
            ("64", Ok("chat=64")),
            ("exec=2", Ok("exec=2")),
            ("chta=1", Err("no slots of the kind `chta`")),
            ("chat=x", Err("`x` is no number")),
            ("chat=1000000", Err("no number of slots")),
            ("chat=1,chat=2", Err("twice")),
            ("chat=0", Err("does nothing")),
            ("", Err("no number")),
        ] {
            match (slots(text), want) {
                (Ok(seen), Ok(want)) => assert_eq!(seen.to_string(), want),
                (Err(seen), Err(want)) => assert!(seen.contains(want), "{text}: {seen}"),
                (seen, want) => panic!("{text}: {seen:?}, not {want:?}"),
            }
        }
    }
}
