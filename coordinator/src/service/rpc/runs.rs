//! Trainings and evaluations.

use std::pin::Pin;

use futures_util::Stream;
use skillopt_proto::v1::runs_server::Runs;
use skillopt_proto::v1::{self};
use skillopt_queue::ledger::Caps;
use tonic::{Request, Response, Status};

use super::super::auth::{Caller, Role};
use super::super::error::Error;
use super::super::record::{RunRecord, State};
use super::super::table::{Filter, Submission};
use super::{Desk, message, watch};
use crate::bundle::{self, Contents};
use crate::scheduler::{WEIGHT_MAX, WEIGHT_NORMAL};
use crate::sweep::runs::Wish;

/// Runs on a page, unless asked otherwise.
const PAGE: u32 = 50;
/// Most runs on a page.
const PAGE_MAX: u32 = 200;
/// Highest priority.
const PRIORITY_MAX: u32 = 7;
/// Priority of a run that nobody gave one.
const PRIORITY_NORMAL: u32 = 4;

type Stream_<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Runs for Desk {
    async fn submit_run(
        &self,
        request: Request<v1::SubmitRunRequest>,
    ) -> Result<Response<v1::SubmitRunResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Submitter).await?;
        let new = self.submission(caller, request.into_inner()).await?;
        let (stored, existed) = self.table.submit(new).await?;
        let run = Some(self.message(&stored.run).await?);
        Ok(Response::new(v1::SubmitRunResponse { run, existed }))
    }

    async fn get_run(
        &self,
        request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let id = request.into_inner().id;
        let run = self.table.find(caller.limit(), &id).await?.run;
        let view = self.rows.of(&run).await?;
        let steps: Result<Vec<String>, Error> = view.steps.iter().map(message::json).collect();
        Ok(Response::new(v1::GetRunResponse {
            run: Some(message::run(&run, &view)?),
            step_json: steps?,
        }))
    }

    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let asked = request.into_inner();
        let sweep = match asked.sweep.as_str() {
            "" => String::new(),
            id => self.sweeps.get(&(&caller).into(), id).await?.id,
        };
        let filter = Filter {
            tenant: caller.limit().map(str::to_owned),
            sweep,
            state: state(&asked.state)?,
        };
        let after = match asked.after.as_str() {
            "" => String::new(),
            id => self.table.find(caller.limit(), id).await?.run.id,
        };
        let size = match asked.page_size {
            0 => PAGE,
            n => n.min(PAGE_MAX),
        };
        let page = self.table.list(&filter, &after, size as usize).await?;
        let mut runs = Vec::with_capacity(page.runs.len());
        for stored in &page.runs {
            runs.push(self.message(&stored.run).await?);
        }
        Ok(Response::new(v1::ListRunsResponse {
            runs,
            next: page.next.unwrap_or_default(),
        }))
    }

    type WatchRunStream = Stream_<v1::WatchRunResponse>;

    async fn watch_run(
        &self,
        request: Request<v1::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let asked = request.into_inner();
        let run = self.table.find(caller.limit(), &asked.id).await?.run;
        let news = watch::news(self.clone(), run.id, asked.from);
        Ok(Response::new(Box::pin(news)))
    }

    async fn pause_run(
        &self,
        request: Request<v1::PauseRunRequest>,
    ) -> Result<Response<v1::PauseRunResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Submitter).await?;
        let run = self
            .table
            .find(caller.limit(), &request.get_ref().id)
            .await?;
        let run = self.table.wish(&run.run.id, Wish::Pause, None).await?.run;
        let run = Some(self.message(&run).await?);
        Ok(Response::new(v1::PauseRunResponse { run }))
    }

    async fn resume_run(
        &self,
        request: Request<v1::ResumeRunRequest>,
    ) -> Result<Response<v1::ResumeRunResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Submitter).await?;
        let asked = request.into_inner();
        let run = self.table.find(caller.limit(), &asked.id).await?.run;
        let caps = Caps {
            requests: asked.cap_requests.or(run.caps.requests),
            tokens: asked.cap_tokens.or(run.caps.tokens),
            micro_usd: asked.cap_micro_usd.or(run.caps.micro_usd),
        };
        let caps = (caps != run.caps).then_some(caps);
        if asked.cap_micro_usd.is_some() {
            let store = self.parts.store.as_ref();
            let contents = bundle::contents(store, run.bundle).await;
            check_prices(&contents.map_err(Error::from)?)?;
        }
        let run = self.table.wish(&run.id, Wish::Run, caps).await?.run;
        let run = Some(self.message(&run).await?);
        Ok(Response::new(v1::ResumeRunResponse { run }))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Submitter).await?;
        let run = self
            .table
            .find(caller.limit(), &request.get_ref().id)
            .await?;
        let stored = self.table.wish(&run.run.id, Wish::Cancel, None).await?;
        let gone = self.table.withdraw(&stored.run.id).await?;
        let run = Some(self.message(&stored.run).await?);
        Ok(Response::new(v1::CancelRunResponse {
            run,
            removed: gone.removed as u64,
            signalled: gone.signalled as u64,
        }))
    }
}

