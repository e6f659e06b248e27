//! Several servers that belong together.

use std::time::Duration;

use ::redis::Value;
use skillopt_runtime::clock::Stopwatch;

use super::{Server, Setup};

/// How long servers may take to find each other.
const FIND_MAX: Duration = Duration::from_secs(60);

/// Three nodes that share the slots of a cluster, each with a replica if that is wanted.
pub struct Cluster {
    masters: Vec<Server>,
    replicas: Vec<Server>,
}

impl Cluster {
    /// Starts three nodes and waits until they are one cluster.
    ///
    /// # Panics
    /// If they do not find each other.
    #[must_use]
    pub fn start() -> Self {
        Self::with(0)
    }

    /// Starts three nodes with a replica each, which takes its place if it dies.
    ///
    /// # Panics
    /// If they do not find each other.
    #[must_use]
    pub fn with_replicas() -> Self {
        Self::with(3)
    }

    fn with(replicas: usize) -> Self {
        let lines = [
            "cluster-enabled yes",
            "cluster-node-timeout 2000",
            "repl-diskless-sync-delay 0",
        ];
        let setup = Setup {
            lines: lines.map(String::from).to_vec(),
            ..Setup::default()
        };
        let start = |n| -> Vec<Server> { (0..n).map(|_| Server::start(setup.clone())).collect() };
        let cluster = Self {
            masters: start(3),
            replicas: start(replicas),
        };
        let ranges = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];
        for (node, range) in cluster.masters.iter().zip(ranges) {
            let _ = node.ask(&["CLUSTER", "ADDSLOTSRANGE", range[0], range[1]]);
        }
        for node in cluster.nodes().skip(1) {
            let port = node.port().to_string();
            let _ = cluster.masters[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        let known = format!("cluster_known_nodes:{}\r", cluster.nodes().count());
        for node in cluster.nodes() {
            until("the nodes are one cluster", || {
                let info = text(&node.ask(&["CLUSTER", "INFO"]));
                info.contains("cluster_state:ok") && info.contains(&known)
            });
        }
        for (master, replica) in cluster.masters.iter().zip(&cluster.replicas) {
            let name = text(&master.ask(&["CLUSTER", "MYID"]));
            let _ = replica.ask(&["CLUSTER", "REPLICATE", &name]);
            until("the replica follows", || follows(replica));
        }
        for node in cluster.nodes() {
            until("every node knows the replicas", || {
                let nodes = text(&node.ask(&["CLUSTER", "NODES"]));
                nodes.matches("slave ").count() == replicas
            });
        }
        cluster
    }

    /// Returns the address of all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts = self
            .nodes()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        format!(
            "redis+cluster://{}",
            hosts.collect::<Vec<String>>().join(",")
        )
    }

    /// Returns all nodes, those first that were masters at first.
    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.masters.iter().chain(&self.replicas)
    }

    /// Returns the node that now serves a key.
    ///
    /// # Panics
    /// If there is none for too long.
    #[must_use]
    pub fn master_of(&self, key: &str) -> &Server {
        let waited = Stopwatch::start();
        loop {
            let serves = |node: &&Server| node.try_ask(&["EXISTS", key]).is_ok();
            if let Some(node) = self.nodes().find(serves) {
                return node;
            }
            assert!(waited.elapsed() < FIND_MAX, "never: a node serves `{key}`");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until every node is up, and every replica follows its master.
    ///
    /// # Panics
    /// If that does not come.
    pub fn until_whole(&self) {
        for node in self.nodes() {
            until("the cluster is whole again", || {
                let Ok(nodes) = node.try_ask(&["CLUSTER", "NODES"]) else {
                    return false;
                };
                let nodes = text(&nodes);
                let is_replica = text(&node.ask(&["INFO", "replication"])).contains("role:slave");
                !nodes.contains("fail") && (!is_replica || follows(node))
            });
        }
    }
}

fn follows(replica: &Server) -> bool {
    text(&replica.ask(&["INFO", "replication"])).contains("master_link_status:up")
}

/// A server, its replica, and three Sentinels that watch them.
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
    login: &'static str,
    tail: &'static str,
}

impl Sentinels {
    /// Starts them and waits until the Sentinels know each other and the replica follows.
    ///
    /// # Panics
    /// If they do not find each other.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&Setup::default(), &Setup::default(), &[], "", "")
    }

    /// Starts them behind passwords: one for the servers among each other, a user of few rights for
    /// us, another password for the Sentinels among each other, and a user of theirs for us.
    ///
    /// # Panics
    /// If they do not find each other.
    #[must_use]
    pub fn locked() -> Self {
        let lines = [
            "requirepass between-servers",
            "masterauth between-servers",
            // These are the rights that docs/redis.md names.
            "user skillopt on >of-the-server ~skillopt:* -@all +@read +@write +@scripting \
             +@connection -@dangerous +info +time",
        ];
        let server = Setup {
            lines: lines.map(String::from).to_vec(),
            admin: ":between-servers@".into(),
            ..Setup::default()
        };
        let lines = [
            "requirepass between-sentinels",
            "sentinel sentinel-pass between-sentinels",
            "user finder on >of-the-sentinels -@all +@connection +sentinel|masters +role",
        ];
        let sentinel = Setup {
            lines: lines.map(String::from).to_vec(),
            admin: ":between-sentinels@".into(),
            ..Setup::default()
        };
        let watch = ["sentinel auth-pass main between-servers"];
        let tail = "?sentinel_user=finder&sentinel_password=of-the-sentinels";
        Self::with(&server, &sentinel, &watch, "skillopt:of-the-server@", tail)
    }

    fn with(
        server: &Setup,
        sentinel: &Setup,
        watch: &[&str],
        login: &'static str,
        tail: &'static str,
    ) -> Self {
        let master = Server::start(server.clone());
        let follow = [
            format!("replicaof 127.0.0.1 {}", master.port()),
            "repl-diskless-sync-delay 0".into(),
        ];
        let replica = Server::start(Setup {
            lines: [&server.lines[..], &follow[..]].concat(),
            ..server.clone()
        });
        until("the replica follows", || follows(&replica));
        let mut lines = vec![
            format!("sentinel monitor main 127.0.0.1 {} 2", master.port()),
            "sentinel down-after-milliseconds main 1000".into(),
            "sentinel failover-timeout main 5000".into(),
        ];
        lines.extend(watch.iter().map(|line| (*line).to_owned()));
        lines.extend_from_slice(&sentinel.lines);
        let start = || {
            Server::start(Setup {
                lines: lines.clone(),
                is_sentinel: true,
                ..sentinel.clone()
            })
        };
        let sentinels: Vec<Server> = (0..3).map(|_| start()).collect();
        for sentinel in &sentinels {
            until("the Sentinels know each other", || {
                let info = text(&sentinel.ask(&["INFO", "sentinel"]));
                info.contains("slaves=1,sentinels=3")
            });
        }
        Self {
            servers: vec![master, replica],
            sentinels,
            login,
            tail,
        }
    }

    /// Returns the address of the Sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_with(self.login, self.tail)
    }

    /// Returns it with another login, e.g. `user:password@`, and another end, e.g. `?ca=…`.
    #[must_use]
    pub fn url_with(&self, login: &str, tail: &str) -> String {
        let hosts = self
            .sentinels
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        let hosts: Vec<String> = hosts.collect();
        format!("redis+sentinel://{login}{}/main{tail}", hosts.join(","))
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
