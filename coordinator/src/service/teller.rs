//! What a coordinator tells the others of its jobs, so that each can answer for the whole cluster:
//! a record on the board, written every few seconds, that ends with its writer's right to its runs.
//!
//! Jobs in the queue for runs of which nobody tells are counted in a record of their own, which
//! whoever looks writes: those of runs without a coordinator, and those that a run left behind.

mod told;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_core::job::{FailureClass, Key};
use skillopt_queue::board::Expect;
use skillopt_queue::fleet::{WORKERS, WORKERS_MAX, WorkerRecord};
use skillopt_queue::queue::{Asked, DeadLetter, JobState};
use skillopt_queue::{Lane, RunId, Timestamp};
use tokio_util::sync::CancellationToken;

use self::told::merge;
use super::cost::{self, Costs};
use super::error::Error;
use super::lines::Lines;
use super::live::{Live, LiveRun};
use super::parts::Parts;
use super::record::{RunRecord, State};
use super::runner::LEASE;
use super::table::decode;
use crate::halt::word;
use crate::read_model::WaitReason;
use crate::scheduler::Offer;
use crate::waits::{self, Facts, JobFacts, Place, RunFacts, RunState};

pub use self::told::{RunJobs, Told, sum};

/// Paths of what coordinators tell begin with this.
const TOLD: &str = "coordinator/";
/// Path of what is told of runs of which no coordinator tells.
const LEFT: &str = "jobs-left";
/// How often it is written.
const EVERY: Duration = Duration::from_secs(2);
/// How long it counts: no longer than the runs of a coordinator that died count as its own.
const LIFETIME: Duration = LEASE;
/// Coordinators that are listened to.
const TELLERS_MAX: usize = 1_000;
/// Jobs set aside among which one is looked for.
const DEAD_MAX: usize = 1_000;
/// Minutes of pace that are remembered.
const PACE: Duration = Duration::from_secs(600);

/// Jobs finished a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// In the last minute.
    pub now: Option<u64>,
    /// Before that, on average.
    pub before: Option<f64>,
}

/// Tells, and reads what others tell.
pub struct Teller {
    parts: Parts,
    lines: Lines,
    live: Live,
    name: String,
    program: String,
    finished: Mutex<Finished>,
    costs: Mutex<Costs>,
}

/// How many jobs workers had done, and when more were.
#[derive(Default)]
struct Finished {
    known: HashMap<String, u64>,
    since_ms: Option<u64>,
    steps: VecDeque<(u64, u64)>,
}

impl Teller {
    /// Makes a teller for the jobs in `lines`.
    #[must_use]
    pub fn new(parts: Parts, lines: Lines, live: Live, name: &str, program: &str) -> Self {
        Self {
            parts,
            lines,
            live,
            name: name.to_owned(),
            program: program.to_owned(),
            finished: Mutex::default(),
            costs: Mutex::default(),
        }
    }

    /// Tells until `end`.
    pub async fn run(self: Arc<Self>, end: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        while end.run_until_cancelled(ticks.tick()).await.is_some() {
            // A board that is away is told next time.
            drop(end.run_until_cancelled(self.tell()).await);
        }
        let path = format!("{TOLD}{}", self.name);
        drop(self.parts.board.delete(&path, Expect::Any).await);
    }

    async fn tell(&self) -> Result<(), Error> {
        let now = self.parts.board.now().await?;
        let workers = self.workers().await?;
        let now_ms = now.as_ms();
        self.lines.set_capacity(&offers(&workers, now_ms));
        self.count(&workers, now_ms);
        self.look_at_costs(now_ms).await?;
        let around = self.around(now, &workers).await?;
        let gathered = Facts::gather(now, self.lines.scheduler(), self.parts.queue.as_ref()).await;
        let gathered = gathered.map_err(|e| Error::Unavailable(e.to_string()))?;
        let own = Facts {
            runs: self.own(),
            lines: gathered.lines,
            released: gathered.released,
            ..around.clone()
        };
        self.put(&format!("{TOLD}{}", self.name), by_run(&own), now)
            .await?;
        let left = self.left(around).await?;
        if left.is_empty() {
            // Most of the time there is none.
            self.parts.board.delete(LEFT, Expect::Any).await?;
        } else {
            self.put(LEFT, left, now).await?;
        }
        Ok(())
    }

    async fn put(
        &self,
        path: &str,
        runs: BTreeMap<String, RunJobs>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let told = Told {
            version: 1,
            program: self.program.clone(),
            at_ms: now.as_ms(),
            runs,
        };
        let value = serde_json::to_vec(&told).map_err(|e| Error::Internal(e.to_string()))?;
        let (board, expect) = (&self.parts.board, Expect::Any);
        board
            .put(path, value.into(), expect, Some(LIFETIME))
            .await?;
        Ok(())
    }

