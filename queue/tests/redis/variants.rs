//! The conformance suite on servers of other kinds, and behind logins.

/// Makes one test of the whole suite on the servers that `$servers` starts.
macro_rules! suite {
    ($name:ident, $servers:expr) => {
        mod $name {
            use std::sync::LazyLock;

            use skillopt_queue::conformance::Rig;
            #[allow(unused_imports, reason = "not every variant needs all")]
            use skillopt_queue::conformance::server::{Cluster, Sentinels, Server, Setup, valkey};

            static SERVERS: LazyLock<Box<dyn Url>> = LazyLock::new(|| Box::new($servers));

            use crate::variants::Url;

            async fn make() -> Rig {
                crate::rig::rig(&SERVERS.url()).await
            }

            skillopt_queue::conformance!(in one: make);
        }
    };
}

/// Servers with an address.
pub(crate) trait Url: Send + Sync {
    fn url(&self) -> String;
}

impl Url for skillopt_queue::conformance::server::Server {
    fn url(&self) -> String {
        self.url()
    }
}

impl Url for skillopt_queue::conformance::server::Cluster {
    fn url(&self) -> String {
        self.url()
    }
}

impl Url for skillopt_queue::conformance::server::Sentinels {
    fn url(&self) -> String {
        self.url()
    }
}

suite!(
    on_valkey,
    Server::start(Setup {
        program: Some(valkey()),
        ..Setup::default()
    })
);

suite!(
    with_a_password_and_a_database,
    Server::start(Setup {
        lines: vec!["requirepass p%w".into()],
        login: "redis://:p%25w@".into(),
        tail: "/3".into(),
        ..Setup::default()
    })
);

suite!(
    as_a_user_with_few_rights,
    Server::start(Setup {
        lines: vec![
            "user default off".into(),
            // These are the rights that docs/redis.md names.
            "user skillopt on >secret ~skillopt:* -@all +@read +@write +@scripting +@connection \
             -@dangerous +info +time"
                .into(),
        ],
        login: "redis://skillopt:secret@".into(),
        ..Setup::default()
    })
);

suite!(on_a_cluster, Cluster::start());

suite!(through_sentinels, Sentinels::start());

suite!(through_sentinels_with_passwords, Sentinels::locked());
