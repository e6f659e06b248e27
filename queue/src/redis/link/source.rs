//! Opens connections to a server, a cluster, or whatever the Sentinels say.

use std::path::Path;
use std::time::Duration;

use ::redis::aio::{ConnectionLike as _, MultiplexedConnection};
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::io::tcp::TcpSettings;
use ::redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use ::redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo as _,
    Pipeline, RedisConnectionInfo, RedisError, TlsCertificates, Value,
};
use deadpool_redis::{Manager, Pool, PoolError, Runtime, Timeouts};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::redis::address::{Address, Kind};
use crate::redis::fault::scrub;
use crate::store::Error;

/// A connection must be there after this time.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Connections of one process that are open at once.
const CONNECTIONS_MAX: usize = 64;

/// Where connections come from. The pools of `deadpool-redis` for clusters and Sentinels can be
/// given neither a certificate nor times to wait, so that those are opened by hand.
pub(super) enum Source {
    Single(Pool),
    Cluster(ClusterClient),
    Sentinel(Mutex<SentinelClient>),
}

/// A connection over which any number of calls may go at once.
#[derive(Clone)]
pub(crate) enum Conn {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Source {
    pub(super) fn new(address: &Address, ca: Option<&Path>) -> Result<Self, Error> {
        let certificates = certificates(address, ca)?;
        let wrong = |error: RedisError| Error::Io {
            place: address.to_string(),
            detail: scrub(address, &error.to_string()),
        };
        match &address.kind {
            Kind::Single => {
                let info = info(address, 0, certificates.as_ref()).map_err(wrong)?;
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECT_MAX))
                    .set_response_timeout(None);
                let manager = Manager::new_with_config(info, config).map_err(wrong)?;
                let times = Timeouts {
                    wait: Some(CONNECT_MAX),
                    create: Some(CONNECT_MAX),
                    recycle: Some(CONNECT_MAX),
                };
                let pool = Pool::builder(manager)
                    .max_size(CONNECTIONS_MAX)
                    .timeouts(times)
                    .runtime(Runtime::Tokio1)
                    .build();
                pool.map(Self::Single).map_err(|error| Error::Io {
                    place: address.to_string(),
                    detail: error.to_string(),
                })
            }
            Kind::Cluster => {
                let nodes = (0..address.hosts.len())
                    .map(|i| info(address, i, certificates.as_ref()))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(wrong)?;
                let mut builder = ClusterClientBuilder::new(nodes)
                    .connection_timeout(CONNECT_MAX)
                    // Tries are repeated by the link, within its own time.
                    .retries(3)
                    .tcp_settings(tcp());
                if let Some(certificates) = certificates {
                    builder = builder.certs(certificates);
                }
                builder.build().map(Self::Cluster).map_err(wrong)
            }
            Kind::Sentinel(name) => {
                let nodes = (0..address.hosts.len()).map(|i| addr(address, i));
                let mut builder =
                    SentinelClientBuilder::new(nodes, name, SentinelServerType::Master)
                        .map_err(wrong)?
                        .set_client_to_redis_db(address.database)
                        .set_client_to_redis_tcp_settings(tcp());
                if address.is_tls {
                    builder = builder.set_client_to_redis_tls_mode(::redis::TlsMode::Secure);
                }
                if let Some(user) = &address.user {
                    builder = builder.set_client_to_redis_username(user);
                }
                if let Some(password) = &address.password {
                    builder = builder.set_client_to_redis_password(password);
                }
                if let Some(user) = &address.sentinel_user {
                    builder = builder.set_client_to_sentinel_username(user);
                }
                if let Some(password) = &address.sentinel_password {
                    builder = builder.set_client_to_sentinel_password(password);
                }
                if let Some(certificates) = certificates {
                    builder = builder
                        .set_client_to_redis_certificates(certificates.clone())
                        .set_client_to_sentinel_certificates(certificates);
                }
                let client = builder.build().map_err(wrong)?;
                Ok(Self::Sentinel(Mutex::new(client)))
            }
        }
    }

    pub(super) async fn connect(&self) -> Result<Conn, RedisError> {
        match self {
            Self::Single(pool) => match pool.get().await {
                // Connections are kept for long, so they leave the pool.
                Ok(connection) => Ok(Conn::Single(deadpool_redis::Connection::take(connection))),
                Err(PoolError::Backend(error)) => Err(error),
                Err(error) => Err(away(&error.to_string())),
            },
            Self::Cluster(client) => timeout(CONNECT_MAX * 2, client.get_async_connection())
                .await
                .map_err(|_| away("no node answers"))?
                .map(Conn::Cluster),
            Self::Sentinel(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECT_MAX))
                    .set_response_timeout(None);
                let mut client = timeout(CONNECT_MAX * 2, client.lock())
                    .await
                    .map_err(|_| away("the Sentinels do not answer"))?;
                let opened = client.get_async_connection_with_config(&config);
                let opened = timeout(CONNECT_MAX * 2, opened).await;
                opened
                    .map_err(|_| away("the Sentinels do not answer"))?
                    .map(Conn::Single)
            }
        }
    }
}

