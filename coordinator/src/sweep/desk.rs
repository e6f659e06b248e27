//! Taking, finding and changing sweeps. Any coordinator does it; nothing is kept in the process.

use std::sync::Arc;

use skillopt_queue::board::{self, Expect};
use skillopt_queue::ledger::Caps;
use skillopt_queue::{Board, Ledger, Store};

use super::error::Error;
use super::gather::Gather;
use super::observed::Observed;
use super::record::{SWEEPS, Sweep};
use super::results::Results;
use super::runs::{Runs, Wish};
use crate::read_model::is_over;

/// How often a change is tried against others that change the same sweep.
const TRIES: usize = 20;
/// Sweeps that are read together for a list.
const PAGE: usize = 50;
/// Most sweeps that a list looks at.
const LISTED_MAX: usize = 5_000;

/// Whose sweeps somebody may see: a tenant's, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose sweeps new ones are.
    pub tenant: String,
    /// Who it is, for people.
    pub owner: String,
    /// Sees the sweeps of all tenants.
    pub sees_all: bool,
}

impl Caller {
    fn sees(&self, sweep: &Sweep) -> bool {
        self.sees_all || sweep.tenant == self.tenant
    }
}

/// The sweeps of the cluster.
pub struct Sweeps {
    pub(super) board: Arc<dyn Board>,
    pub(super) store: Arc<dyn Store>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) runs: Arc<dyn Runs>,
    pub(super) gather: Gather,
}

impl Sweeps {
    /// Works on these.
    #[must_use]
    pub fn new(
        board: Arc<dyn Board>,
        store: Arc<dyn Store>,
        ledger: Arc<dyn Ledger>,
        runs: Arc<dyn Runs>,
    ) -> Self {
        let gather = Gather::new(Arc::clone(&store), Arc::clone(&runs), Arc::clone(&ledger));
        Self {
            board,
            store,
            ledger,
            runs,
            gather,
        }
    }

    /// Returns a sweep by its id, by a beginning that only one has, or by the name of only one.
    ///
    /// # Errors
    /// There is none, or several.
    pub async fn get(&self, caller: &Caller, id: &str) -> Result<Sweep, Error> {
        self.resolve(caller, id).await.map(|(sweep, _)| sweep)
    }

    pub(super) async fn resolve(&self, caller: &Caller, id: &str) -> Result<(Sweep, u64), Error> {
        let none = || Error::NotFound(id.chars().take(80).collect());
        if id.is_empty() {
            return Err(none());
        }
        if id.bytes().all(|b| b.is_ascii_alphanumeric())
            && let Some((sweep, version)) = self.find(id).await?
        {
            return if caller.sees(&sweep) {
                Ok((sweep, version))
            } else {
                Err(none())
            };
        }
        let is_meant = |sweep: &Sweep| sweep.name == id || sweep.id.starts_with(id);
        let mut seen = self.visible(caller, is_meant).await?;
        match seen.len() {
            0 => Err(none()),
            1 => seen.pop().ok_or_else(none),
            n => {
                let ids: Vec<&str> = seen.iter().take(3).map(|(s, _)| s.id.as_str()).collect();
                Err(Error::Invalid(format!(
                    "{n} sweeps are named `{id}`, or their ids begin so: `{}`; type the id",
                    ids.join("`, `")
                )))
            }
        }
    }

    /// Returns the sweeps that a caller sees and that `is_meant`, with their versions.
    async fn visible(
        &self,
        caller: &Caller,
        is_meant: impl Fn(&Sweep) -> bool,
    ) -> Result<Vec<(Sweep, u64)>, Error> {
        let mut all = Vec::new();
        let mut last = String::new();
        while all.len() < LISTED_MAX {
            let records = self.board.list(SWEEPS, &last, PAGE).await?;
            let Some(record) = records.last() else {
                break;
            };
            last.clone_from(&record.path);
            for record in &records {
                let sweep: Sweep = serde_json::from_slice(&record.value)?;
                if caller.sees(&sweep) && is_meant(&sweep) {
                    all.push((sweep, record.version));
                }
            }
        }
        Ok(all)
    }

    pub(super) async fn find(&self, id: &str) -> Result<Option<(Sweep, u64)>, Error> {
        let record = self.board.get(&Sweep::path(id)).await?;
        record
            .map(|record| Ok((serde_json::from_slice(&record.value)?, record.version)))
            .transpose()
    }

    /// Returns sweeps, the newest first, at most `max` after the sweep `after`.
    ///
    /// # Errors
    /// The board cannot be read.
    pub async fn list(
        &self,
        caller: &Caller,
        after: &str,
        max: usize,
    ) -> Result<Vec<Sweep>, Error> {
        let all = self.visible(caller, |_| true).await?;
        let mut all: Vec<Sweep> = all.into_iter().map(|(sweep, _)| sweep).collect();
        all.sort_by(|a, b| (b.submitted_ms, &b.id).cmp(&(a.submitted_ms, &a.id)));
        let start = match after {
            "" => 0,
            id => all
                .iter()
                .position(|sweep| sweep.id == id)
                .map_or(all.len(), |at| at + 1),
        };
        Ok(all.into_iter().skip(start).take(max).collect())
    }

