//! The way to the server: connections, repeated tries, scripts.

mod source;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::{Cmd, Pipeline, RedisError, Value};
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout};

pub(crate) use self::source::Conn;
use self::source::Source;
use super::address::Address;
use super::fault::{Fault, judge};
use super::script::Script;
use crate::clock::Clock;
use crate::object::Site;
use crate::queue::Limits;
use crate::store::Error;

/// Tries of one call: a server that does not answer for this long is asked over a new connection.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// First and longest wait between tries.
const WAITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What is sent in one go.
#[derive(Clone, Copy)]
enum Request<'a> {
    One(&'a Cmd),
    All(&'a Pipeline),
}

impl Request<'_> {
    async fn send(self, conn: &mut Conn) -> Result<Vec<Value>, RedisError> {
        match self {
            Self::One(cmd) => Ok(vec![conn.send(cmd).await?]),
            Self::All(pipeline) => conn.send_all(pipeline, pipeline.len()).await,
        }
    }
}

/// How a server is used.
#[derive(Clone)]
pub struct Options {
    /// Begins every key; several installations may share a server.
    pub namespace: String,
    /// Bounds of the queue.
    pub limits: Limits,
    /// How long results, blobs and logs are kept after they were last written or read; `None` is
    /// for ever.
    pub keep: Option<Duration>,
    /// Where values over 64 KiB go, e.g. `file:///srv/objects` or `s3://bucket/folder`; `None`
    /// leaves them in Redis.
    pub objects: Option<Site>,
    /// A server that cannot be reached for this long is an error.
    pub unreachable_max: Duration,
    /// Jobs of which nothing was heard for this long are asked after.
    pub ask_after: Duration,
    /// Certificates to trust instead of the system's; `?ca=` in the address counts more.
    pub ca: Option<PathBuf>,
    /// Tells the time instead of the server, in tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "skillopt".into(),
            limits: Limits::default(),
            keep: Some(Duration::from_secs(30 * 24 * 3600)),
            objects: None,
            unreachable_max: Duration::from_secs(30),
            ask_after: Duration::from_secs(5),
            ca: None,
            clock: None,
        }
    }
}

/// The way to a server. Clones share it.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    address: Address,
    source: Source,
    options: Options,
    /// The connections that calls share, each with how many there were before it.
    shared: [Mutex<(u64, Option<Conn>)>; 2],
}

/// Which of the shared connections a call takes.
#[derive(Clone, Copy)]
enum Way {
    /// Small calls, so that they never wait behind large ones.
    Main = 0,
    /// Parts of large values.
    Bulk = 1,
}

