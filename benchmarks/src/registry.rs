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

/// Names of benchmarks whose configuration files load, but which a later release brings.
pub const LATER: &[&str] = skillopt_config::flat::LATER_BENCHMARKS;

/// Returns the benchmark registered as `name`; case and blanks around it do not matter.
///
/// # Errors
/// There is none; the text says whether a later release brings it, or names the nearest, and
/// lists all.
pub fn find(name: &str) -> Result<&'static dyn Benchmark, LoadError> {
    let wanted = name.trim().to_lowercase();
    ALL.iter()
        .find(|benchmark| benchmark.name() == wanted)
        .copied()
        .ok_or_else(|| LoadError::Unknown {
            kind: "benchmark",
            name: name.to_owned(),
            hint: if LATER.contains(&wanted.as_str()) {
                let names = names().join(", ");
                format!("this release cannot run it yet, only: {names}")
            } else {
                nearest::hint(&wanted, &names())
            },
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_or_explained() {
        for (name, want) in [
            (" SearchQA ", ""),
            ("custom", ""),
            ("serchqa", "did you mean `searchqa`?"),
            ("alfworld", "cannot run it yet"),
        ] {
            let text = match find(name) {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            };
            let is_right = text.contains(want) && want.is_empty() == text.is_empty();
            assert!(is_right, "{name}: {text}");
        }
    }
}
