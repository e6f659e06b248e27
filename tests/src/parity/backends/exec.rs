//! Cases in which a command-line program serves as a chat model.

use serde_json::Value;

/// Runs one case.
///
/// # Errors
/// What differs, in words.
pub(super) fn run(case: &Value) -> Result<(), String> {
    Err(format!("no counterpart for {}", case["backend"]))
}
