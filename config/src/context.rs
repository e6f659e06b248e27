//! What a configuration is checked against.

use crate::backend_settings::EnvLookup;

/// What the checks need to know from outside.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The benchmarks there are; `None` leaves the name unchecked.
    pub benchmarks: Option<&'a [&'a str]>,
    /// The environment.
    pub env: EnvLookup<'a>,
}

impl Context<'_> {
    /// A context that knows no benchmark and an empty environment.
    pub const BARE: Context<'static> = Context {
        benchmarks: None,
        env: &|_| None,
    };
}