    /// Explains the jobs in the queue for runs of which no coordinator tells.
    async fn left(&self, around: Facts) -> Result<BTreeMap<String, RunJobs>, Error> {
        let found = self.parts.board.list(TOLD, "", TELLERS_MAX).await?;
        let told = found.iter().map(decode::<Told>);
        let told = told.collect::<Result<Vec<_>, _>>()?;
        let told = told.iter().flat_map(|told| told.runs.keys());
        let told: BTreeSet<RunId> = told.map(|run| RunId::new(run)).collect();
        let told: Vec<RunId> = told.into_iter().collect();
        let left = self.parts.queue.runs(&told).await;
        let left = left.map_err(|e| Error::Unavailable(e.to_string()))?;
        let mut runs = BTreeMap::new();
        for jobs in &left {
            if !runs.contains_key(&jobs.run) {
                let facts = RunFacts {
                    state: self.state(&jobs.run).await?,
                    ..RunFacts::default()
                };
                runs.insert(jobs.run.clone(), facts);
            }
        }
        Ok(by_run(&Facts {
            left,
            runs,
            ..around
        }))
    }

    /// Returns whether a run can go on.
    async fn state(&self, run: &RunId) -> Result<RunState, Error> {
        let path = RunRecord::path(run.as_str());
        let Some(found) = self.parts.board.get(&path).await? else {
            return Ok(RunState::Running);
        };
        // One that cannot be read must not hide what is known of the others.
        let Ok(record) = decode::<RunRecord>(&found) else {
            return Ok(RunState::Running);
        };
        let is_held = self.parts.board.holder(&path).await?.is_some();
        Ok(state(record, is_held))
    }

    /// Returns what reasons are found from beside the jobs themselves.
    async fn around(&self, now: Timestamp, workers: &[WorkerRecord]) -> Result<Facts, Error> {
        Ok(Facts {
            now,
            lanes: lanes(workers, now.as_ms()),
            accounts: self.parts.rates.accounts().await?,
            store_pressure: self.parts.store.pressure().await?,
            values_away: match self.parts.store.away().await {
                Some(away) => Some(away.to_string()),
                None => away_from_all(workers, now.as_ms()),
            },
            ..Facts::default()
        })
    }

