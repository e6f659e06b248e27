//! Puts a coordinator together and serves it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skillopt_proto::v1;
use skillopt_queue::Store;
use skillopt_runtime::Shutdown;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use super::admitted::{Admitted, callers};
use super::auth::{Gate, Rules};
use super::cells::Cells;
use super::folders::{Folders, ScratchError};
use super::http::{self, Pages};
use super::lines::Lines;
use super::live::Live;
use super::options::{Options, Tls};
use super::parts::Parts;
use super::rows::Rows;
use super::rpc::{Desk, Uploads};
use super::runner::{self, Runner};
use super::table::Table;
use super::teller::Teller;
use super::troubles::Troubles;
use crate::bundle::Suites;
use crate::scheduler::Limits;
use crate::sweep;
use crate::sweep::desk::Sweeps;
use crate::sweep::rpc::Rpc;

/// Longest message that comes in. Blobs come in chunks of 1 MiB; a sweep of 1,000 cells is a few
/// hundred KiB.
const DECODE_MAX: usize = 8 << 20;
/// Longest message that goes out: a sweep with all its cells and results.
const ENCODE_MAX: usize = 64 << 20;
/// How often a silent connection is asked for a sign of life.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Streams of one connection.
const STREAMS_MAX: u32 = 1_000;
/// How often it is looked whether large values can be stored and read.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long pages that are being read, or folders that are being made, keep a coordinator that leaves.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// Why a coordinator does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It would be open to everybody.
    #[error(
        "`{0}` can be reached from other machines, and everything would go there as plain text; \
         give --tls-cert and --tls-key, listen on 127.0.0.1, or allow it with --insecure"
    )]
    Plain(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on `{address}`: {cause}; choose another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        cause: std::io::Error,
    },
    /// A certificate is wrong.
    #[error("the certificate or its key cannot be used: {0}; both are PEM")]
    Tls(String),
    /// The place of run folders cannot be used.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The server stopped by itself.
    #[error("the server stopped: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// A fault of ours.
    #[error("{0}")]
    Fault(String),
}

/// A coordinator that listens and does not serve yet.
pub struct Coordinator {
    options: Options,
    parts: Parts,
    listener: TcpListener,
    http: Option<TcpListener>,
}

impl Coordinator {
    /// Takes the addresses.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn bind(options: Options, parts: Parts) -> Result<Self, ServeError> {
        let is_open = !options.listen.ip().is_loopback();
        if is_open && options.tls.is_none() && !options.insecure {
            return Err(ServeError::Plain(options.listen));
        }
        let listener = listen(options.listen).await?;
        let http = match options.http {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        Ok(Self {
            options,
            parts,
            listener,
            http,
        })
    }

