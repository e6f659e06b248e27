//! Our values as messages.

use skillopt_core::Hash;
use skillopt_proto::v1;

use super::super::error::Error;
use super::super::record::RunRecord;
use super::super::rows;
use crate::read_model::RunView;

/// Longest name and client key, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// Writes a run.
pub(super) fn run(run: &RunRecord, view: &RunView) -> Result<v1::Run, Error> {
    Ok(v1::Run {
        id: run.id.clone(),
        name: run.name.clone(),
        kind: run.kind.clone(),
        tenant: run.tenant.clone(),
        owner: run.owner.clone(),
        state: run.state.word().to_owned(),
        cause: run.cause.clone(),
        cause_class: run.cause_class.clone(),
        submitted_ms: run.submitted_ms,
        started_ms: run.started_ms,
        ended_ms: run.ended_ms,
        sweep: run.sweep.clone(),
        cell: run.cell.clone(),
        coordinator: run.coordinator.clone(),
        row_json: rows::json(run, view)?,
        bundle: run.bundle.as_bytes().to_vec(),
    })
}

/// Writes a value as JSON.
pub(super) fn json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| Error::Internal(e.to_string()))
}

/// Reads an address.
pub(super) fn hash(what: &str, bytes: &[u8]) -> Result<Hash, Error> {
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| {
        Error::Invalid(format!(
            "the {what} is named by {} bytes; a SHA-256 has 32",
            bytes.len()
        ))
    })?;
    Ok(Hash::from_bytes(bytes))
}

/// Refuses a text that is empty, too long or not one line.
pub(super) fn line(what: &str, text: &str, may_be_empty: bool) -> Result<(), Error> {
    if text.is_empty() && !may_be_empty {
        return Err(Error::Invalid(format!("the {what} is empty")));
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "the {what} has {} bytes, at most {NAME_BYTES_MAX} are allowed",
            text.len()
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::Invalid(format!(
            "the {what} is not one line of text"
        )));
    }
    Ok(())
}
