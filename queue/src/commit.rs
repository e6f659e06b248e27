//! How the embedded queue hands a result to the store that will keep it.

use bytes::Bytes;
use skillopt_core::job::Key;

use crate::store::Error;

/// What to do once a result is stored (`true`: as the first of its key) or not. It runs where the
/// store commits, so it must be short and must not wait.
pub(crate) type Then = Box<dyn FnOnce(Result<bool, Error>) + Send>;

/// A result on its way into the store.
pub(crate) struct Commit {
    pub(crate) key: Key,
    pub(crate) result: Bytes,
    pub(crate) then: Then,
}