impl Conn {
    pub(crate) async fn send(&mut self, cmd: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::Single(conn) => conn.req_packed_command(cmd).await,
            Self::Cluster(conn) => conn.req_packed_command(cmd).await,
        }
        .and_then(Value::extract_error)
    }

    /// Sends commands of which only the last one's answer matters.
    pub(crate) async fn send_last(
        &mut self,
        pipeline: &Pipeline,
        count: usize,
    ) -> Result<Value, RedisError> {
        match self {
            Self::Single(conn) => conn.req_packed_commands(pipeline, 0, count).await,
            Self::Cluster(conn) => conn.req_packed_commands(pipeline, 0, count).await,
        }
        .and_then(|mut answers| answers.pop().unwrap_or(Value::Nil).extract_error())
    }

    pub(crate) async fn send_all(
        &mut self,
        pipeline: &Pipeline,
        count: usize,
    ) -> Result<Vec<Value>, RedisError> {
        match self {
            Self::Single(conn) => conn.req_packed_commands(pipeline, 0, count).await,
            Self::Cluster(conn) => conn.req_packed_commands(pipeline, 0, count).await,
        }
        .and_then(|answers| answers.into_iter().map(Value::extract_error).collect())
    }
}

fn away(detail: &str) -> RedisError {
    RedisError::from((ErrorKind::Io, "no connection", detail.to_owned()))
}

fn tcp() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn addr(address: &Address, node: usize) -> ConnectionAddr {
    let (host, port) = address.hosts[node].clone();
    if address.is_tls {
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}

fn info(
    address: &Address,
    node: usize,
    certificates: Option<&TlsCertificates>,
) -> Result<ConnectionInfo, RedisError> {
    let mut settings = RedisConnectionInfo::default().set_db(address.database);
    if let Some(user) = &address.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &address.password {
        settings = settings.set_password(password);
    }
    let info = addr(address, node)
        .into_connection_info()?
        .set_tcp_settings(tcp())
        .set_redis_settings(settings);
    match certificates {
        Some(certificates) => {
            let client = ::redis::Client::build_with_tls(info, certificates.clone())?;
            Ok(client.get_connection_info().clone())
        }
        None => Ok(info),
    }
}

/// Reads the certificates to trust, if others than the system's are named.
fn certificates(address: &Address, ca: Option<&Path>) -> Result<Option<TlsCertificates>, Error> {
    let file = address.ca.as_deref().map(Path::new).or(ca);
    let Some(file) = file.filter(|_| address.is_tls) else {
        return Ok(None);
    };
    let root = std::fs::read(file).map_err(|error| Error::Io {
        place: file.display().to_string(),
        detail: format!("the certificates to trust cannot be read: {error}"),
    })?;
    Ok(Some(TlsCertificates {
        client_tls: None,
        root_cert: Some(root),
    }))
}
