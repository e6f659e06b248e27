//! Names of purses in the ledger.

use super::record::RunRecord;

/// Returns the purse of a run.
#[must_use]
pub fn run(id: &str) -> String {
    format!("run/{id}")
}

/// Returns the purse of a sweep.
#[must_use]
pub fn sweep(id: &str) -> String {
    format!("sweep/{id}")
}

/// Returns the purse of a tenant.
#[must_use]
pub fn tenant(name: &str) -> String {
    format!("tenant/{name}")
}

/// Returns the purses that pay for a run.
#[must_use]
pub fn of(record: &RunRecord) -> Vec<String> {
    let mut purses = vec![run(&record.id), tenant(&record.tenant)];
    if !record.sweep.is_empty() {
        purses.push(sweep(&record.sweep));
    }
    purses
}
