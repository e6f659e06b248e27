//! Reads what is known of a sweep: how its runs stand, what their logs say, and the stored scores
//! of skills on test items, found by the keys of their jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use skillopt_core::Hash;
use skillopt_core::job::{Key, Price};
use skillopt_queue::{Ledger, Store};

use super::error::Error;
use super::facts::{CellFacts, Cost, Facts, Missing, Scores, TransferFacts, is_finished};
use super::observed::{CellObserved, Observed, Paid, seconds};
use super::record::{Cell, Check, Sweep};
use super::runs::{Inputs, RunNow, Runs};
use crate::log;
use crate::read_model::TokenRow;

/// Results that are read together.
const CHUNK: usize = 256;
/// Score lists that are kept in memory: 45 MB, if each cell has 1,400 test items.
const KEPT_MAX: usize = 4_000;

/// What the end of a training's log says.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Blob of the best skill.
    pub best: Hash,
    /// Tokens of the target's and of the optimizer's answers.
    pub tokens: [TokenRow; 2],
}

/// Scores of one skill on the test items of one bundle.
type Kept = Arc<[f64]>;

/// Reads facts; keeps those that can never change.
pub struct Gather {
    store: Arc<dyn Store>,
    runs: Arc<dyn Runs>,
    ledger: Arc<dyn Ledger>,
    /// By bundle and skill.
    scores: Mutex<BTreeMap<(Hash, Hash), Kept>>,
    ends: Mutex<BTreeMap<String, Arc<Ended>>>,
    prices: Mutex<BTreeMap<Hash, [Option<Price>; 2]>>,
}

