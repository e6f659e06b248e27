//! "Did you mean", and all there is.

use skillopt_core::suggest;

/// Returns a sentence with the nearest of `names` (if one is near) and all of them.
pub(crate) fn hint(wanted: &str, names: &[&str]) -> String {
    let all = names.join(", ");
    match suggest::nearest(wanted, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? Known: {all}"),
        None => format!("known: {all}"),
    }
}
