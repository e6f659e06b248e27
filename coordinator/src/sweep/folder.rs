//! The files of a sweep: what `skillopt submit --out` and `skillopt export` write.

use serde::Serialize;

use super::observed::Observed;
use super::results::Results;
use super::table;

/// Returns name and content of each file. `sweep.json` and `sweep.csv` are equal for equal sweeps;
/// times and payments are in `timings.json` alone.
///
/// # Errors
/// A value that cannot be written down.
pub fn files(
    results: &Results,
    observed: &Observed,
) -> Result<Vec<(&'static str, Vec<u8>)>, serde_json::Error> {
    Ok(vec![
        ("sweep.json", pretty(results)?),
        ("sweep.csv", table::csv(results).into_bytes()),
        ("timings.json", pretty(observed)?),
    ])
}

fn pretty(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}
