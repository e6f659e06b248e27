//! Which jobs a caller's runs have asked for.

use std::collections::BTreeSet;

use skillopt_core::job::Key;
use skillopt_queue::RunId;

use super::super::super::auth::Caller;
use super::super::super::error::Error;
use super::super::Desk;

/// Shortest beginning of a job's key that is looked for.
const BEGINNING_MIN: usize = 4;

/// Returns the job whose key begins with `id`.
pub(super) async fn beginning(
    desk: &Desk,
    caller: &Caller,
    id: &str,
) -> Result<Option<Key>, Error> {
    let is_key = id.len() >= BEGINNING_MIN && id.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_key {
        return Ok(None);
    }
    let mut keys = mine(desk, caller, id).await?;
    match (keys.pop_first(), keys.pop_first()) {
        (Some(a), Some(b)) => Err(Error::Invalid(format!(
            "`{id}` is the beginning of several jobs: `{a}`, `{b}`; type more of it"
        ))),
        (first, _) => Ok(first),
    }
}

/// Returns the jobs whose keys begin with `id` and that were set aside or are in the queue, as far as
/// the caller's runs wait for them; those in the queue only if this coordinator asked for them.
async fn mine(desk: &Desk, caller: &Caller, id: &str) -> Result<BTreeSet<Key>, Error> {
    let digits = id.to_ascii_lowercase();
    let dead = desk.teller.set_aside(&digits).await?;
    if caller.is_global {
        let mut keys = desk.teller.released(&digits);
        keys.extend(dead.iter().map(|letter| letter.key));
        return Ok(keys);
    }
    let mut asked: Vec<(Key, Vec<RunId>)> = desk.teller.wanted(&digits);
    asked.extend(dead.iter().map(|letter| (letter.key, letter.runs.clone())));
    let mut keys = BTreeSet::new();
    for (key, runs) in asked {
        if is_any_mine(desk, caller, &runs).await? {
            keys.insert(key);
        }
    }
    Ok(keys)
}

/// Returns whether a run of the caller waits for a job, at whichever coordinator.
pub(super) async fn is_asked_for(
    desk: &Desk,
    caller: &Caller,
    key: Key,
    id: &str,
) -> Result<bool, Error> {
    if let Some(asked) = desk.teller.asked(key).await?
        && is_any_mine(desk, caller, &asked.runs).await?
    {
        return Ok(true);
    }
    Ok(!mine(desk, caller, id).await?.is_empty())
}

async fn is_any_mine(desk: &Desk, caller: &Caller, runs: &[RunId]) -> Result<bool, Error> {
    for run in runs {
        if is_mine(desk, caller, run.as_str()).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn not_asked_for(caller: &Caller, id: &str) -> Error {
    Error::NotFound(format!(
        "no run of tenant `{}` waits for job `{id}`; ask `skillopt why RUN`, or with a token of the \
         whole cluster",
        caller.tenant
    ))
}

pub(super) async fn is_mine(desk: &Desk, caller: &Caller, run: &str) -> Result<bool, Error> {
    let Some(tenant) = caller.limit() else {
        return Ok(true);
    };
    let stored = desk.table.get(run).await?;
    Ok(stored.is_some_and(|stored| stored.run.tenant == tenant))
}
