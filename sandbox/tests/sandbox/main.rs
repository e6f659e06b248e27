//! Hostile and unlucky programs in real sandboxes: as whoever runs the tests and, if that is the
//! superuser, as an ordinary user, too; there both in namespaces and under Landlock.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod death;
mod endings;
mod files;
mod inside;
mod levels;
mod limits;
mod support;
