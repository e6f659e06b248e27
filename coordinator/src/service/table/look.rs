//! Finds and lists runs.

use std::collections::BTreeMap;

use skillopt_core::suggest;
use skillopt_queue::Board;

use super::super::error::Error;
use super::super::record::{BY_TENANT, BY_TIME, RunRecord, State, group, named};
use super::{Stored, Table, decode_run};

/// Runs that are looked at for the nearest id.
const NEAR_AMONG: usize = 200;
/// Runs that are looked at for one page of those in a state.
const LOOKED_AT_MAX: usize = 1_000;
/// Runs that are found before we say that they are several.
const SEVERAL: usize = 4;

/// A page of runs.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The runs, the newest first.
    pub runs: Vec<Stored>,
    /// The run after which the next page begins; nothing on the last one.
    pub next: Option<String>,
}

/// Which runs are listed.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// Only this sweep's; empty: those of none.
    pub sweep: String,
    /// Only those in this state.
    pub state: Option<State>,
}

impl Table {
    /// Returns the run that is meant by `word`, among those of `tenant` or of all: its id, a
    /// beginning of it, or its name.
    ///
    /// # Errors
    /// None or several are meant; the words name the nearest.
    pub async fn find(&self, tenant: Option<&str>, word: &str) -> Result<Stored, Error> {
        let word = word.trim();
        if word.is_empty() {
            return Err(Error::Invalid(
                "a run is named by its id or its name; it is empty".to_owned(),
            ));
        }
        let mine = |run: &RunRecord| tenant.is_none_or(|t| t == run.tenant);
        if let Some(stored) = self.get(word).await?.filter(|s| mine(&s.run)) {
            return Ok(stored);
        }
        let mut found = BTreeMap::new();
        let mut after = String::new();
        // Others' runs may lie between.
        while found.len() < SEVERAL {
            let begins = RunRecord::path(word);
            let page = self.parts.board.list(&begins, &after, 100).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.path);
            for record in &page {
                let stored = decode_run(record)?;
                if mine(&stored.run) {
                    found.insert(stored.run.id.clone(), stored);
                }
            }
        }
        let places = named(word, tenant);
        for entry in self.parts.board.list(&places, "", SEVERAL).await? {
            let id = String::from_utf8_lossy(&entry.value).into_owned();
            if let Some(stored) = self.get(&id).await? {
                found.insert(id, stored);
            }
        }
        if found.len() > 1 {
            let ids: Vec<&str> = found.keys().take(3).map(String::as_str).collect();
            return Err(Error::Invalid(format!(
                "`{word}` is the name of several runs, or the beginning of their ids: `{}`; type the id",
                ids.join("`, `")
            )));
        }
        match found.pop_first() {
            Some((_, stored)) => Ok(stored),
            None => Err(self.unknown(tenant, word).await),
        }
    }

    async fn unknown(&self, tenant: Option<&str>, word: &str) -> Error {
        let filter = Filter {
            tenant: tenant.map(str::to_owned),
            ..Filter::default()
        };
        let known = self.list(&filter, "", NEAR_AMONG).await.unwrap_or_default();
        let words = known.runs.iter().flat_map(|s| [&*s.run.id, &*s.run.name]);
        let near = suggest::nearest(word, words)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        Error::NotFound(format!("there is no run `{word}`{near}"))
    }

    /// Returns at most `max` runs, the newest first, from those after `after` on. A page of those in
    /// one state may be short, for only so many runs are looked at: its `next` counts.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn list(&self, filter: &Filter, after: &str, max: usize) -> Result<Page, Error> {
        let part = group(&filter.sweep);
        let prefix = match &filter.tenant {
            Some(tenant) => format!("{BY_TENANT}{tenant}/{part}"),
            None => format!("{BY_TIME}{part}"),
        };
        let mut after = match after {
            "" => String::new(),
            id => {
                let last = self.must(id).await?.run;
                let [all, own] = last.places();
                if filter.tenant.is_some() { own } else { all }
            }
        };
        let (mut page, mut looked_at) = (Page::default(), 0);
        let mut last = None;
        loop {
            let wanted = max + 1 - page.runs.len();
            let found = self.parts.board.list(&prefix, &after, wanted).await?;
            let is_end = found.len() < wanted;
            looked_at += found.len();
            for entry in found {
                after.clone_from(&entry.path);
                let id = String::from_utf8_lossy(&entry.value).into_owned();
                let Some(stored) = self.get(&id).await? else {
                    continue;
                };
                last = Some(id);
                if filter.state.is_none_or(|state| state == stored.run.state) {
                    page.runs.push(stored);
                }
            }
            if page.runs.len() > max {
                page.runs.truncate(max);
                page.next = page.runs.last().map(|s| s.run.id.clone());
                return Ok(page);
            }
            if is_end {
                return Ok(page);
            }
            if looked_at >= LOOKED_AT_MAX {
                page.next = last;
                return Ok(page);
            }
        }
    }
}

/// Returns at most `max` tenants that have runs, by name.
///
/// # Errors
/// The board cannot be reached.
pub async fn tenants(board: &dyn Board, max: usize) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut after = String::new();
    while found.len() < max {
        let page = board.list(BY_TENANT, &after, 1).await?;
        let Some(first) = page.first() else { break };
        let rest = first.path.strip_prefix(BY_TENANT).unwrap_or_default();
        let name = rest.split('/').next().unwrap_or_default().to_owned();
        // On to the first path of the next tenant.
        after = format!("{BY_TENANT}{name}/\u{7f}");
        found.push(name);
    }
    Ok(found)
}
