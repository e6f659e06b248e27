//! Real agent programs, which `cargo xtask test` installs.

use std::path::PathBuf;

/// Names the folder that holds `node_modules` with the programs.
pub const FOLDER: &str = "SKILLOPT_CLIS";

/// Returns the folder of the programs, then the tests' own search path: the rest of what they need.
#[must_use]
pub fn path() -> String {
    let folder = std::env::var_os(FOLDER).map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/clis")),
        PathBuf::from,
    );
    let bin = folder.join("node_modules/.bin");
    let rest = std::env::var("PATH").unwrap_or_default();
    format!("{}:{rest}", bin.display())
}