impl Gather {
    /// Reads from these.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, runs: Arc<dyn Runs>, ledger: Arc<dyn Ledger>) -> Self {
        Self {
            store,
            runs,
            ledger,
            scores: Mutex::default(),
            ends: Mutex::default(),
            prices: Mutex::default(),
        }
    }

    /// Returns how the runs of cells and of checks stand, in their order.
    ///
    /// # Errors
    /// The runs cannot be reached.
    pub async fn standing(
        &self,
        sweep: &Sweep,
    ) -> Result<(Vec<Option<RunNow>>, Vec<Option<RunNow>>), Error> {
        let cells = sweep.cells.iter().map(|cell| cell.run.clone());
        let checks = sweep.checks.iter().map(|check| check.run.clone());
        let all: Vec<Option<String>> = cells.chain(checks).collect();
        let ids: Vec<String> = all.iter().flatten().cloned().collect();
        let mut found = self.runs.get(&ids).await?.into_iter();
        let mut now: Vec<Option<RunNow>> = all
            .into_iter()
            .map(|id| id.and_then(|_| found.next().flatten()))
            .collect();
        let checks = now.split_off(sweep.cells.len());
        Ok((now, checks))
    }

    /// Returns what the end of a training's log says; `None` if it does not end.
    ///
    /// # Errors
    /// The log cannot be read.
    pub async fn ended(&self, run: &str) -> Result<Option<Arc<Ended>>, Error> {
        if let Some(known) = lock(&self.ends).get(run) {
            return Ok(Some(Arc::clone(known)));
        }
        let events = log::read(self.store.as_ref(), &self.runs.log(run)).await;
        let events = events.map_err(|halt| Error::Unavailable(halt.to_string()))?;
        let Some(last) = events.last().filter(|event| event.kind == "ended") else {
            return Ok(None);
        };
        let best = last.facts.get("best_skill").cloned().unwrap_or_default();
        let best: Hash = serde_json::from_value(best)?;
        let tokens = last
            .facts
            .get("token_summary")
            .map(tokens)
            .unwrap_or_default();
        let ended = Arc::new(Ended { best, tokens });
        keep(&self.ends, run.to_owned(), Arc::clone(&ended));
        Ok(Some(ended))
    }

    /// Opens a bundle.
    ///
    /// # Errors
    /// It is not there or cannot be used.
    pub async fn inputs(&self, bundle: Hash) -> Result<Arc<Inputs>, Error> {
        Ok(self.runs.inputs(bundle).await?)
    }

    /// Returns the scores of a skill on the test items of a bundle; `None` if one is not stored.
    ///
    /// # Errors
    /// The store cannot be read, or a result is damaged.
    pub async fn scores(&self, bundle: Hash, skill: Hash) -> Result<Option<Arc<[f64]>>, Error> {
        if let Some(known) = lock(&self.scores).get(&(bundle, skill)) {
            return Ok(Some(Arc::clone(known)));
        }
        let inputs = self.inputs(bundle).await?;
        let keys: Vec<Key> = inputs
            .test
            .iter()
            .map(|sample| inputs.common.rollout_job(sample, skill, 0).key())
            .collect();
        let mut scores = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(CHUNK) {
            for (key, bytes) in chunk.iter().zip(self.store.results(chunk).await?) {
                let Some(bytes) = bytes else {
                    return Ok(None);
                };
                let outline: Outline = serde_json::from_slice(&bytes)
                    .map_err(|e| Error::Damaged(format!("result `{key}` is damaged: {e}")))?;
                scores.push(outline.row.hard);
            }
        }
        let scores: Arc<[f64]> = scores.into();
        keep(&self.scores, (bundle, skill), Arc::clone(&scores));
        Ok(Some(scores))
    }

    async fn prices(&self, bundle: Hash) -> Result<[Option<Price>; 2], Error> {
        if let Some(known) = lock(&self.prices).get(&bundle) {
            return Ok(*known);
        }
        let prices = self.inputs(bundle).await?.prices;
        keep(&self.prices, bundle, prices);
        Ok(prices)
    }

    /// Reads everything that the results rest on.
    ///
    /// # Errors
    /// Something cannot be reached or is damaged.
    pub async fn facts(&self, sweep: &Sweep, state: &str) -> Result<Facts, Error> {
        let (cells, checks) = self.standing(sweep).await?;
        let mut facts = Facts {
            name: sweep.name.clone(),
            state: state.to_owned(),
            arms: sweep.arms.iter().map(|arm| arm.name.clone()).collect(),
            family: sweep.family,
            cells: Vec::with_capacity(cells.len()),
            transfer: sweep.transfer,
            transfers: Vec::new(),
        };
        for (at, (cell, now)) in sweep.cells.iter().zip(&cells).enumerate() {
            facts
                .cells
                .push(self.cell(sweep, at, cell, now.as_ref(), &checks).await?);
        }
        for (from, to) in sweep.pairs() {
            let scores = self.transfer(sweep, from, to, &checks).await?;
            facts.transfers.push(TransferFacts { from, to, scores });
        }
        Ok(facts)
    }

    async fn cell(
        &self,
        sweep: &Sweep,
        at: usize,
        cell: &Cell,
        now: Option<&RunNow>,
        checks: &[Option<RunNow>],
    ) -> Result<CellFacts, Error> {
        let (state, cause) = stands(cell, now);
        let missing = || Missing::because(format!("the cell is {state}"));
        let mut facts = CellFacts {
            cell: cell.name.clone(),
            model: cell.model.clone(),
            benchmark: cell.benchmark.clone(),
            harness: cell.harness.clone(),
            seed: cell.seed,
            repeat: cell.repeat,
            start: Err(missing()),
            best: Err(missing()),
            arms: sweep
                .arms
                .iter()
                .map(|arm| (arm.name.clone(), Err(missing())))
                .collect(),
            tokens: None,
            cost: Err(missing()),
            state: state.clone(),
            cause,
        };
        // The test split stays sealed until the cell has come to its end.
        let (true, Some(best), Some(initial)) = (is_finished(&state), cell.best, cell.initial)
        else {
            return Ok(facts);
        };
        facts.start = self.of_skill(sweep, at, initial, checks).await?;
        facts.best = self.of_skill(sweep, at, best, checks).await?;
        for (arm, slot) in sweep.arms.iter().zip(&mut facts.arms) {
            slot.1 = self
                .of_skill(sweep, at, arm.skill.unwrap_or(initial), checks)
                .await?;
        }
        if let Some(run) = &cell.run
            && let Some(ended) = self.ended(run).await?
        {
            facts.tokens = Some(ended.tokens);
            facts.cost = match self.prices(cell.bundle).await {
                Ok(prices) => cost(ended.tokens, prices),
                Err(Error::Precondition(why)) => {
                    Err(Missing::because(format!("{FORGOTTEN}: {why}")))
                }
                Err(error) => return Err(error),
            };
        }
        Ok(facts)
    }

    async fn transfer(
        &self,
        sweep: &Sweep,
        from: usize,
        to: usize,
        checks: &[Option<RunNow>],
    ) -> Result<Scores, Error> {
        let missing = |cell: Option<&Cell>| {
            let name = cell.map_or("a cell", |cell| cell.name.as_str());
            Ok(Err(Missing::because(format!(
                "`{name}` has not come to its end"
            ))))
        };
        let Some(skill) = sweep.cells.get(from).and_then(|cell| cell.best) else {
            return missing(sweep.cells.get(from));
        };
        if sweep.cells.get(to).and_then(|cell| cell.best).is_none() {
            return missing(sweep.cells.get(to));
        }
        self.of_skill(sweep, to, skill, checks).await
    }

    /// Scores of a skill in a cell, or why there are none.
    async fn of_skill(
        &self,
        sweep: &Sweep,
        at: usize,
        skill: Hash,
        checks: &[Option<RunNow>],
    ) -> Result<Scores, Error> {
        let Some(cell) = sweep.cells.get(at) else {
            return Ok(Err(Missing::because("there is no such cell")));
        };
        match self.scores(cell.bundle, skill).await {
            Ok(Some(scores)) => return Ok(Ok(scores)),
            Ok(None) => {}
            // No wait brings them back, and the other cells are none the worse for it.
            Err(Error::Precondition(why)) => {
                return Ok(Err(Missing::because(format!("{FORGOTTEN}: {why}"))));
            }
            Err(error) => return Err(error),
        }
        let mut all = sweep.checks.iter().zip(checks);
        let check = all.find(|(check, _)| check.cell == at && check.skill == skill);
        Ok(Err(Missing(match check {
            Some((check, now)) => not_scored(check, now.as_ref()),
            None => "not scored on the test items yet".to_owned(),
        })))
    }

    /// Reads times and payments.
    ///
    /// # Errors
    /// Something cannot be reached.
    pub async fn observed(&self, sweep: &Sweep, calls_used: u64) -> Result<Observed, Error> {
        let (cells, _) = self.standing(sweep).await?;
        let purses: Vec<String> = sweep
            .cells
            .iter()
            .map(|cell| format!("run/{}", cell.run.as_deref().unwrap_or_default()))
            .chain([format!("sweep/{}", sweep.id)])
            .collect();
        let balances = self.ledger.balances(&purses).await?;
        let end = (sweep.ended_ms > 0).then_some(sweep.ended_ms);
        Ok(Observed {
            sweep: sweep.id.clone(),
            submitted_ms: sweep.submitted_ms,
            ended_ms: end,
            wall_s: end.and_then(|end| seconds(sweep.submitted_ms, end)),
            paid: balances.last().map(Paid::of),
            calls_used,
            cells: sweep
                .cells
                .iter()
                .zip(cells.iter().zip(&balances))
                .map(|(cell, (now, balance))| {
                    let wall_s = now.as_ref().and_then(|n| seconds(n.started_ms, n.ended_ms));
                    CellObserved {
                        cell: cell.name.clone(),
                        run: cell.run.clone(),
                        retries: cell.attempt,
                        wall_s,
                        wall_s_missing_reason: wall_s
                            .is_none()
                            .then(|| format!("the cell is {}", stands(cell, now.as_ref()).0)),
                        paid: cell.run.is_some().then(|| Paid::of(balance)),
                    }
                })
                .collect(),
        })
    }
}