    /// Says what is wanted of a sweep; new caps replace the old ones. Runs that go on without a cap
    /// are begun anew with it by their coordinators.
    ///
    /// # Errors
    /// It has ended, the price of a model is unknown, or something cannot be reached.
    pub async fn wish(
        &self,
        caller: &Caller,
        id: &str,
        wish: Wish,
        caps: Caps,
    ) -> Result<Sweep, Error> {
        if !caps.is_none() {
            let sweep = self.get(caller, id).await?;
            self.check_prices(&sweep.cells, caps).await?;
        }
        let sweep = self
            .change(caller, id, |sweep| {
                if sweep.ended_ms > 0 {
                    let words = if wish == Wish::Cancel {
                        "cancelled"
                    } else {
                        "changed"
                    };
                    return Err(Error::Precondition(format!(
                        "sweep `{}` has ended; it cannot be {words} any more",
                        sweep.id
                    )));
                }
                if sweep.wish == Wish::Cancel && wish != Wish::Cancel {
                    return Err(Error::Precondition(format!(
                        "sweep `{}` is being cancelled; run its cells again afterwards",
                        sweep.id
                    )));
                }
                sweep.wish = wish;
                sweep.untold = true;
                let old = sweep.caps;
                sweep.caps = Caps {
                    requests: caps.requests.or(old.requests),
                    tokens: caps.tokens.or(old.tokens),
                    micro_usd: caps.micro_usd.or(old.micro_usd),
                };
                Ok(())
            })
            .await?;
        if !caps.is_none() {
            self.ledger
                .set_caps(&format!("sweep/{}", sweep.id), sweep.caps)
                .await?;
        }
        Ok(sweep)
    }

    /// Changes a sweep; of two changes at once, one looks again.
    pub(super) async fn change(
        &self,
        caller: &Caller,
        id: &str,
        change: impl Fn(&mut Sweep) -> Result<(), Error>,
    ) -> Result<Sweep, Error> {
        for _ in 0..TRIES {
            let (mut sweep, version) = self.resolve(caller, id).await?;
            change(&mut sweep)?;
            let bytes = serde_json::to_vec(&sweep)?;
            let expect = Expect::Version(version);
            match self
                .board
                .put(&Sweep::path(&sweep.id), bytes.into(), expect, None)
                .await
            {
                Ok(_) => {
                    self.mark(&sweep).await?;
                    return Ok(sweep);
                }
                Err(board::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Unavailable(format!(
            "sweep `{id}` changes too fast; ask again"
        )))
    }

    /// Marks a sweep that has not ended, so that a coordinator brings it on.
    pub(super) async fn mark(&self, sweep: &Sweep) -> Result<(), Error> {
        if sweep.ended_ms == 0 {
            let path = Sweep::mark(&sweep.id);
            self.board
                .put(&path, bytes::Bytes::new(), Expect::Any, None)
                .await?;
        }
        Ok(())
    }

    /// Returns the state of a sweep and its cause, in words.
    ///
    /// # Errors
    /// Its runs cannot be reached.
    pub async fn state(&self, sweep: &Sweep) -> Result<(String, String), Error> {
        let word = |state: &str| (state.to_owned(), String::new());
        match (sweep.ended_ms > 0, sweep.wish) {
            (true, Wish::Cancel) => return Ok(word("cancelled")),
            (true, _) => return Ok(word("completed")),
            (false, Wish::Pause) => {
                return Ok(("paused".to_owned(), "paused by a person".to_owned()));
            }
            // The cells have not been told yet.
            (false, _) if sweep.untold => return Ok(word("running")),
            (false, _) => {}
        }
        let (cells, checks) = self.gather.standing(sweep).await?;
        let open: Vec<_> = cells
            .iter()
            .chain(&checks)
            .flatten()
            .filter(|now| !is_over(&now.state))
            .collect();
        let is_waiting = sweep.cells.iter().any(|c| !c.over && c.run.is_none());
        let paused = |state: &str| state.starts_with("paused");
        match open.iter().find(|now| paused(&now.state)) {
            Some(first) if !is_waiting && open.iter().all(|now| paused(&now.state)) => {
                Ok(("paused".to_owned(), first.cause.clone()))
            }
            _ => Ok(word("running")),
        }
    }

    /// Returns the results, also of a sweep that goes on, and what was observed.
    ///
    /// # Errors
    /// Something they rest on cannot be reached or is damaged.
    pub async fn results(&self, sweep: &Sweep) -> Result<(Results, Observed), Error> {
        let results = match sweep.results {
            Some(hash) => serde_json::from_slice(&self.store.blob(hash).await?)?,
            None => {
                let (state, _) = self.state(sweep).await?;
                Results::of(&self.gather.facts(sweep, &state).await?)
            }
        };
        let observed = self.gather.observed(sweep, results.tokens.calls).await?;
        Ok((results, observed))
    }
}
