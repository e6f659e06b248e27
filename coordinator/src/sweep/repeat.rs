//! Repeats of a cell: the same configuration, with answers of its own.

use skillopt_config::{RunConfig, Scope};

/// Name under which a repeat is part of what names a run.
const KEY: &str = "repeat";

/// Makes a configuration the one of a repeat, counted from 0. The first shares its answers as the
/// configuration says; each further one has answers of its own, which only the same repeat of the
/// same configuration shares.
pub fn apart(config: &mut RunConfig, repeat: u32) {
    if repeat > 0 {
        config.scope = Scope::Run;
        config.extra.insert(KEY.to_owned(), (repeat + 1).into());
    }
}