/// A stored rollout, as far as its score.
#[derive(Deserialize)]
struct Outline {
    row: Row,
}

#[derive(Deserialize)]
struct Row {
    hard: f64,
}

/// State and cause of a cell in words.
#[must_use]
pub fn stands(cell: &Cell, now: Option<&RunNow>) -> (String, String) {
    match (&cell.refused, now) {
        (Some(why), _) if cell.run.is_none() && why == CANCELLED => {
            ("cancelled".to_owned(), why.clone())
        }
        (Some(why), _) => ("failed".to_owned(), why.clone()),
        (None, None) => ("waiting".to_owned(), String::new()),
        (None, Some(now)) => (now.state.clone(), now.cause.clone()),
    }
}

/// What is said of a cell whose inputs are gone.
pub const FORGOTTEN: &str = "the inputs of the cell cannot be had any more (`--keep-days` of the \
                             coordinator says how long they are kept); submit the sweep again to \
                             have them";

/// What a cell says that was cancelled before it began.
pub const CANCELLED: &str = "cancelled before it began";

fn not_scored(check: &Check, now: Option<&RunNow>) -> String {
    match (&check.refused, now) {
        (Some(why), _) => why.clone(),
        (None, None) => "waits to be scored on the test items".to_owned(),
        (None, Some(now)) if now.cause.is_empty() => {
            format!("its evaluation is {}", now.state)
        }
        (None, Some(now)) => format!("its evaluation is {}: {}", now.state, now.cause),
    }
}

/// Splits the tokens of a run: rollouts are the target's, all else the optimizer's.
fn tokens(summary: &Value) -> [TokenRow; 2] {
    let mut rows = [TokenRow::default(); 2];
    for (stage, usage) in summary.as_object().into_iter().flatten() {
        let row = match stage.as_str() {
            "_total" => continue,
            "rollout" => &mut rows[0],
            _ => &mut rows[1],
        };
        let whole = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        row.calls += whole("calls");
        row.prompt_tokens += whole("prompt_tokens");
        row.completion_tokens += whole("completion_tokens");
        row.cached_tokens += whole("cached_tokens");
        row.cache_write_tokens += whole("cache_write_tokens");
        row.reasoning_tokens += whole("reasoning_tokens");
        row.truncated_calls += whole("truncated_calls");
    }
    rows
}

/// What tokens cost; a role that used none needs no price.
fn cost(tokens: [TokenRow; 2], prices: [Option<Price>; 2]) -> Cost {
    let mut sum = 0_u64;
    for ((row, price), role) in tokens.iter().zip(prices).zip(["target", "optimizer"]) {
        if *row == TokenRow::default() {
            continue;
        }
        let price = price.ok_or_else(|| {
            Missing::because(format!("the price of the {role}'s model is unknown"))
        })?;
        sum = sum.saturating_add(price.of(row.usage()));
    }
    Ok(sum)
}

/// Notes a fact; when there are too many, one is forgotten and read again.
fn keep<K: Ord, V>(map: &Mutex<BTreeMap<K, V>>, key: K, value: V) {
    let mut map = lock(map);
    if map.len() >= KEPT_MAX {
        map.pop_first();
    }
    map.insert(key, value);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No section under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
