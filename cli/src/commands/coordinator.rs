//! `skillopt coordinator`: serves a cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillopt_coordinator::service::{self, Coordinator, Options, Tls, admin_token};
use skillopt_queue::sqlite::SqliteCopy;
use skillopt_queue::store;
use skillopt_queue::{Store, SystemClock};
use skillopt_runtime::{Shutdown, files};
use tempfile::TempDir;

use crate::account_limits;
use crate::args::CoordinatorArgs;
use crate::cluster::{self, Parts, Place};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::process;

use super::worker::PROGRAM;

/// Largest certificate or token file, in bytes.
const FILE_MAX: u64 = 1 << 20;

pub(crate) fn run(args: &CoordinatorArgs, out: &Out) -> Result<Exit, Failure> {
    let name = args.name.clone().unwrap_or_else(cluster::own_name);
    let place = Place::of(&args.redis)?;
    let limits = args
        .limits
        .as_deref()
        .map(account_limits::load)
        .transpose()?;
    let scratch = Scratch::new(args.scratch.as_deref())?;
    let options = options(args, &name, scratch.path())?;
    let shutdown = Shutdown::new();
    let say = {
        let out = out.clone();
        move |text: &str| out.note(format!("{name}: {text}"))
    };
    let told = {
        let say = say.clone();
        move |count: u32| {
            if count == 1 {
                say("leaving: runs go to other coordinators; a second signal ends it at once");
            }
        }
    };
    let has_tls = options.tls.is_some();
    let work = async {
        let Some(parts) = Parts::open_unless(&shutdown, &place, &say).await? else {
            say("gone");
            return Ok(Exit::Done);
        };
        for (account, limits) in limits.into_iter().flatten() {
            parts.rates.set_limits(&account, limits).await?;
        }
        say(&format!("queue and answers in {}", parts.server));
        let coordinator = Coordinator::bind(options, service_parts(parts)).await?;
        let scheme = if has_tls { "https" } else { "http" };
        say(&format!("gRPC on {scheme}://{}", coordinator.address()?));
        if let Some(address) = coordinator.http_address()? {
            say(&format!("health on http://{address}"));
        }
        // Whoever connects from now on is answered.
        say("ready");
        let troubles = say.clone();
        coordinator
            .serve(shutdown.clone(), move |text: &str| troubles(text))
            .await?;
        say("gone");
        Ok(Exit::Done)
    };
    // Each run has a thread of its own.
    process::block_on_with(args.runs_max as usize, &shutdown, told, work)?
}

fn service_parts(parts: Parts) -> service::Parts {
    service::Parts {
        store: parts.store,
        queue: parts.queue,
        board: parts.board,
        ledger: parts.ledger,
        rates: parts.rates,
        clock: Arc::new(SystemClock::new()),
        export: Arc::new(|path: &Path| -> Result<Arc<dyn Store>, store::Error> {
            Ok(Arc::new(SqliteCopy::open(path)?))
        }),
    }
}

fn options(args: &CoordinatorArgs, name: &str, scratch: &Path) -> Result<Options, Failure> {
    let read = |path: &PathBuf| files::read_limited(path, FILE_MAX);
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls {
            certificate: read(certificate)?,
            key: read(key)?,
            client_ca: args.client_ca.as_ref().map(read).transpose()?,
        }),
        _ => None,
    };
    let admin = args
        .admin_token_file
        .as_ref()
        .map(|path| admin(path))
        .transpose()?;
    Ok(Options {
        listen: args.listen,
        http: args.http,
        program: PROGRAM.to_owned(),
        runs_max: args.runs_max as usize,
        tls,
        admin,
        insecure: args.insecure,
        // Another process of the same name must not take our leases for its own.
        ..Options::local(&cluster::unique(name), scratch.to_owned())
    })
}

/// Reads the admin's token.
fn admin(path: &Path) -> Result<skillopt_core::Hash, Failure> {
    let bytes = files::read_limited(path, FILE_MAX)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    if text.trim().len() < TOKEN_MIN {
        return Err(Failure::usage(format!(
            "`{}` holds no token of at least {TOKEN_MIN} characters",
            path.display()
        ))
        .hint("make one with `openssl rand -hex 32`"));
    }
    Ok(admin_token(&text))
}

/// Shortest token of an admin: a short one can be guessed.
const TOKEN_MIN: usize = 16;

/// Where run folders are made.
enum Scratch {
    Named(PathBuf),
    /// Gone at the end.
    Own(TempDir),
}

impl Scratch {
    fn new(named: Option<&Path>) -> Result<Self, Failure> {
        Ok(match named {
            Some(path) => {
                files::create_dir_all(path)?;
                Self::Named(path.to_owned())
            }
            None => Self::Own(tempfile::Builder::new().prefix("skillopt-").tempdir()?),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Named(path) => path,
            Self::Own(dir) => dir.path(),
        }
    }
}