    /// Returns where gRPC is served.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns where the pages for machines are served, if they are.
    ///
    /// # Errors
    /// The system does not say.
    pub fn http_address(&self) -> std::io::Result<Option<SocketAddr>> {
        self.http.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Serves until told to stop. On `drain` its runs go to other coordinators; on `now` everything
    /// stops as if the machine had died. Troubles that are tried again are told through `say`.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn serve(
        self,
        shutdown: Shutdown,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<(), ServeError> {
        let Self {
            options,
            parts,
            listener,
            http,
        } = self;
        let suites: Arc<Suites> = Arc::default();
        let folders = Folders::open(&options.scratch, parts.clone(), Arc::clone(&suites))?;
        let (folders, live) = (Arc::new(folders), Live::default());
        let table = Table::new(parts.clone());
        let lines = Lines::start(&parts, Limits::default());
        let teller = Teller::new(
            parts.clone(),
            lines.clone(),
            live.clone(),
            &options.name,
            &options.program,
        );
        let teller = Arc::new(teller);
        let settings = runner::Settings {
            name: options.name.clone(),
            runs_max: options.runs_max,
            tend: options.tend,
        };
        let runner = Arc::new(Runner::new(
            settings,
            table.clone(),
            Arc::clone(&folders),
            lines.clone(),
            live.clone(),
            Arc::clone(&parts.ledger),
        ));
        let is_open = options.listen.ip().is_loopback() || options.insecure;
        let rules = Rules {
            is_open,
            admin: options.admin,
        };
        let rows = Rows::new(parts.clone(), live.clone());
        let cells = Cells {
            parts: parts.clone(),
            table: table.clone(),
            rows: rows.clone(),
            suites,
        };
        let sweeps = Arc::new(Sweeps::new(
            Arc::clone(&parts.board),
            Arc::clone(&parts.store),
            Arc::clone(&parts.ledger),
            Arc::new(cells),
        ));
        let desk = Desk {
            gate: Gate::new(parts.clone(), rules),
            table: table.clone(),
            sweeps: Arc::clone(&sweeps),
            rows,
            live: live.clone(),
            folders: Arc::clone(&folders),
            teller: Arc::clone(&teller),
            parts: parts.clone(),
            uploads: Uploads::default(),
            program: options.program.clone(),
            shutdown: shutdown.clone(),
        };
        let end = CancellationToken::new();
        let mut beside = JoinSet::new();
        beside.spawn(Arc::clone(&teller).run(end.clone()));
        let say = Arc::new(say);
        let watched = watch_values(Arc::clone(&parts.store), Arc::clone(&say));
        let until = end.clone();
        beside.spawn(async move { until.run_until_cancelled(watched).await.unwrap_or_default() });
        if let Some(listener) = http {
            let pages = Pages {
                parts,
                table,
                teller,
                live,
                leaving: shutdown.drain.clone(),
            };
            beside.spawn(http::serve(listener, pages, end.clone()));
        }
        let mut works = JoinSet::new();
        works.spawn(runner.run(shutdown.clone()));
        works.spawn(drive(
            Arc::clone(&sweeps),
            options.name.clone(),
            shutdown.clone(),
            move |text: &str| say(text),
        ));
        let rpc = Rpc::new(sweeps, callers(), shutdown.clone());
        let served = grpc(&options, desk, rpc, listener, &shutdown).await;
        // Also when the server failed: nothing may be left behind.
        shutdown.drain.cancel();
        let mut fault = None;
        while let Some(ended) = works.join_next().await {
            fault = fault.or(ended.err().map(|e| ServeError::Fault(e.to_string())));
        }
        lines.close().await;
        // Nothing reads the store, or writes a folder, after this; what lasts longer ends with the process.
        let settled = tokio::time::timeout(FAREWELL_MAX, folders.settle());
        let settled = shutdown.now.run_until_cancelled(settled).await;
        settled.unwrap_or(Ok(())).unwrap_or_default();
        end.cancel();
        let farewell = async {
            while let Some(ended) = beside.join_next().await {
                fault = fault
                    .take()
                    .or(ended.err().map(|e| ServeError::Fault(e.to_string())));
            }
        };
        if tokio::time::timeout(FAREWELL_MAX, farewell).await.is_err() {
            // Somebody keeps a page open.
            beside.shutdown().await;
        }
        served?;
        fault.map_or(Ok(()), Err)
    }
}

/// Brings sweeps on; on `now` it stops as if the machine had died.
async fn drive(
    sweeps: Arc<Sweeps>,
    name: String,
    shutdown: Shutdown,
    say: impl Fn(&str) + Send + Sync,
) {
    // What goes wrong is tried again.
    let troubles = Mutex::new(Troubles::default());
    let report = |what: &str, error: &sweep::error::Error| {
        let text = format!("sweep {what}: {error}; it is tried again");
        let mut troubles = troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if troubles.is_news(what, &text, Instant::now()) {
            say(&text);
        }
    };
    let driving = sweeps.drive(&name, &shutdown, report);
    shutdown.now.run_until_cancelled(driving).await;
}

/// Tells when large values cannot be stored or read any more, and when they can again. Goes on until
/// dropped.
async fn watch_values(store: Arc<dyn Store>, say: Arc<impl Fn(&str)>) {
    let mut was_away = false;
    loop {
        let away = store.away().await;
        match &away {
            Some(away) if !was_away => say(&away.to_string()),
            None if was_away => say("large values can be stored and read again"),
            _ => {}
        }
        was_away = away.is_some();
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|cause| ServeError::Listen { address, cause })
}

async fn grpc(
    options: &Options,
    desk: Desk,
    rpc: Rpc,
    listener: TcpListener,
    shutdown: &Shutdown,
) -> Result<(), ServeError> {
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(STREAMS_MAX);
    if let Some(tls) = &options.tls {
        let config = tls_config(tls);
        server = server
            .tls_config(config)
            .map_err(|e| ServeError::Tls(cause(&e)))?;
    }
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_serving::<v1::runs_server::RunsServer<Desk>>()
        .await;
    reporter
        .set_serving::<v1::content_server::ContentServer<Desk>>()
        .await;
    reporter
        .set_serving::<v1::cluster_server::ClusterServer<Desk>>()
        .await;
    reporter
        .set_serving::<v1::sweeps_server::SweepsServer<Rpc>>()
        .await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(v1::DESCRIPTORS)
        .build_v1()
        .map_err(|e| ServeError::Fault(e.to_string()))?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let router = server
        .add_service(health)
        .add_service(reflection)
        .add_service(Admitted::new(
            v1::sweeps_server::SweepsServer::new(rpc)
                .max_decoding_message_size(DECODE_MAX)
                .max_encoding_message_size(ENCODE_MAX),
            desk.gate.clone(),
        ))
        .add_service(
            v1::runs_server::RunsServer::new(desk.clone())
                .max_decoding_message_size(DECODE_MAX)
                .max_encoding_message_size(ENCODE_MAX),
        )
        .add_service(
            v1::content_server::ContentServer::new(desk.clone())
                .max_decoding_message_size(DECODE_MAX)
                .max_encoding_message_size(ENCODE_MAX),
        )
        .add_service(
            v1::cluster_server::ClusterServer::new(desk)
                .max_decoding_message_size(DECODE_MAX)
                .max_encoding_message_size(ENCODE_MAX),
        );
    let stop = shutdown.drain.clone();
    let serving = router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned());
    tokio::pin!(serving);
    let late = async {
        shutdown.drain.cancelled().await;
        tokio::select! {
            () = tokio::time::sleep(options.grace) => {}
            () = shutdown.now.cancelled() => {}
        }
    };
    tokio::select! {
        served = &mut serving => Ok(served?),
        () = late => Ok(()),
    }
}

fn tls_config(tls: &Tls) -> ServerTlsConfig {
    // With two implementations in one program, none is taken by itself. If this was done before,
    // that choice stands.
    drop(rustls::crypto::ring::default_provider().install_default());
    let config = ServerTlsConfig::new().identity(Identity::from_pem(&tls.certificate, &tls.key));
    match &tls.client_ca {
        Some(ca) => config.client_ca_root(Certificate::from_pem(ca)),
        None => config,
    }
}

/// Returns the innermost cause of an error, which says most.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
