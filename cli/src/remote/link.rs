//! Calls that go to another coordinator, and are tried again, when the connection fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use skillopt_proto::v1::cluster_client::ClusterClient;
use skillopt_proto::v1::content_client::ContentClient;
use skillopt_proto::v1::runs_client::RunsClient;
use skillopt_proto::v1::sweeps_client::SweepsClient;
use skillopt_runtime::clock::Stopwatch;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::address::Address;
use super::refusal;
use crate::failure::Failure;
use crate::output::Out;

/// Longest message, in bytes: a page of runs or a sweep with its results; contents travel in chunks.
const MESSAGE_MAX: usize = 64 << 20;
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Time after which a silent coordinator is asked for a sign of life, and until it is given up.
const ALIVE: Duration = Duration::from_secs(10);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(60);
/// First and longest pause between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// Silence after which a person is told.
const TELL: Duration = Duration::from_secs(2);

/// How long a coordinator may be away before a command gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience(Duration);

impl Patience {
    /// For a person who waits for one answer.
    pub(crate) const ONE_CALL: Self = Self(Duration::from_secs(15));
    /// For a command that waits for a run anyway.
    pub(crate) const WHOLE_RUN: Self = Self(Duration::from_secs(600));
}

/// A cluster that can be asked.
pub(crate) struct Remote {
    links: Vec<(String, Channel)>,
    /// The coordinator that answered last.
    current: AtomicUsize,
    token: Option<MetadataValue<Ascii>>,
    patience: Patience,
    out: Out,
}

/// Adds the token to each call.
#[derive(Clone)]
pub(crate) struct Token(Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        Ok(request)
    }
}

type Asked = InterceptedService<Channel, Token>;

/// The services of one coordinator.
#[derive(Clone)]
pub(crate) struct Clients(Asked);

macro_rules! client {
    ($($name:ident: $ty:ident),+) => { $(
        #[doc = concat!("Returns a client of the service `", stringify!($ty), "`.")]
        pub(crate) fn $name(&self) -> $ty<Asked> {
            $ty::new(self.0.clone())
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(MESSAGE_MAX)
        }
    )+ };
}

impl Clients {
    client!(runs: RunsClient, sweeps: SweepsClient, cluster: ClusterClient, content: ContentClient);
}

impl Remote {
    /// Makes ready to ask; nothing is connected yet. Must be called inside a runtime.
    pub(crate) fn new(address: &Address, patience: Patience, out: &Out) -> Self {
        let links = address.endpoints.iter().map(|(url, endpoint)| {
            let endpoint = endpoint
                .clone()
                .connect_timeout(CONNECT)
                .http2_keep_alive_interval(ALIVE)
                .keep_alive_timeout(ALIVE)
                .keep_alive_while_idle(true)
                .tcp_nodelay(true);
            (url.clone(), endpoint.connect_lazy())
        });
        Self {
            links: links.collect(),
            current: AtomicUsize::new(0),
            token: address.token.clone(),
            patience,
            out: out.clone(),
        }
    }

    /// Returns the coordinators as they were named.
    pub(crate) fn places(&self) -> String {
        let names: Vec<String> = self
            .links
            .iter()
            .map(|(url, _)| format!("`{url}`"))
            .collect();
        names.join(", ")
    }

    /// Returns the clients of the coordinator that answered last.
    pub(crate) fn clients(&self) -> Clients {
        let at = self.current.load(Ordering::Relaxed) % self.links.len();
        let channel = self.links[at].1.clone();
        Clients(InterceptedService::new(channel, Token(self.token.clone())))
    }

    /// Asks until there is an answer or a refusal, or nobody has answered for too long. What is
    /// asked must be safe to ask twice.
    ///
    /// # Errors
    /// See above. *Cancel safety*: the question may have been heard.
    pub(crate) async fn call<T>(
        &self,
        ask: impl AsyncFn(Clients) -> Result<Response<T>, Status>,
    ) -> Result<T, Failure> {
        let mut tries = self.tries();
        loop {
            let answer = tokio::time::timeout(ANSWER, ask(self.clients()))
                .await
                .unwrap_or_else(|_| Err(Status::unavailable("it took too long")));
            match answer {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => tries.again(&status).await?,
            }
        }
    }

    /// Asks as [`Remote::call`] does; nothing if what is asked for is not there.
    ///
    /// # Errors
    /// As [`Remote::call`].
    pub(crate) async fn find<T>(
        &self,
        ask: impl AsyncFn(Clients) -> Result<Response<T>, Status>,
    ) -> Result<Option<T>, Failure> {
        self.call(async |clients| match ask(clients).await {
            Ok(response) => Ok(Response::new(Some(response.into_inner()))),
            Err(status) if status.code() == Code::NotFound => Ok(Response::new(None)),
            Err(status) => Err(status),
        })
        .await
    }

    /// Asks once, for what must not be asked twice.
    ///
    /// # Errors
    /// Nobody answers, or a refusal.
    pub(crate) async fn call_once<T>(
        &self,
        ask: impl AsyncFnOnce(Clients) -> Result<Response<T>, Status>,
    ) -> Result<T, Failure> {
        let answer = tokio::time::timeout(ANSWER, ask(self.clients()))
            .await
            .unwrap_or_else(|_| Err(Status::unavailable("it took too long")));
        match answer {
            Ok(response) => Ok(response.into_inner()),
            Err(status) if refusal::is_link(&status) => Err(self.unreachable(&status)),
            Err(status) => Err(refusal::failure(&status)),
        }
    }

    /// Starts a row of tries.
    pub(super) fn tries(&self) -> Tries<'_> {
        Tries {
            remote: self,
            silent: Stopwatch::start(),
            pause: PAUSES.0,
            n: 0,
            is_told: false,
        }
    }

    fn unreachable(&self, status: &Status) -> Failure {
        refusal::unreachable(&self.places(), &refusal::cause(status))
    }
}

/// A row of tries after failures of the connection.
pub(super) struct Tries<'a> {
    remote: &'a Remote,
    silent: Stopwatch,
    pause: Duration,
    n: usize,
    is_told: bool,
}

impl Tries<'_> {
    /// Waits until it is time for another try, at the next coordinator.
    ///
    /// # Errors
    /// It was a refusal, or patience is over.
    pub(super) async fn again(&mut self, status: &Status) -> Result<(), Failure> {
        if !refusal::is_link(status) {
            return Err(refusal::failure(status));
        }
        let remote = self.remote;
        let silent = self.silent.elapsed();
        if silent > remote.patience.0 || refused_for_good(status) {
            return Err(remote.unreachable(status));
        }
        if silent > TELL && !self.is_told {
            self.is_told = true;
            let (places, cause) = (remote.places(), refusal::cause(status));
            remote.out.chat(format!(
                "the coordinator at {places} does not answer ({cause}); trying on for {} s",
                remote.patience.0.as_secs()
            ));
        }
        remote.current.fetch_add(1, Ordering::Relaxed);
        self.n += 1;
        // All are asked once before anybody waits.
        if self.n.is_multiple_of(remote.links.len()) {
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        Ok(())
    }

    /// Begins anew, after a sign of life.
    pub(super) fn reset(&mut self) {
        *self = self.remote.tries();
    }
}

/// Whether another try cannot help: the other side is not who it should be.
fn refused_for_good(status: &Status) -> bool {
    let cause = refusal::cause(status).to_lowercase();
    cause.contains("certificate") || cause.contains("unknownissuer")
}
