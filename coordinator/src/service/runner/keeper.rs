//! Beside the loops: keeps the right to each run, and looks for wishes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::super::record::RunRecord;
use super::active::{Active, Why};
use super::{LEASE, REPAIR_EVERY, Runner};
use crate::sweep::runs::Wish;

/// How often the right to a run is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// Longest wait for one renewal.
const RENEW_TIMEOUT: Duration = Duration::from_millis(1_500);
/// A right that was not confirmed for so long may be over when the next message arrives.
const DOUBTFUL: Duration = Duration::from_secs(5);
/// How often wishes are looked for.
const WISHES_EVERY: Duration = Duration::from_millis(700);
/// Looks for wishes at the same time.
const AT_ONCE: usize = 16;

impl Runner {
    /// Renews the right to each run. A run whose right is lost, or may be, stops at once.
    pub(super) async fn keep_leases(self: Arc<Self>, end: CancellationToken) {
        let mut ticks = interval(RENEW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while end.run_until_cancelled(ticks.tick()).await.is_some() {
            // All at once: with a slow board, one after the other would outlast the rights. There
            // are no more than the runs that are worked on at once.
            let renewals = self.actives.all().into_iter();
            join_all(renewals.map(|(id, active)| self.renew(id, active))).await;
        }
    }

    async fn renew(&self, id: String, active: Active) {
        if active.why() == Some(Why::Now) {
            return;
        }
        let asked = Instant::now();
        let path = RunRecord::path(&id);
        let renewed = self
            .table
            .board()
            .acquire(&path, &self.settings.name, LEASE);
        match timeout(RENEW_TIMEOUT, renewed).await {
            Ok(Ok(Some(held))) if held.fence == active.fence => active.set_renewed(asked),
            // Somebody has it, or had it meanwhile.
            Ok(Ok(_)) => active.stop(Why::Lost),
            Ok(Err(_)) | Err(_) => {
                if active.renewed().elapsed() >= DOUBTFUL {
                    active.stop(Why::Lost);
                }
            }
        }
    }

    /// Stops runs that somebody wishes to pause or cancel, and notes which ones got further.
    pub(super) async fn keep_wishes(self: Arc<Self>, end: CancellationToken) {
        let mut bell = self.table.bell().listen();
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                () = bell.rung() => {}
                () = tokio::time::sleep(WISHES_EVERY) => {}
            }
            stream::iter(self.actives.all())
                .for_each_concurrent(AT_ONCE, |(id, active)| self.look_after(id, active))
                .await;
        }
    }

    async fn look_after(&self, id: String, active: Active) {
        // A board that is away is asked again.
        let Ok(Some(stored)) = self.table.get(&id).await else {
            return;
        };
        if stored.run.wish != Wish::Run {
            active.stop(Why::Wish);
            return;
        }
        if active.is_uncapped() && self.is_capped(&stored.run).await.unwrap_or(false) {
            active.stop(Why::Capped);
            return;
        }
        let committed = self.live.get(&id).map_or(0, |live| live.committed());
        if active.moves(committed) && !stored.run.tries.is_empty() {
            let changed = self
                .table
                .change_held(&id, active.fence, |run| run.tries.clear());
            if changed.await.is_ok() {
                active.set_moved();
            }
        }
    }

    /// Looks now and then for runs that lost their mark.
    pub(super) async fn repair(self: Arc<Self>, end: CancellationToken) {
        let mut ticks = interval(REPAIR_EVERY);
        while end.run_until_cancelled(ticks.tick()).await.is_some() {
            // It is tried again.
            drop(end.run_until_cancelled(self.table.repair()).await);
        }
    }
}
