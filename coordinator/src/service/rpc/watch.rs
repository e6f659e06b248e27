//! News of a run, from whichever coordinator works on it.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::Stream;
use skillopt_proto::v1::watch_run_response::News;
use skillopt_proto::v1::{self, WatchRunResponse};
use skillopt_queue::RunId;
use tonic::Status;

use super::super::error::Error;
use super::super::live::Reach;
use super::super::record::RunRecord;
use super::Desk;
use crate::events;

/// Events that are read at once.
const PAGE: usize = 256;
/// Time between two looks at a run that another coordinator works on.
const POLL: Duration = Duration::from_millis(500);

/// Returns news of run `id`, with events from number `from` on.
pub(super) fn news(
    desk: Desk,
    id: String,
    from: u64,
) -> impl Stream<Item = Result<WatchRunResponse, Status>> + Send {
    let watch = Watch {
        desk,
        id,
        next: from,
        shown: None,
        reach: None,
        pending: VecDeque::new(),
        is_over: false,
    };
    futures_util::stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        match watch.next().await {
            Ok(Some(news)) => Some((Ok(WatchRunResponse { news: Some(news) }), Some(watch))),
            Ok(None) => None,
            Err(error) => Some((Err(error.into()), None)),
        }
    })
}

struct Watch {
    desk: Desk,
    id: String,
    /// Number of the next event.
    next: u64,
    /// The run as it was shown last.
    shown: Option<RunRecord>,
    reach: Option<Reach>,
    pending: VecDeque<News>,
    is_over: bool,
}

impl Watch {
    /// Waits for the next news; nothing at the end.
    async fn next(&mut self) -> Result<Option<News>, Error> {
        loop {
            if let Some(news) = self.pending.pop_front() {
                return Ok(Some(news));
            }
            if self.is_over {
                return Ok(None);
            }
            // Listened for before looking, so that nothing falls between.
            let live = self.desk.live.get(&self.id);
            let mut bell = live.as_ref().map(|live| live.bell.listen());
            let mut wishes = self.desk.table.bell().listen();
            self.look().await?;
            if !self.pending.is_empty() || self.is_over {
                continue;
            }
            let rung = async {
                match &mut bell {
                    Some(bell) => bell.rung().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = rung => {}
                () = wishes.rung() => {}
                () = tokio::time::sleep(POLL) => {}
                () = self.desk.shutdown.drain.cancelled() => {
                    return Err(Error::Unavailable(
                        "this coordinator is leaving; ask another one".to_owned(),
                    ));
                }
            }
        }
    }

    async fn look(&mut self) -> Result<(), Error> {
        // The run first: when it is over, all its events are there.
        let stored = self.desk.table.get(&self.id).await?;
        let stored = stored
            .ok_or_else(|| Error::NotFound(format!("run `{}` is not there any more", self.id)))?;
        let is_new = self.shown.as_ref().is_none_or(|shown| {
            let face = |run: &RunRecord| {
                let cause = (run.cause.clone(), run.cause_class.clone());
                (run.state, run.coordinator.clone(), run.ended_ms, cause)
            };
            face(shown) != face(&stored.run)
        });
        if is_new && !stored.run.state.is_over() {
            let message = self.desk.message(&stored.run).await?;
            self.pending.push_back(News::Run(message));
            self.shown = Some(stored.run.clone());
        }
        let name = RunId::new(&self.id);
        loop {
            let page = self.desk.parts.store.events(&name, self.next, PAGE).await?;
            let is_last = page.len() < PAGE;
            for bytes in page {
                let event = events::decode(&bytes).map_err(|e| Error::Internal(e.to_string()))?;
                self.pending.push_back(News::Event(v1::Event {
                    seq: self.next,
                    kind: event.kind,
                    facts_json: super::message::json(&event.facts)?,
                }));
                self.next += 1;
            }
            if is_last || self.pending.len() >= PAGE {
                break;
            }
        }
        if stored.run.state.is_over() && self.pending.len() < PAGE {
            // The final state comes last; it comes first, too, for whoever has seen nothing yet.
            let message = self.desk.message(&stored.run).await?;
            if self.shown.is_none() {
                self.pending.push_front(News::Run(message.clone()));
            }
            self.pending.push_back(News::Run(message));
            self.is_over = true;
            return Ok(());
        }
        self.progress();
        Ok(())
    }

    fn progress(&mut self) {
        let reach = self.desk.live.get(&self.id).map(|live| live.reach());
        if let Some(reach) = reach.filter(|reach| self.reach.as_ref() != Some(reach))
            && reach.total > 0
        {
            self.pending.push_back(News::Progress(v1::Progress {
                stage: reach.stage.clone(),
                done: reach.done,
                total: reach.total,
            }));
            self.reach = Some(reach);
        }
    }
}