    /// Says that the place of large values is away, as this coordinator or a worker sees it.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn values_away(&self) -> Result<Option<String>, Error> {
        if let Some(away) = self.parts.store.away().await {
            return Ok(Some(away.to_string()));
        }
        let now = self.parts.board.now().await?.as_ms();
        let workers = self.workers().await?;
        let alone = alive(&workers, now).find(|worker| !worker.cause.is_empty());
        let alone = alone.map(|worker| {
            let help = "others do not say so: restart it, or look at its way there; what it holds \
                        then goes to others";
            format!("{}\n{help}", told(worker))
        });
        Ok(away_from_all(&workers, now).or(alone))
    }

    /// Returns why a job waits that is in the queue in this state, whoever asked for it; nothing if
    /// it has just left.
    ///
    /// # Errors
    /// The board or the queue cannot be reached.
    pub async fn job(&self, key: Key, state: &JobState) -> Result<Option<RunJobs>, Error> {
        let Some(Asked { lane, since, runs }) = self.asked(key).await? else {
            return Ok(None);
        };
        let (Some(place), Some(run)) = (Place::of(state), runs.into_iter().next()) else {
            return Ok(None);
        };
        let told = self.runs().await?;
        let accounts = told.get(run.as_str()).into_iter().flat_map(|r| &r.accounts);
        let facts = RunFacts {
            state: self.state(&run).await?,
            accounts: accounts
                .map(|(lane, account)| (Lane::new(lane), account.clone()))
                .collect(),
        };
        let now = self.parts.board.now().await?;
        let around = self.around(now, &self.workers().await?).await?;
        Ok(Some(jobs(&Facts {
            runs: BTreeMap::from([(run.clone(), facts)]),
            released: vec![JobFacts {
                key,
                run,
                lane,
                since,
                place,
            }],
            ..around
        })))
    }

    /// Returns who waits for a job that is in the queue.
    ///
    /// # Errors
    /// The queue cannot be reached.
    pub async fn asked(&self, key: Key) -> Result<Option<Asked>, Error> {
        let asked = self.parts.queue.asked(&[key]).await;
        let asked = asked.map_err(|e| Error::Unavailable(e.to_string()))?;
        Ok(asked.into_iter().next().flatten())
    }

    /// Returns the jobs whose keys begin with `digits` and that this coordinator has in the queue.
    #[must_use]
    pub fn released(&self, digits: &str) -> BTreeSet<Key> {
        let released = self.lines.scheduler().standing().released;
        let keys = released.iter().map(|job| job.key);
        keys.filter(|key| key.to_string().starts_with(digits))
            .collect()
    }

    /// Returns the jobs that were set aside and whose keys begin with `digits`.
    ///
    /// # Errors
    /// The queue cannot be reached.
    pub async fn set_aside(&self, digits: &str) -> Result<Vec<Arc<DeadLetter>>, Error> {
        let dead = self.parts.queue.dead_letters(DEAD_MAX).await;
        let mut dead = dead.map_err(|e| Error::Unavailable(e.to_string()))?;
        dead.retain(|letter| letter.key.to_string().starts_with(digits));
        Ok(dead)
    }

    /// Returns the jobs whose keys begin with `digits` and that runs at work here wait for, and these
    /// runs.
    #[must_use]
    pub fn wanted(&self, digits: &str) -> Vec<(Key, Vec<RunId>)> {
        let is_meant = |key: &Key| key.to_string().starts_with(digits);
        self.lines.scheduler().wanted(is_meant)
    }

    /// Returns what is known of the runs at work here.
    fn own(&self) -> BTreeMap<RunId, RunFacts> {
        let facts = |(id, run): (String, Arc<LiveRun>)| {
            let facts = RunFacts {
                accounts: run.accounts(),
                ..RunFacts::default()
            };
            (RunId::new(&id), facts)
        };
        self.live.all().into_iter().map(facts).collect()
    }

    /// Returns what is told of the jobs of runs, each run once.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn runs(&self) -> Result<BTreeMap<String, RunJobs>, Error> {
        let board = &self.parts.board;
        let left = board.get(LEFT).await?;
        let found = board.list(TOLD, "", TELLERS_MAX).await?;
        let left = left.iter().map(decode::<Told>);
        let left = left.collect::<Result<Vec<_>, _>>()?;
        let told = found.iter().map(decode::<Told>);
        Ok(merge(left, told.collect::<Result<Vec<_>, _>>()?))
    }

    /// Returns all workers that wrote lately.
    ///
    /// # Errors
    /// The board cannot be reached.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, Error> {
        let found = self.parts.board.list(WORKERS, "", WORKERS_MAX).await?;
        found.iter().map(decode).collect()
    }

    /// Returns how fast jobs are finished.
    #[must_use]
    pub fn pace(&self, now_ms: u64) -> Pace {
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(since) = finished.since_ms else {
            return Pace::default();
        };
        let minute = now_ms.saturating_sub(60_000);
        let sum = |is_in: &dyn Fn(u64) -> bool| -> u64 {
            let steps = finished.steps.iter().filter(|(at, _)| is_in(*at));
            steps.map(|(_, n)| n).sum()
        };
        let before_ms = minute.saturating_sub(since.max(now_ms.saturating_sub(ms(PACE))));
        #[expect(clippy::cast_precision_loss, reason = "counts of minutes")]
        let before = (before_ms >= 60_000)
            .then(|| sum(&|at| at <= minute) as f64 * 60_000.0 / before_ms as f64);
        Pace {
            now: (since <= minute).then(|| sum(&|at| at > minute)),
            before,
        }
    }

    /// Returns what an hour costs at the pace of the last minutes, for one tenant or all; nothing if
    /// a price is unknown.
    #[must_use]
    pub fn usd_an_hour(&self, tenant: Option<&str>) -> Option<f64> {
        self.costs().usd_an_hour(tenant)
    }

    async fn look_at_costs(&self, now_ms: u64) -> Result<(), Error> {
        if self.costs().is_due(now_ms) {
            let (board, ledger) = (self.parts.board.as_ref(), self.parts.ledger.as_ref());
            let spent = cost::spent(board, ledger).await?;
            self.costs().add(now_ms, spent);
        }
        Ok(())
    }

    fn costs(&self) -> MutexGuard<'_, Costs> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, workers: &[WorkerRecord], now_ms: u64) {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = finished.since_ms.is_none();
        finished.since_ms.get_or_insert(now_ms);
        let mut more = 0;
        let mut known = HashMap::with_capacity(workers.len());
        for worker in workers {
            let before = finished.known.get(&worker.id).copied();
            // What was done before we looked is not of now.
            let before = before.unwrap_or(if is_first { worker.jobs_done } else { 0 });
            more += worker.jobs_done.saturating_sub(before);
            known.insert(worker.id.clone(), worker.jobs_done);
        }
        finished.known = known;
        finished.steps.push_back((now_ms, more));
        let oldest = now_ms.saturating_sub(ms(PACE));
        while finished.steps.front().is_some_and(|(at, _)| *at < oldest) {
            finished.steps.pop_front();
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Says that the place of large values is away from every live worker. Who waits for answers asks the
/// place for nothing; workers do.
fn away_from_all(workers: &[WorkerRecord], now_ms: u64) -> Option<String> {
    let mut alive = alive(workers, now_ms).peekable();
    let first = alive.peek().map(|worker| told(worker))?;
    alive
        .all(|worker| !worker.cause.is_empty())
        .then_some(first)
}

fn told(worker: &WorkerRecord) -> String {
    format!("worker `{}`: {}", worker.id, worker.cause)
}

/// Returns the workers that take jobs at `now_ms`.
fn alive(workers: &[WorkerRecord], now_ms: u64) -> impl Iterator<Item = &WorkerRecord> {
    workers.iter().filter(move |w| w.state_at(now_ms) == "well")
}

/// Returns what live workers can run.
fn lanes(workers: &[WorkerRecord], now_ms: u64) -> BTreeSet<Lane> {
    let lanes = alive(workers, now_ms).flat_map(|worker| &worker.lanes);
    lanes.map(|lane| Lane::new(lane)).collect()
}

/// Returns the slots of workers, those with the same lanes together.
fn offers(workers: &[WorkerRecord], now_ms: u64) -> Vec<Offer> {
    let mut pools: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for worker in alive(workers, now_ms) {
        for (kind, slots) in &worker.slots {
            let of_kind = |lane: &&String| {
                skillopt_core::capability::kind_of(lane).map_or("chat", |k| k.as_str()) == kind
            };
            let mut lanes: Vec<String> = worker.lanes.iter().filter(of_kind).cloned().collect();
            lanes.sort_unstable();
            *pools.entry(lanes).or_default() += *slots as usize;
        }
    }
    let offer = |(lanes, slots): (Vec<String>, usize)| Offer {
        lanes: lanes.iter().map(|lane| Lane::new(lane)).collect(),
        slots,
    };
    pools.into_iter().map(offer).collect()
}

fn jobs(facts: &Facts) -> RunJobs {
    let waits = waits::explain(facts);
    RunJobs {
        waits: waits.rows.iter().map(WaitReason::from).collect(),
        waiting: waits.waiting,
        running: waits.running,
        accounts: BTreeMap::new(),
    }
}

/// Returns whether a run can go on.
fn state(run: RunRecord, is_held: bool) -> RunState {
    match run.state {
        State::Paused if run.cause_class == word(FailureClass::Budget) => {
            RunState::OutOfBudget { cap: run.cause }
        }
        State::Paused => RunState::Paused {
            by: run.cause_class,
        },
        State::Queued | State::Running if !is_held => RunState::Orphaned {
            takeover_ms: ms(LEASE),
        },
        _ => RunState::Running,
    }
}

/// Explains the jobs of each run by itself, so that each run's counts add up.
fn by_run(facts: &Facts) -> BTreeMap<String, RunJobs> {
    let runs = facts.lines.iter().map(|line| &line.run);
    let runs = runs.chain(facts.released.iter().map(|job| &job.run));
    let runs = runs.chain(facts.left.iter().map(|left| &left.run));
    let runs: BTreeSet<&RunId> = runs.collect();
    let explained = |run: &RunId| {
        let accounts = facts.runs.get(run).into_iter().flat_map(|r| &r.accounts);
        RunJobs {
            accounts: accounts
                .map(|(lane, account)| (lane.as_str().to_owned(), account.clone()))
                .collect(),
            ..jobs(&facts.only(|other| other == run))
        }
    };
    runs.into_iter()
        .map(|run| (run.as_str().to_owned(), explained(run)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn a_run_that_nobody_holds_is_orphaned_unless_it_is_paused() {
        let run = |state, class: &str| RunRecord {
            state,
            cause: "why".to_owned(),
            cause_class: class.to_owned(),
            ..record()
        };
        let orphaned = RunState::Orphaned { takeover_ms: 6_000 };
        assert_eq!(state(run(State::Running, ""), false), orphaned);
        assert_eq!(state(run(State::Queued, ""), false), orphaned);
        assert_eq!(state(run(State::Running, ""), true), RunState::Running);
        let by = "person".to_owned();
        let paused = state(run(State::Paused, "person"), false);
        assert_eq!(paused, RunState::Paused { by });
        let cap = "why".to_owned();
        let spent = state(run(State::Paused, "budget"), false);
        assert_eq!(spent, RunState::OutOfBudget { cap });
    }
}
