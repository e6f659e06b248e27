//! The composition root of a cluster's processes: everything that stands on Redis.

use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use skillopt_queue::object::Site;
use skillopt_queue::queue::Limits;
use skillopt_queue::redis::{
    Link, Options, RedisBoard, RedisLedger, RedisQueue, RedisRates, RedisStore,
};
use skillopt_queue::{Board, Ledger, Queue, Rates, Store, store};

use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::unix_ms;

use crate::args::RedisArgs;
use crate::failure::Failure;
use crate::redis_url::redis_url;

/// Silence of the server after which a person is told.
const TELL: Duration = Duration::from_secs(2);

/// Where everything is that processes of a cluster share.
#[derive(Clone)]
pub(crate) struct Place {
    url: String,
    options: Options,
}

impl Place {
    /// Reads where it is.
    ///
    /// # Errors
    /// No Redis is named, or its password cannot be read.
    pub(crate) fn of(args: &RedisArgs) -> Result<Self, Failure> {
        let options = Options {
            namespace: args.namespace.clone(),
            objects: args.objects.as_deref().map(Site::from_env),
            ca: args.redis_ca.clone(),
            keep: keep(args.keep_days),
            limits: Limits {
                losses_max: args.losses_max,
                ..Limits::default()
            },
            ..Options::default()
        };
        Ok(Self {
            url: redis_url(args)?,
            options,
        })
    }

    /// Returns the server without its login.
    fn shown(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("redis", &self.url));
        let rest = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        format!("{scheme}://{}", &rest[..end])
    }
}

/// Returns how long values are kept after they were last used; `None` is for ever.
fn keep(days: u32) -> Option<Duration> {
    (days > 0).then(|| Duration::from_secs(u64::from(days) * 24 * 3_600))
}

/// What stands on Redis.
pub(crate) struct Parts {
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) board: Arc<dyn Board>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) rates: Arc<dyn Rates>,
    /// The server, without its login.
    pub(crate) server: String,
    /// The store as what it is.
    own: RedisStore,
}

impl Parts {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be used; the message says why and what to do.
    pub(crate) async fn open(place: &Place) -> Result<Self, store::Error> {
        let link = Link::open(&place.url, place.options.clone()).await?;
        let store = RedisStore::new(link.clone())?;
        Ok(Self {
            server: link.place(),
            queue: Arc::new(RedisQueue::open(store.clone()).await?),
            store: Arc::new(store.clone()),
            own: store,
            board: Arc::new(RedisBoard::new(link.clone())),
            ledger: Arc::new(RedisLedger::new(link.clone())),
            rates: Arc::new(RedisRates::new(link)),
        })
    }
}

impl Parts {
    /// Connects, and tries out where large values go; nothing if somebody wants to stop before. `say`
    /// hears when nobody answers.
    ///
    /// # Errors
    /// As [`Parts::open`]; or large values cannot be kept where they are to go.
    pub(crate) async fn open_unless(
        shutdown: &Shutdown,
        place: &Place,
        say: impl Fn(&str),
    ) -> Result<Option<Self>, store::Error> {
        let tell = async |what: &str| {
            tokio::time::sleep(TELL).await;
            say(&format!(
                "{what} does not answer; trying on for {} s",
                place.options.unreachable_max.as_secs()
            ));
            std::future::pending::<Infallible>().await
        };
        let redis = format!("Redis at {}", place.shown());
        let parts = tokio::select! {
            biased;
            () = shutdown.drain.cancelled() => return Ok(None),
            parts = Self::open(place) => parts?,
            never = tell(&redis) => match never {},
        };
        tokio::select! {
            biased;
            () = shutdown.drain.cancelled() => Ok(None),
            checked = parts.own.check() => checked.map(|()| Some(parts)),
            never = tell("the place of large values") => match never {},
        }
    }
}

/// Listens before anything else is started, so that an address in use is told at once.
///
/// # Errors
/// The address cannot be used.
pub(crate) fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let cannot = |e: std::io::Error| {
        Failure::usage(format!("cannot listen on {address}: {e}"))
            .hint("choose another address; port 0 takes a free one")
    };
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    Ok((listener, bound))
}

/// Returns a name that no other process has, also after a restart on the same host.
pub(crate) fn unique(name: &str) -> String {
    // The standard library seeds each of these from the system's randomness.
    let mark = RandomState::new().hash_one(unix_ms());
    format!("{name}.{:08x}", mark & 0xffff_ffff)
}

/// Names this process: host and process number.
pub(crate) fn own_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok());
    let host = host
        .as_deref()
        .map(str::trim)
        .filter(|host| !host.is_empty());
    format!("{}-{}", host.unwrap_or("local"), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shown_without_its_login() {
        for (url, want) in [
            ("redis://h:1", "redis://h:1"),
            ("rediss://me:p%40ss@h:1/2?ca=x", "rediss://h:1"),
            ("redis://:a/b@h", "redis://h"),
        ] {
            let place = Place {
                url: url.to_owned(),
                options: Options::default(),
            };
            assert_eq!(place.shown(), want);
        }
    }

    #[tokio::test]
    async fn who_wants_to_stop_need_not_wait_for_a_server() {
        let place = Place {
            url: "redis://127.0.0.1:1".to_owned(),
            options: Options::default(),
        };
        let shutdown = Shutdown::new();
        shutdown.drain.cancel();
        let opened = Parts::open_unless(&shutdown, &place, |_| {}).await;
        assert!(opened.unwrap().is_none());
    }

    #[test]
    fn no_days_is_for_ever() {
        assert_eq!(keep(0), None);
        assert_eq!(keep(30), Options::default().keep);
    }
}
