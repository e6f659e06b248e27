//! The state of the cluster: workers, use, and why something is not moving.

use bytes::Bytes;
use skillopt_core::suggest;
use skillopt_proto::v1::cluster_server::Cluster;
use skillopt_proto::v1::{self};
use skillopt_queue::board::Expect;
use skillopt_queue::fleet::{KEPT_FOR, WorkerRecord};
use skillopt_queue::ledger::Caps;
use tonic::{Request, Response, Status};

use super::super::auth::{self, Caller, Role};
use super::super::error::Error;
use super::super::purse;
use super::super::table::{Filter, tenants};
use super::{Desk, glance, message, usage, why};
use crate::read_model::WorkerRow;
use crate::sweep;
use crate::sweep::record::Sweep;

/// Runs, sweeps or tenants whose use is listed.
const ROWS_MAX: usize = 200;
/// Tokens that are listed.
const TOKENS_MAX: usize = 1_000;

#[tonic::async_trait]
impl Cluster for Desk {
    async fn list_workers(
        &self,
        request: Request<v1::ListWorkersRequest>,
    ) -> Result<Response<v1::ListWorkersResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let now = self.now().await?;
        let workers = self.workers(&caller).await?;
        let workers = workers.iter().map(|w| self.worker(w, now)).collect();
        Ok(Response::new(v1::ListWorkersResponse { workers }))
    }

    async fn drain_worker(
        &self,
        request: Request<v1::DrainWorkerRequest>,
    ) -> Result<Response<v1::DrainWorkerResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Admin).await?;
        caller.must_be_global()?;
        let id = request.into_inner().id;
        let workers = self.teller.workers().await?;
        let found: Vec<&WorkerRecord> = match workers.iter().find(|w| w.id == id) {
            Some(exact) => vec![exact],
            None => workers
                .iter()
                .filter(|w| !id.is_empty() && w.id.starts_with(&id))
                .collect(),
        };
        let worker = match found.as_slice() {
            [one] => *one,
            [] => {
                let near = suggest::hint(&id, workers.iter().map(|w| w.id.as_str()));
                return Err(Error::NotFound(format!("there is no worker `{id}`{near}")).into());
            }
            [a, b, ..] => {
                let (a, b) = (&a.id, &b.id);
                let words = format!("`{id}` is the beginning of several workers: `{a}`, `{b}`");
                return Err(Error::Invalid(words).into());
            }
        };
        let path = WorkerRecord::drain_path(&worker.id);
        let board = &self.parts.board;
        let wish = Bytes::from_static(b"{}");
        let put = board.put(&path, wish, Expect::Any, Some(KEPT_FOR)).await;
        put.map_err(Error::from)?;
        let worker = Some(self.worker(worker, self.now().await?));
        Ok(Response::new(v1::DrainWorkerResponse { worker }))
    }

    async fn usage(
        &self,
        request: Request<v1::UsageRequest>,
    ) -> Result<Response<v1::UsageResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let asked = request.into_inner();
        let (by, named) = match asked.by.as_str() {
            "" => self.whatever(&caller, &asked.id).await?,
            "run" => ("run", self.runs(&caller, &asked.id).await?),
            "sweep" => ("sweep", self.sweeps(&caller, &asked.id).await?),
            "tenant" => ("tenant", self.tenants(&caller, &asked.id).await?),
            by => {
                let part = usage::part(by)?;
                let purses = self.anyone(&caller, &asked.id).await?;
                let tallies = self.parts.ledger.tallies(&purses).await;
                let rows = crate::usage::by_part(&tallies.map_err(Error::from)?, part);
                let by = by.to_owned();
                return Ok(Response::new(v1::UsageResponse { rows, by }));
            }
        };
        let purses: Vec<String> = named.iter().map(|(purse, ..)| purse.clone()).collect();
        let balances = self
            .parts
            .ledger
            .balances(&purses)
            .await
            .map_err(Error::from)?;
        let tallies = self.parts.ledger.tallies(&purses).await;
        let known = balances.iter().zip(tallies.map_err(Error::from)?);
        let rows = named.into_iter().zip(known);
        let rows = rows
            .map(|((_, id, name), (balance, tally))| {
                crate::usage::of_purse(id, name, balance, &tally)
            })
            .collect();
        let by = by.to_owned();
        Ok(Response::new(v1::UsageResponse { rows, by }))
    }

    async fn set_caps(
        &self,
        request: Request<v1::SetCapsRequest>,
    ) -> Result<Response<v1::SetCapsResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Admin).await?;
        // A tenant does not raise its own caps.
        caller.must_be_global()?;
        let asked = request.into_inner();
        check_tenant(&asked.tenant)?;
        if asked.tenant.is_empty() {
            return Err(Error::Invalid("caps are those of a tenant; name one".to_owned()).into());
        }
        let purse = [purse::tenant(&asked.tenant)];
        let ledger = &self.parts.ledger;
        let old = ledger.balances(&purse).await.map_err(Error::from)?;
        let old = old.first().map(|balance| balance.caps);
        let old = old.filter(|_| !asked.lift).unwrap_or_default();
        let caps = Caps {
            requests: asked.cap_requests.or(old.requests),
            tokens: asked.cap_tokens.or(old.tokens),
            micro_usd: asked.cap_micro_usd.or(old.micro_usd),
        };
        for purse in &purse {
            ledger.set_caps(purse, caps).await.map_err(Error::from)?;
        }
        // Runs of the tenant that are at work begin to ask first at once.
        self.table.bell().ring();
        let now = ledger.balances(&purse).await.map_err(Error::from)?;
        let now = now.first().copied().unwrap_or_default();
        let tallies = ledger.tallies(&purse).await.map_err(Error::from)?;
        let tally = tallies.into_iter().next().unwrap_or_default();
        let row = crate::usage::of_purse(asked.tenant.clone(), asked.tenant, &now, &tally);
        let tenant = Some(row);
        Ok(Response::new(v1::SetCapsResponse { tenant }))
    }

    async fn why(
        &self,
        request: Request<v1::WhyRequest>,
    ) -> Result<Response<v1::WhyResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let id = request.into_inner().id;
        Ok(Response::new(why::answer(self, &caller, &id).await?))
    }

    async fn overview(
        &self,
        request: Request<v1::OverviewRequest>,
    ) -> Result<Response<v1::OverviewResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Viewer).await?;
        let seen = glance::overview(self, &caller).await?;
        let overview_json = message::json(&seen)?;
        Ok(Response::new(v1::OverviewResponse { overview_json }))
    }

    async fn create_token(
        &self,
        request: Request<v1::CreateTokenRequest>,
    ) -> Result<Response<v1::CreateTokenResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Admin).await?;
        let asked = request.into_inner();
        message::line("name", &asked.name, false)?;
        let role = Role::parse(&asked.role).ok_or_else(|| {
            let near = suggest::hint(&asked.role, Role::ALL.map(Role::word));
            let role = &asked.role;
            Error::Invalid(format!(
                "`{role}` is no role; there are viewer, submitter and admin{near}"
            ))
        })?;
        let tenant = tenant(&caller, &asked.tenant)?;
        let board = self.parts.board.as_ref();
        let shown = auth::create(board, role, &tenant, &asked.name, asked.lasts_ms).await?;
        Ok(Response::new(v1::CreateTokenResponse {
            token: shown.text,
            id: shown.id,
        }))
    }

    async fn revoke_token(
        &self,
        request: Request<v1::RevokeTokenRequest>,
    ) -> Result<Response<v1::RevokeTokenResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Admin).await?;
        let id = request.into_inner().id;
        auth::revoke(self.parts.board.as_ref(), &id, caller.limit()).await?;
        Ok(Response::new(v1::RevokeTokenResponse {}))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let caller = self.gate.admit(&request, Role::Admin).await?;
        let found = auth::list(self.parts.board.as_ref(), caller.limit(), TOKENS_MAX).await?;
        let tokens = found.into_iter().map(|(id, token)| v1::Token {
            id,
            name: token.name,
            role: token.role.word().to_owned(),
            tenant: token.tenant,
            created_ms: token.created_ms,
            ends_ms: token.ends_ms,
        });
        Ok(Response::new(v1::ListTokensResponse {
            tokens: tokens.collect(),
        }))
    }
}

