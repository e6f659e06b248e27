//! The benchmarks there are: one line each.

use crate::contract::Benchmark;
use crate::custom::Custom;
use crate::error::LoadError;
use crate::nearest;
use crate::searchqa::SearchQa;

/// Every benchmark, in the order of the documentation.
static ALL: &[&dyn Benchmark] = &[&SearchQa, &Custom];

/// Returns the registered names.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|benchmark| benchmark.name()).collect()
}

/// Returns the benchmark registered as `name`; case and blanks around it do not matter.
///
/// # Errors
/// There is none; the text names the nearest and lists all.
pub fn find(name: &str) -> Result<&'static dyn Benchmark, LoadError> {
    let wanted = name.trim().to_lowercase();
    ALL.iter()
        .find(|benchmark| benchmark.name() == wanted)
        .copied()
        .ok_or_else(|| LoadError::Unknown {
            kind: "benchmark",
            name: name.to_owned(),
            hint: nearest::hint(&wanted, &names()),
        })
}
