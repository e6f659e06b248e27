//! `/healthz`, `/readyz` and `/metrics` for those who look after machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use skillopt_queue::ledger::Balance;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::live::Live;
use super::parts::Parts;
use super::table::{Filter, Table, tenants};
use super::teller::{self, Teller};
use super::{purse, record};

/// Runs that are counted.
const RUNS_MAX: usize = 10_000;
/// Tenants whose use is shown.
const TENANTS_MAX: usize = 1_000;

/// A board that does not answer for so long is not ready.
const READY_MAX: Duration = Duration::from_secs(2);

/// What the pages show.
#[derive(Clone)]
pub(super) struct Pages {
    pub(super) parts: Parts,
    pub(super) table: Table,
    pub(super) teller: Arc<Teller>,
    pub(super) live: Live,
    /// Fires when this coordinator leaves.
    pub(super) leaving: CancellationToken,
}

/// Serves the pages until `end`.
pub(super) async fn serve(listener: TcpListener, pages: Pages, end: CancellationToken) {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(pages);
    let served = axum::serve(listener, router).with_graceful_shutdown(end.cancelled_owned());
    // Only pages for people end with it.
    drop(served.await);
}

async fn ready(State(pages): State<Pages>) -> (StatusCode, String) {
    if pages.leaving.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "leaving\n".to_owned());
    }
    // The board itself is tried for longer than anybody waits for this page.
    let asked = tokio::time::timeout(READY_MAX, pages.parts.board.now());
    match asked.await {
        Ok(Ok(_)) => (StatusCode::OK, "ready\n".to_owned()),
        Ok(Err(e)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{e}\n")),
        Err(_) => {
            let words = "the board does not answer\n".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, words)
        }
    }
}

async fn metrics(State(pages): State<Pages>) -> (StatusCode, String) {
    match pages.text().await {
        Ok(text) => (StatusCode::OK, text),
        Err(e) => (StatusCode::SERVICE_UNAVAILABLE, format!("# {e}\n")),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReason {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTenant {
    tenant: String,
}

type Whole = Gauge<i64, AtomicI64>;

fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Pages {
    async fn text(&self) -> Result<String, Error> {
        let mut registry = Registry::with_prefix("skillopt");
        let gauge = |registry: &mut Registry, name: &str, help: &str, value: u64| {
            let gauge = Whole::default();
            gauge.set(whole(value));
            registry.register(name, help, gauge);
        };
        gauge(
            &mut registry,
            "runs_held",
            "Runs that this coordinator works on",
            self.live.len() as u64,
        );
        self.runs(&mut registry).await?;
        let told = self.teller.runs().await?;
        let jobs = teller::sum(told.values());
        let waits = Family::<ByReason, Whole>::default();
        for wait in &jobs.waits {
            let reason = wait.code.clone();
            waits
                .get_or_create(&ByReason { reason })
                .inc_by(whole(wait.count));
        }
        registry.register("jobs_waiting", "Jobs that wait, by reason", waits);
        let stats = self.parts.queue.stats().await;
        let stats = stats.map_err(|e| Error::Unavailable(e.to_string()))?;
        for (name, help, value) in [
            (
                "queue_queued",
                "Jobs that could be leased now",
                stats.queued,
            ),
            (
                "queue_delayed",
                "Jobs that wait for their time",
                stats.delayed,
            ),
            ("queue_leased", "Jobs that a worker holds", stats.leased),
            ("queue_dead", "Jobs that were set aside", stats.dead),
        ] {
            gauge(&mut registry, name, help, value as u64);
        }
        for (name, help, value) in [
            (
                "queue_refused",
                "Late answers refused since the start",
                stats.refused,
            ),
            (
                "queue_lost_leases",
                "Leases that ran out since the start",
                stats.losses,
            ),
        ] {
            gauge(&mut registry, name, help, value);
        }
        self.spend(&mut registry).await?;
        let mut text = String::new();
        encode(&mut text, &registry).map_err(|e| Error::Internal(e.to_string()))?;
        Ok(text)
    }

    async fn runs(&self, registry: &mut Registry) -> Result<(), Error> {
        let runs = Family::<ByState, Whole>::default();
        for state in record::State::ALL {
            let state = state.word();
            runs.get_or_create(&ByState { state }).set(0);
        }
        for stored in self
            .table
            .list(&Filter::default(), "", RUNS_MAX)
            .await?
            .runs
        {
            let state = stored.run.state.word();
            runs.get_or_create(&ByState { state }).inc();
        }
        registry.register("runs", "Runs of no sweep, by state", runs);
        Ok(())
    }

    async fn spend(&self, registry: &mut Registry) -> Result<(), Error> {
        let tenants = tenants(self.parts.board.as_ref(), TENANTS_MAX).await?;
        let purses: Vec<String> = tenants.iter().map(|name| purse::tenant(name)).collect();
        let balances = self.parts.ledger.balances(&purses).await?;
        type Value = fn(&Balance) -> u64;
        let families: [(&str, &str, Value); 4] = [
            ("spent_requests", "Calls, by tenant", |b| b.spent.requests),
            ("spent_tokens", "Tokens sent and received, by tenant", |b| {
                b.spent.tokens()
            }),
            (
                "spent_micro_usd",
                "Millionths of a US dollar, by tenant",
                |b| b.spent.micro_usd,
            ),
            (
                "reserved_micro_usd",
                "Millionths reserved, by tenant",
                |b| b.reserved.micro_usd,
            ),
        ];
        for (name, help, value) in families {
            let family = Family::<ByTenant, Gauge<u64, AtomicU64>>::default();
            for (tenant, balance) in tenants.iter().zip(&balances) {
                let tenant = tenant.clone();
                family
                    .get_or_create(&ByTenant { tenant })
                    .set(value(balance));
            }
            registry.register(name, help, family);
        }
        Ok(())
    }
}