/// A purse with the id and the name that people see.
type Named = (String, String, String);

impl Desk {
    pub(super) async fn now(&self) -> Result<u64, Error> {
        Ok(self.parts.board.now().await?.as_ms())
    }

    /// Returns the workers; what they work on is shown to those alone who see all tenants.
    pub(super) async fn workers(&self, caller: &Caller) -> Result<Vec<WorkerRecord>, Error> {
        let mut workers = self.teller.workers().await?;
        if !caller.is_global {
            workers.iter_mut().for_each(|worker| worker.jobs.clear());
        }
        Ok(workers)
    }

    fn worker(&self, record: &WorkerRecord, now_ms: u64) -> v1::Worker {
        let row = WorkerRow::of(record, now_ms, &self.program);
        v1::Worker {
            id: record.id.clone(),
            state: row.state,
            cause: row.cause.unwrap_or_default(),
            version: record.program.clone(),
            started_ms: record.started_ms,
            seen_ms: record.seen_ms,
            slots: record.slots.clone().into_iter().collect(),
            busy: record.busy.clone().into_iter().collect(),
            lanes: record.lanes.clone(),
            jobs_done: record.jobs_done,
            jobs_failed: record.jobs_failed,
            jobs: record.jobs.clone(),
        }
    }

    async fn runs(&self, caller: &Caller, id: &str) -> Result<Vec<Named>, Error> {
        let named = |run: &super::super::record::RunRecord| {
            (purse::run(&run.id), run.id.clone(), run.name.clone())
        };
        let mut sweep = String::new();
        if !id.is_empty() {
            match self.table.find(caller.limit(), id).await {
                Ok(stored) => return Ok(vec![named(&stored.run)]),
                // The runs of a sweep.
                Err(error @ Error::NotFound(_)) => {
                    sweep = self.sweep(caller, id).await?.ok_or(error)?.id;
                }
                Err(error) => return Err(error),
            }
        }
        let filter = Filter {
            tenant: caller.limit().map(str::to_owned),
            sweep,
            ..Filter::default()
        };
        let page = self.table.list(&filter, "", ROWS_MAX).await?;
        Ok(page.runs.iter().map(|stored| named(&stored.run)).collect())
    }

