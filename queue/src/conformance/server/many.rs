//! Several servers that belong together.

use std::time::Duration;

use ::redis::Value;
use skillopt_runtime::clock::Stopwatch;

use super::{Server, Setup};

/// How long servers may take to find each other.
const FIND_MAX: Duration = Duration::from_secs(60);

/// Three nodes that share the slots of a cluster.
pub struct Cluster(Vec<Server>);

impl Cluster {
    /// Starts the nodes and waits until they are one cluster.
    ///
    /// # Panics
    /// If they do not find each other.
    #[must_use]
    pub fn start() -> Self {
        let lines = ["cluster-enabled yes", "cluster-node-timeout 2000"];
        let setup = Setup {
            lines: lines.map(String::from).to_vec(),
            ..Setup::default()
        };
        let nodes: Vec<Server> = (0..3).map(|_| Server::start(setup.clone())).collect();
        for (node, range) in
            nodes
                .iter()
                .zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]])
        {
            let _ = node.ask(&["CLUSTER", "ADDSLOTSRANGE", range[0], range[1]]);
        }
        for node in &nodes[1..] {
            let port = node.port().to_string();
            let _ = nodes[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        for node in &nodes {
            until("the nodes are one cluster", || {
                let info = text(&node.ask(&["CLUSTER", "INFO"]));
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            });
        }
        Self(nodes)
    }

    /// Returns the address of all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .0
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Returns the nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.0
    }
}

/// A server, its replica, and three Sentinels that watch them.
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// Starts them and waits until the Sentinels know each other and the replica follows.
    ///
    /// # Panics
    /// If they do not find each other.
    #[must_use]
    pub fn start() -> Self {
        let master = Server::redis();
        let follow = format!("replicaof 127.0.0.1 {}", master.port());
        let lines = vec![follow, "repl-diskless-sync-delay 0".into()];
        let replica = Server::start(Setup {
            lines,
            ..Setup::default()
        });
        until("the replica follows", || {
            text(&replica.ask(&["INFO", "replication"])).contains("master_link_status:up")
        });
        let watch = [
            format!("sentinel monitor main 127.0.0.1 {} 2", master.port()),
            "sentinel down-after-milliseconds main 1000".into(),
            "sentinel failover-timeout main 5000".into(),
        ];
        let sentinels: Vec<Server> = (0..3)
            .map(|_| {
                Server::start(Setup {
                    lines: watch.to_vec(),
                    is_sentinel: true,
                    ..Setup::default()
                })
            })
            .collect();
        for sentinel in &sentinels {
            until("the Sentinels know each other", || {
                let info = text(&sentinel.ask(&["INFO", "sentinel"]));
                info.contains("slaves=1,sentinels=3")
            });
        }
        Self {
            servers: vec![master, replica],
            sentinels,
        }
    }

    /// Returns the address of the Sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts = self
            .sentinels
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        let hosts: Vec<String> = hosts.collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// Returns the server that was the first master.
    #[must_use]
    pub fn master(&self) -> &Server {
        &self.servers[0]
    }
}

/// Waits for something that has to happen.
///
/// # Panics
/// If it does not.
pub(super) fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = Stopwatch::start();
    while !is_so() {
        assert!(waited.elapsed() < FIND_MAX, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}
