//! A script that the server runs as one step.

/// A script that the server runs as one step; it is sent once and then known by its hash.
pub struct Script {
    pub(super) body: &'static str,
    pub(super) hash: String,
}

impl Script {
    /// Takes the text of a script, see `queue/src/redis/scripts`.
    #[must_use]
    pub fn new(body: &'static str) -> Self {
        let hash = ::redis::Script::new(body).get_hash().to_owned();
        Self { body, hash }
    }
}