impl Link {
    /// Connects, and refuses a server on which work could get lost.
    ///
    /// # Errors
    /// If the address is not understood, the server cannot be reached, is older than 7.0, or may
    /// evict keys. No error repeats the password.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        let address = Address::parse(url)?;
        if options.namespace.is_empty() || options.namespace.contains(['{', '}', '*', '\n']) {
            return Err(Error::Io {
                place: address.to_string(),
                detail: format!("`{}` is no namespace", options.namespace),
            });
        }
        let source = Source::new(&address, options.ca.as_deref())?;
        let link = Self(Arc::new(Inner {
            address,
            source,
            options,
            shared: [Mutex::new((0, None)), Mutex::new((0, None))],
        }));
        link.check().await?;
        Ok(link)
    }

    /// Returns how the server is used.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// Names the server, without its login.
    #[must_use]
    pub fn place(&self) -> String {
        self.0.address.to_string()
    }

    /// Returns the key `name` of the part that scripts work on: all such keys lie on one node.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        format!("{}:{{q}}:{name}", self.0.options.namespace)
    }

    /// Returns the key `name` of the part that is spread over a cluster.
    #[must_use]
    pub fn spread_key(&self, name: &str) -> String {
        format!("{}:{name}", self.0.options.namespace)
    }

    /// Returns the time in milliseconds for a script's argument: 0 stands for the server's clock.
    #[must_use]
    pub fn now_arg(&self) -> u64 {
        let clock = self.0.options.clock.as_ref();
        clock.map_or(0, |clock| clock.now().as_ms())
    }

    /// Runs a script on `keys`. It may be run several times if answers get lost, so it has to be
    /// written for that.
    ///
    /// # Errors
    /// [`Error::Full`] if the server is out of memory, [`Error::Io`] if it cannot be reached for
    /// too long or refuses the call.
    pub async fn run(
        &self,
        script: &Script,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Value, Error> {
        let mut cmd = ::redis::cmd("EVALSHA");
        cmd.arg(&script.hash).arg(keys.len()).arg(keys).arg(args);
        self.send(script, &cmd).await
    }

    /// Runs a script with one key, which is told the time, what it always is told, and what to do.
    ///
    /// # Errors
    /// As [`Link::run`].
    pub(super) async fn act(
        &self,
        script: &Script,
        key: &str,
        always: &[String],
        act: &str,
        args: &[String],
    ) -> Result<Value, Error> {
        let now = self.now_arg().to_string();
        let mut all: Vec<&[u8]> = vec![now.as_bytes()];
        all.extend(always.iter().map(String::as_bytes));
        all.push(act.as_bytes());
        all.extend(args.iter().map(String::as_bytes));
        self.run(script, &[key.as_bytes()], &all).await
    }

    /// Begins the call of a script of the queue, with what all of them are told first.
    pub(super) fn begin(&self, script: &Script) -> Cmd {
        let limits = &self.0.options.limits;
        let mut cmd = ::redis::cmd("EVALSHA");
        cmd.arg(&script.hash)
            .arg(1)
            .arg(self.key("c"))
            .arg(self.now_arg())
            .arg(limits.losses_max)
            .arg(limits.dead_max);
        cmd
    }

    /// Sends a call of a script; if the server does not know the script, with its text.
    pub(super) async fn send(&self, script: &Script, cmd: &Cmd) -> Result<Value, Error> {
        match self.attempt(Way::Main, cmd).await {
            Err(Fault::NoScript) => {
                let mut whole = ::redis::cmd("EVAL");
                whole.arg(script.body);
                for arg in cmd.args_iter().skip(2) {
                    if let ::redis::Arg::Simple(bytes) = arg {
                        whole.arg(bytes);
                    }
                }
                self.call(&whole).await
            }
            other => self.settle(other),
        }
    }

    /// Sends a command that may be repeated.
    ///
    /// # Errors
    /// As [`Link::run`].
    pub(crate) async fn call(&self, cmd: &Cmd) -> Result<Value, Error> {
        let answer = self.attempt(Way::Main, cmd).await;
        self.settle(answer)
    }

    /// Sends a command with a large value, or with one as its answer.
    ///
    /// # Errors
    /// As [`Link::run`].
    pub(crate) async fn call_bulk(&self, cmd: &Cmd) -> Result<Value, Error> {
        let answer = self.attempt(Way::Bulk, cmd).await;
        self.settle(answer)
    }

    /// Sends commands that may be repeated, and returns their answers in order.
    ///
    /// # Errors
    /// As [`Link::run`].
    pub(crate) async fn call_all(&self, cmds: &[Cmd]) -> Result<Vec<Value>, Error> {
        if matches!(self.0.source, Source::Cluster(_)) || cmds.len() < 2 {
            // They lie on different nodes.
            let mut calls: Vec<BoxFuture<'_, Result<Value, Error>>> = Vec::new();
            for cmd in cmds {
                calls.push(Box::pin(self.call(cmd)));
            }
            return futures_util::future::try_join_all(calls).await;
        }
        let mut pipeline = ::redis::Pipeline::with_capacity(cmds.len());
        for cmd in cmds {
            pipeline.add_command(cmd.clone());
        }
        let answer = self.persist(Way::Main, Request::All(&pipeline)).await;
        self.settle(answer)
    }

    fn settle<T>(&self, answer: Result<T, Fault>) -> Result<T, Error> {
        answer.map_err(|fault| match fault {
            Fault::Final(error) => error,
            Fault::Away(detail) => Error::Io {
                place: self.place(),
                detail,
            },
            Fault::NoScript => Error::Io {
                place: self.place(),
                detail: "it forgets scripts while they run".into(),
            },
        })
    }

    async fn attempt(&self, way: Way, cmd: &Cmd) -> Result<Value, Fault> {
        let mut answers = self.persist(way, Request::One(cmd)).await?;
        Ok(answers.pop().unwrap_or(Value::Nil))
    }

    /// Tries until the server answers, or has been away for too long.
    async fn persist(&self, way: Way, request: Request<'_>) -> Result<Vec<Value>, Fault> {
        let started = Instant::now();
        let mut wait = WAITS.0;
        loop {
            let (number, conn) = self.shared(way).await;
            let answer = match conn {
                Ok(mut conn) => timeout(ANSWER_MAX, request.send(&mut conn)).await,
                Err(error) => Ok(Err(error)),
            };
            let why = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => match judge(&self.0.address, &error) {
                    Fault::Away(why) => why,
                    fault => return Err(fault),
                },
                Err(_) => "it does not answer".to_owned(),
            };
            self.drop_shared(way, number);
            if started.elapsed() + wait > self.0.options.unreachable_max {
                let seconds = started.elapsed().as_secs();
                return Err(Fault::Away(format!(
                    "not reached for {seconds} s ({why}); start it or correct its address"
                )));
            }
            sleep(wait).await;
            wait = (wait * 2).min(WAITS.1);
        }
    }

    /// Returns the shared connection, or opens it.
    async fn shared(&self, way: Way) -> (u64, Result<Conn, RedisError>) {
        let (number, conn) = {
            let shared = self.lock(way);
            (shared.0, shared.1.clone())
        };
        if let Some(conn) = conn {
            return (number, Ok(conn));
        }
        let opened = self.0.source.connect().await;
        let mut shared = self.lock(way);
        match (&shared.1, opened) {
            // Somebody else was faster.
            (Some(conn), _) => (shared.0, Ok(conn.clone())),
            (None, Ok(conn)) => {
                shared.1 = Some(conn.clone());
                (shared.0, Ok(conn))
            }
            (None, Err(error)) => (shared.0, Err(error)),
        }
    }

    fn lock(&self, way: Way) -> MutexGuard<'_, (u64, Option<Conn>)> {
        let shared = &self.0.shared[way as usize];
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_shared(&self, way: Way, number: u64) {
        let mut shared = self.lock(way);
        if shared.0 == number {
            *shared = (number + 1, None);
        }
    }

    /// Opens a connection of one's own: for calls that block, or that carry much.
    pub(crate) async fn own(&self) -> Result<Conn, Error> {
        let opened = self.0.source.connect().await;
        opened.map_err(|error| self.lost(&error))
    }

    /// Returns the error for people of a call over a connection of one's own.
    pub(crate) fn lost(&self, error: &RedisError) -> Error {
        match self.settle::<()>(Err(judge(&self.0.address, error))) {
            Err(error) => error,
            Ok(()) => Error::Closed {
                place: self.place(),
            },
        }
    }

    /// Refuses a server on which work could get lost.
    async fn check(&self) -> Result<(), Error> {
        let mut cmd = ::redis::cmd("INFO");
        cmd.arg("everything");
        let told = self.call(&cmd).await?;
        let mut texts = Vec::new();
        collect(&told, &mut texts);
        for text in texts {
            self.check_node(&text)?;
        }
        Ok(())
    }

    fn check_node(&self, info: &str) -> Result<(), Error> {
        let refuse = |detail: String| {
            Err(Error::Io {
                place: self.place(),
                detail,
            })
        };
        let value = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.strip_prefix(':')).map(str::trim)
        };
        let major = value("redis_version")
            .and_then(|version| version.split('.').next())
            .and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < 7) {
            let found = value("redis_version").unwrap_or("unknown");
            return refuse(format!(
                "its version is {found}; use Redis 7.0 or newer, or Valkey"
            ));
        }
        match value("maxmemory_policy") {
            Some("noeviction") => Ok(()),
            Some(policy) => refuse(format!(
                "its `maxmemory-policy` is `{policy}`, which may throw away queued jobs and paid \
                 answers; run `CONFIG SET maxmemory-policy noeviction` and write it into its \
                 configuration file"
            )),
            None => refuse("it does not tell its `maxmemory-policy` in `INFO`".into()),
        }
    }
}

/// Finds the texts in an answer; a cluster answers once per node.
pub(super) fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(bytes).into_owned()),
        Value::VerbatimString { text, .. } => texts.push(text.clone()),
        Value::SimpleString(text) if text.contains(':') => texts.push(text.clone()),
        Value::Map(pairs) => pairs.iter().for_each(|(_, value)| collect(value, texts)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        _ => {}
    }
}
