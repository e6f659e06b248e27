//! What every service needs and nobody wants twice: atomic files, retry delays, a two-stage
//! shutdown, redaction of secrets.
//!
//! Knows nothing of skills, jobs or providers.

pub mod clock;
pub mod files;
pub mod limits;
pub mod redact;
pub mod retry;
pub mod shutdown;

pub use retry::Retry;
pub use shutdown::Shutdown;