impl Desk {
    pub(super) async fn message(&self, run: &RunRecord) -> Result<v1::Run, Error> {
        message::run(run, &self.rows.of(run).await?)
    }

    async fn submission(
        &self,
        caller: Caller,
        asked: v1::SubmitRunRequest,
    ) -> Result<Submission, Error> {
        message::line("client key", &asked.client_key, false)?;
        message::line("name", &asked.name, true)?;
        let root = message::hash("bundle", &asked.bundle)?;
        let contents = bundle::contents(self.parts.store.as_ref(), root).await?;
        let what = &contents.what;
        if what.kind() != asked.kind {
            return Err(Error::Invalid(format!(
                "the bundle is for `{}`, not for `{}`",
                what.kind(),
                asked.kind
            )));
        }
        if let Some(hash) = self.parts.store.missing(&contents.blobs).await?.first() {
            return Err(bundle::UnpackError::Missing(*hash).into());
        }
        let caps = Caps {
            requests: asked.cap_requests.or(contents.caps.requests),
            tokens: asked.cap_tokens.or(contents.caps.tokens),
            micro_usd: asked.cap_micro_usd.or(contents.caps.micro_usd),
        };
        if caps.micro_usd.is_some() {
            check_prices(&contents)?;
        }
        let priority = asked.priority.unwrap_or(PRIORITY_NORMAL);
        let weight = match asked.weight {
            0 => WEIGHT_NORMAL,
            n => n,
        };
        if priority > PRIORITY_MAX || weight > WEIGHT_MAX {
            return Err(Error::Invalid(format!(
                "priority {priority} and weight {weight} are asked for; a priority is 0 to \
                 {PRIORITY_MAX}, a weight 1 to {WEIGHT_MAX}"
            )));
        }
        Ok(Submission {
            client_key: asked.client_key,
            name: asked.name,
            kind: asked.kind,
            tenant: caller.tenant,
            owner: caller.name,
            bundle: root,
            skill: None,
            sweep: String::new(),
            cell: String::new(),
            weight,
            priority: u8::try_from(priority).unwrap_or(u8::MAX),
            caps,
        })
    }
}

/// A cap in dollars needs to know what a call costs.
fn check_prices(contents: &Contents) -> Result<(), Error> {
    if contents.is_priced {
        return Ok(());
    }
    Err(Error::Precondition(
        "the price of one of its models is not known, so a cap in dollars cannot be kept; name it \
         in the file of `budget.prices` and submit again, or cap tokens or requests instead"
            .to_owned(),
    ))
}

fn state(word: &str) -> Result<Option<State>, Error> {
    if word.is_empty() {
        return Ok(None);
    }
    let words = State::ALL.iter().map(|state| state.word());
    let found = State::ALL.into_iter().find(|state| state.word() == word);
    found.map(Some).ok_or_else(|| {
        let near = skillopt_core::suggest::hint(word, words);
        Error::Invalid(format!("`{word}` is no state of a run{near}"))
    })
}
