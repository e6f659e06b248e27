//! Sweeps over gRPC.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use serde_json::{Value, json};
use skillopt_core::Hash;
use skillopt_proto::v1;
use skillopt_proto::v1::sweeps_server::Sweeps as Service;
use skillopt_queue::ledger::Caps;
use skillopt_runtime::Shutdown;
use tonic::{Request, Response, Status};

use super::desk::{Caller, Sweeps};
use super::error::Error;
use super::gather::stands;
use super::record::{Cell, Sweep};
use super::runs::{RunNow, Wish};
use super::submit::NewSweep;

/// Time between two looks at a sweep that is watched.
const BEAT: Duration = Duration::from_millis(500);
/// Sweeps of a page, unless asked for otherwise.
const PAGE: u32 = 50;
/// Most sweeps of a page.
const PAGE_MAX: u32 = 200;

/// What a call needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To look.
    Read,
    /// To submit and to change.
    Write,
}

/// Says who calls, or why they may not; the service knows.
pub type Callers = Arc<
    dyn Fn(&tonic::metadata::MetadataMap, &tonic::Extensions, Need) -> Result<Caller, Status>
        + Send
        + Sync,
>;

/// The service.
#[derive(Clone)]
pub struct Rpc {
    sweeps: Arc<Sweeps>,
    callers: Callers,
    shutdown: Shutdown,
}

impl Rpc {
    /// Serves `sweeps`; streams end when `shutdown` drains.
    #[must_use]
    pub fn new(sweeps: Arc<Sweeps>, callers: Callers, shutdown: Shutdown) -> Self {
        Self {
            sweeps,
            callers,
            shutdown,
        }
    }

    fn caller<T>(&self, request: &Request<T>, need: Need) -> Result<Caller, Status> {
        (self.callers)(request.metadata(), request.extensions(), need)
    }

    async fn full(&self, sweep: &Sweep) -> Result<v1::Sweep, Error> {
        let mut shown = self.plain(sweep).await?;
        shown.results_json = self.results(sweep).await?;
        Ok(shown)
    }

    async fn results(&self, sweep: &Sweep) -> Result<String, Error> {
        let (results, observed) = self.sweeps.results(sweep).await?;
        Ok(json!({"results": results, "observed": observed}).to_string())
    }

    /// The sweep without its results.
    async fn plain(&self, sweep: &Sweep) -> Result<v1::Sweep, Error> {
        let (now, _) = self.sweeps.gather.standing(sweep).await?;
        let cells = sweep.cells.iter().zip(&now);
        let mut shown = self.head(sweep).await?;
        shown.cells = cells
            .map(|(cell, now)| to_cell(sweep, cell, now.as_ref()))
            .collect();
        Ok(shown)
    }

    /// The sweep without cells and results.
    async fn head(&self, sweep: &Sweep) -> Result<v1::Sweep, Error> {
        let (state, cause) = self.sweeps.state(sweep).await?;
        Ok(v1::Sweep {
            id: sweep.id.clone(),
            name: sweep.name.clone(),
            tenant: sweep.tenant.clone(),
            owner: sweep.owner.clone(),
            state,
            cause,
            submitted_ms: sweep.submitted_ms,
            ended_ms: sweep.ended_ms,
            cells: Vec::new(),
            results_json: String::new(),
            cells_total: count(sweep, |_| true),
            cells_over: count(sweep, |cell| cell.over),
            cells_lost: count(sweep, |cell| cell.over && cell.best.is_none()),
        })
    }

    async fn wish<T>(
        &self,
        request: &Request<T>,
        id: &str,
        wish: Wish,
        caps: Caps,
    ) -> Result<Option<v1::Sweep>, Status> {
        let caller = self.caller(request, Need::Write)?;
        let sweep = self.sweeps.wish(&caller, id, wish, caps).await?;
        Ok(Some(self.plain(&sweep).await?))
    }
}

type Watched = Pin<Box<dyn Stream<Item = Result<v1::WatchSweepResponse, Status>> + Send>>;

#[tonic::async_trait]
impl Service for Rpc {
    type WatchSweepStream = Watched;

    async fn submit_sweep(
        &self,
        request: Request<v1::SubmitSweepRequest>,
    ) -> Result<Response<v1::SubmitSweepResponse>, Status> {
        let caller = self.caller(&request, Need::Write)?;
        let new = new_sweep(request.into_inner())?;
        let (sweep, existed) = self.sweeps.submit(&caller, new).await?;
        let sweep = Some(self.plain(&sweep).await?);
        Ok(Response::new(v1::SubmitSweepResponse { sweep, existed }))
    }