    async fn sweeps(&self, caller: &Caller, id: &str) -> Result<Vec<Named>, Error> {
        let found = match id {
            "" => self.sweeps.list(&caller.into(), "", ROWS_MAX).await?,
            id => vec![self.sweeps.get(&caller.into(), id).await?],
        };
        let named = found
            .into_iter()
            .map(|sweep| (purse::sweep(&sweep.id), sweep.id, sweep.name));
        Ok(named.collect())
    }

    /// Returns the run or the sweep that is meant; without an id all runs of no sweep.
    async fn whatever(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<(&'static str, Vec<Named>), Error> {
        if id.is_empty() {
            return Ok(("run", self.runs(caller, id).await?));
        }
        let unknown = match self.table.find(caller.limit(), id).await {
            Ok(_) => return Ok(("run", self.runs(caller, id).await?)),
            Err(error @ Error::NotFound(_)) => error,
            Err(error) => return Err(error),
        };
        let sweep = self.sweep(caller, id).await?.ok_or(unknown)?;
        Ok((
            "sweep",
            vec![(purse::sweep(&sweep.id), sweep.id, sweep.name)],
        ))
    }

    /// Returns the sweep that is meant, if there is one.
    pub(super) async fn sweep(&self, caller: &Caller, id: &str) -> Result<Option<Sweep>, Error> {
        match self.sweeps.get(&caller.into(), id).await {
            Ok(sweep) => Ok(Some(sweep)),
            Err(sweep::error::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the purses of whatever an id names; without one those of all tenants.
    async fn anyone(&self, caller: &Caller, id: &str) -> Result<Vec<String>, Error> {
        let purses = |named: Vec<Named>| named.into_iter().map(|(purse, ..)| purse).collect();
        if id.is_empty() {
            return Ok(purses(self.tenants(caller, "").await?));
        }
        match self.table.find(caller.limit(), id).await {
            Ok(stored) => return Ok(vec![purse::run(&stored.run.id)]),
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        if let Ok(sweeps) = self.sweeps(caller, id).await {
            return Ok(purses(sweeps));
        }
        let all = tenants(self.parts.board.as_ref(), ROWS_MAX).await?;
        if caller
            .limit()
            .map_or_else(|| all.iter().any(|t| t == id), |own| own == id)
        {
            return Ok(vec![purse::tenant(id)]);
        }
        Err(Error::NotFound(format!(
            "there is no run, sweep or tenant `{id}`"
        )))
    }

    async fn tenants(&self, caller: &Caller, id: &str) -> Result<Vec<Named>, Error> {
        let named = |name: String| (purse::tenant(&name), name.clone(), name);
        if let Some(own) = caller.limit() {
            if !id.is_empty() && id != own {
                return Err(Error::Denied(
                    "another tenant's use is its own matter".to_owned(),
                ));
            }
            return Ok(vec![named(own.to_owned())]);
        }
        if !id.is_empty() {
            return Ok(vec![named(id.to_owned())]);
        }
        let found = tenants(self.parts.board.as_ref(), ROWS_MAX).await?;
        Ok(found.into_iter().map(named).collect())
    }
}

/// Refuses what is no name of a tenant.
fn check_tenant(name: &str) -> Result<(), Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() > 64 || !name.chars().all(is_plain) {
        return Err(Error::Invalid(format!(
            "`{name}` is no name of a tenant; use up to 64 letters, digits, `-`, `_` and `.`"
        )));
    }
    Ok(())
}

/// Returns the tenant of a new token: a tenant's admin makes tokens of its own tenant alone.
fn tenant(caller: &Caller, asked: &str) -> Result<String, Error> {
    check_tenant(asked)?;
    match caller.limit() {
        None => Ok(asked.to_owned()),
        Some(own) if asked.is_empty() || asked == own => Ok(own.to_owned()),
        Some(own) => Err(Error::Denied(format!(
            "an admin of tenant `{own}` makes tokens of this tenant alone"
        ))),
    }
}
