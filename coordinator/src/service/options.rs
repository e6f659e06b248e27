//! What a coordinator is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use skillopt_core::Hash;

/// Certificates of a coordinator, as PEM.
#[derive(Clone)]
pub struct Tls {
    /// Its own certificate, with those between it and the root.
    pub certificate: Vec<u8>,
    /// The certificate's private key.
    pub key: Vec<u8>,
    /// Vouches for clients; then only those with a certificate get in.
    pub client_ca: Option<Vec<u8>>,
}

/// What a coordinator is told.
#[derive(Clone)]
pub struct Options {
    /// Where gRPC is served; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    pub http: Option<SocketAddr>,
    /// Name of this coordinator: unique, also after a restart.
    pub name: String,
    /// Version of the program.
    pub program: String,
    /// Place of run folders: everything in it may be lost. Nobody else may use it.
    pub scratch: PathBuf,
    /// Runs that it works on at once.
    pub runs_max: usize,
    /// Certificates; without them it serves plain text.
    pub tls: Option<Tls>,
    /// Hash of a token that is an admin's, see [`admin_token`].
    pub admin: Option<Hash>,
    /// Allow plain text, and callers without a token, from other machines.
    pub insecure: bool,
    /// How long calls under way may take at the end.
    pub grace: Duration,
    /// How the store is kept from dropping what runs need.
    pub tend: Tend,
}

/// How the store is kept from dropping what runs need that wait or go on for long.
#[derive(Clone, Copy, Debug)]
pub struct Tend {
    /// How often such runs are looked for.
    pub look_every: Duration,
    /// How often what a run needs is read, by whichever coordinator comes first: well below the time
    /// that the store keeps what nobody uses.
    pub touch_every: Duration,
}

impl Default for Tend {
    fn default() -> Self {
        Self {
            look_every: Duration::from_secs(600),
            touch_every: Duration::from_secs(24 * 3_600),
        }
    }
}

impl Options {
    /// Returns the options of a coordinator that only this machine can reach.
    #[must_use]
    pub fn local(name: &str, scratch: PathBuf) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            http: None,
            name: name.to_owned(),
            program: String::new(),
            scratch,
            runs_max: 64,
            tls: None,
            admin: None,
            insecure: false,
            grace: Duration::from_secs(5),
            tend: Tend::default(),
        }
    }
}

/// Returns what is kept of the text of an admin's token. Blanks around it do not count.
#[must_use]
pub fn admin_token(text: &str) -> Hash {
    Hash::of(text.trim().as_bytes())
}
