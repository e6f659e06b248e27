//! The keys of single backends (section `model`), beside those with a field of their own: each
//! backend declares its own.
//!
//! Each is also read from the environment, under its name in capitals, where the configuration
//! leaves it unset. Source: training spec 7.4, backends spec 1.7.

pub use skillopt_backends::declare::BackendKey;
use skillopt_backends::registry;

/// Returns all of them.
pub fn backend_keys() -> impl Iterator<Item = &'static BackendKey> {
    registry::keys()
}

/// Finds the key of a flat name.
#[must_use]
pub fn find(name: &str) -> Option<&'static BackendKey> {
    let bare = name
        .strip_prefix("optimizer_")
        .or_else(|| name.strip_prefix("target_"));
    backend_keys()
        .find(|key| key.base == name || (key.roles && bare.is_some_and(|bare| bare == key.base)))
}
