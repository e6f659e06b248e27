//! The conformance suite on a plain server.

use std::sync::LazyLock;

use skillopt_queue::conformance::Rig;
use skillopt_queue::conformance::server::Server;

use crate::rig::rig;

static SERVER: LazyLock<Server> = LazyLock::new(Server::redis);

async fn make() -> Rig {
    rig(&SERVER.url()).await
}

skillopt_queue::conformance!(make);