    async fn get_sweep(
        &self,
        request: Request<v1::GetSweepRequest>,
    ) -> Result<Response<v1::GetSweepResponse>, Status> {
        let caller = self.caller(&request, Need::Read)?;
        let sweep = self.sweeps.get(&caller, &request.get_ref().id).await?;
        let sweep = Some(self.full(&sweep).await?);
        Ok(Response::new(v1::GetSweepResponse { sweep }))
    }

    async fn list_sweeps(
        &self,
        request: Request<v1::ListSweepsRequest>,
    ) -> Result<Response<v1::ListSweepsResponse>, Status> {
        let caller = self.caller(&request, Need::Read)?;
        let asked = request.into_inner();
        let size = match asked.page_size {
            0 => PAGE,
            n => n.min(PAGE_MAX),
        };
        let found = self
            .sweeps
            .list(&caller, &asked.after, size as usize + 1)
            .await?;
        let next = match found.get(size as usize) {
            Some(_) => found.get(size as usize - 1).map(|sweep| sweep.id.clone()),
            None => None,
        };
        let mut sweeps = Vec::new();
        for sweep in found.iter().take(size as usize) {
            sweeps.push(self.head(sweep).await?);
        }
        let next = next.unwrap_or_default();
        Ok(Response::new(v1::ListSweepsResponse { sweeps, next }))
    }

    async fn watch_sweep(
        &self,
        request: Request<v1::WatchSweepRequest>,
    ) -> Result<Response<Self::WatchSweepStream>, Status> {
        let caller = self.caller(&request, Need::Read)?;
        let id = self.sweeps.get(&caller, &request.get_ref().id).await?.id;
        let watch = Watch {
            rpc: self.clone(),
            caller,
            id,
            last: None,
            counted: None,
            is_over: false,
        };
        let news = stream::unfold(watch, |mut watch| async move {
            let news = watch.next().await?;
            watch.is_over |= news.is_err();
            Some((news, watch))
        });
        Ok(Response::new(Box::pin(news)))
    }

    async fn pause_sweep(
        &self,
        request: Request<v1::PauseSweepRequest>,
    ) -> Result<Response<v1::PauseSweepResponse>, Status> {
        let id = request.get_ref().id.clone();
        let sweep = self
            .wish(&request, &id, Wish::Pause, Caps::default())
            .await?;
        Ok(Response::new(v1::PauseSweepResponse { sweep }))
    }

    async fn resume_sweep(
        &self,
        request: Request<v1::ResumeSweepRequest>,
    ) -> Result<Response<v1::ResumeSweepResponse>, Status> {
        let asked = request.get_ref();
        let (id, caps) = (
            asked.id.clone(),
            Caps {
                requests: asked.cap_requests,
                tokens: asked.cap_tokens,
                micro_usd: asked.cap_micro_usd,
            },
        );
        let sweep = self.wish(&request, &id, Wish::Run, caps).await?;
        Ok(Response::new(v1::ResumeSweepResponse { sweep }))
    }

    async fn cancel_sweep(
        &self,
        request: Request<v1::CancelSweepRequest>,
    ) -> Result<Response<v1::CancelSweepResponse>, Status> {
        let id = request.get_ref().id.clone();
        let sweep = self
            .wish(&request, &id, Wish::Cancel, Caps::default())
            .await?;
        Ok(Response::new(v1::CancelSweepResponse { sweep }))
    }

    async fn retry_cells(
        &self,
        request: Request<v1::RetryCellsRequest>,
    ) -> Result<Response<v1::RetryCellsResponse>, Status> {
        let caller = self.caller(&request, Need::Write)?;
        let asked = request.into_inner();
        let sweep = self.sweeps.retry(&caller, &asked.id, &asked.cells).await?;
        let sweep = Some(self.plain(&sweep).await?);
        Ok(Response::new(v1::RetryCellsResponse { sweep }))
    }
}

/// A sweep that somebody watches.
struct Watch {
    rpc: Rpc,
    caller: Caller,
    id: String,
    /// What was sent last, without results.
    last: Option<v1::Sweep>,
    /// Cells and checks that were over when results were sent last.
    counted: Option<usize>,
    is_over: bool,
}

impl Watch {
    /// Waits for a change; nothing more comes after the end.
    async fn next(&mut self) -> Option<Result<v1::WatchSweepResponse, Status>> {
        if self.is_over {
            return None;
        }
        loop {
            if self.rpc.shutdown.drain.is_cancelled() {
                return Some(Err(Status::unavailable(
                    "this coordinator is stopping; ask again",
                )));
            }
            match self.look().await {
                Ok(None) => {}
                Ok(Some(sweep)) => {
                    let sweep = Some(sweep);
                    return Some(Ok(v1::WatchSweepResponse { sweep }));
                }
                Err(error) => return Some(Err(error.into())),
            }
            let beat = tokio::time::sleep(BEAT);
            // What ends the wait early is seen at the head of the loop.
            let _ = self.rpc.shutdown.drain.run_until_cancelled(beat).await;
        }
    }

    async fn look(&mut self) -> Result<Option<v1::Sweep>, Error> {
        let sweep = self.rpc.sweeps.get(&self.caller, &self.id).await?;
        let mut shown = self.rpc.plain(&sweep).await?;
        if self.last.as_ref() == Some(&shown) {
            return Ok(None);
        }
        self.last = Some(shown.clone());
        self.is_over = sweep.ended_ms > 0;
        let over = sweep.cells.iter().filter(|cell| cell.over).count()
            + sweep.checks.iter().filter(|check| check.over).count();
        if self.is_over || self.counted != Some(over) {
            self.counted = Some(over);
            shown.results_json = self.rpc.results(&sweep).await?;
        }
        Ok(Some(shown))
    }
}

fn count(sweep: &Sweep, is_meant: impl Fn(&Cell) -> bool) -> u32 {
    let n = sweep.cells.iter().filter(|cell| is_meant(cell)).count();
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn new_sweep(asked: v1::SubmitSweepRequest) -> Result<NewSweep, Error> {
    let spec: Value = match asked.spec_json.as_str() {
        "" => json!({}),
        text => serde_json::from_str(text)
            .map_err(|e| Error::Invalid(format!("`spec_json` is no JSON: {e}")))?,
    };
    if !spec.is_object() {
        return Err(Error::Invalid("`spec_json` is no JSON object".to_owned()));
    }
    let cells = asked
        .cells
        .into_iter()
        .map(from_cell)
        .collect::<Result<_, _>>()?;
    Ok(NewSweep {
        client_key: asked.client_key,
        name: asked.name,
        cells,
        spec,
        transfer: asked.transfer,
        weight: asked.weight,
        caps: Caps {
            requests: asked.cap_requests,
            tokens: asked.cap_tokens,
            micro_usd: asked.cap_micro_usd,
        },
    })
}

fn from_cell(cell: v1::Cell) -> Result<Cell, Error> {
    let bundle: [u8; 32] = cell.bundle.as_slice().try_into().map_err(|_| {
        Error::Invalid(format!(
            "the bundle of cell `{}` is no hash of 32 bytes",
            cell.name
        ))
    })?;
    Ok(Cell {
        name: cell.name,
        model: cell.model,
        benchmark: cell.benchmark,
        harness: cell.harness,
        seed: cell.seed,
        repeat: cell.repeat,
        bundle: Hash::from_bytes(bundle),
        attempt: 0,
        run: None,
        refused: None,
        initial: None,
        best: None,
        over: false,
    })
}

fn to_cell(sweep: &Sweep, cell: &Cell, now: Option<&RunNow>) -> v1::Cell {
    let (state, cause) = stands(cell, now);
    let now = now.cloned().unwrap_or_default();
    let run = v1::Run {
        id: cell.run.clone().unwrap_or_default(),
        name: format!("{} {}", sweep.name, cell.name),
        kind: "train".to_owned(),
        tenant: sweep.tenant.clone(),
        owner: sweep.owner.clone(),
        state,
        cause,
        cause_class: now.cause_class,
        submitted_ms: sweep.submitted_ms,
        started_ms: now.started_ms,
        ended_ms: now.ended_ms,
        sweep: sweep.id.clone(),
        cell: cell.name.clone(),
        coordinator: String::new(),
        row_json: now.row_json,
        bundle: cell.bundle.as_bytes().to_vec(),
    };
    v1::Cell {
        name: cell.name.clone(),
        model: cell.model.clone(),
        benchmark: cell.benchmark.clone(),
        harness: cell.harness.clone(),
        seed: cell.seed,
        repeat: cell.repeat,
        bundle: cell.bundle.as_bytes().to_vec(),
        run: Some(run),
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let words = error.to_string();
        match error {
            Error::Invalid(_) => Self::invalid_argument(words),
            Error::NotFound(_) => Self::not_found(words),
            Error::Precondition(_) => Self::failed_precondition(words),
            Error::Unavailable(_) => Self::unavailable(words),
            Error::Damaged(_) => Self::data_loss(words),
        }
    }
}
