//! A run of a cluster: its stream of events in one task, why its jobs wait in another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use skillopt_coordinator::read_model::{
    EvaluationRow, LedgerRow, NoticeRow, RunRow, RunView, WaitReason, is_over,
};
use skillopt_proto::v1::{GetRunRequest, PauseRunRequest, Run, WhyRequest};
use skillopt_runtime::clock::unix_ms;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::pace::Pace;
use crate::advice::{Roles, advice};
use crate::args::RemoteArgs;
use crate::commands::train::kept;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::progress::stage_words;
use crate::remote::{Address, Away, News, Patience, Remote, run_state, watch};
use crate::tui::Screen;

/// How often it is asked why jobs wait, and so whether anybody answers.
const ASK: Duration = Duration::from_secs(2);

/// A run that is watched.
pub(super) struct Cluster {
    remote: Arc<Remote>,
    shared: Arc<Shared>,
    /// Stopped with this value.
    _tasks: JoinSet<()>,
    pace: Pace,
    /// Asks for the first time: as long as nobody ever answered there is no frame to say so in.
    first: Option<Remote>,
    is_shown: bool,
}

struct Shared {
    state: Mutex<State>,
    /// The first news are in, or there will be none.
    is_known: Notify,
}

#[derive(Default)]
struct State {
    view: RunView,
    run: Option<Run>,
    stage: Option<(String, u64, u64)>,
    waits: Option<Vec<WaitReason>>,
    away: Option<Away>,
    /// When we last heard anything.
    at_ms: u64,
    /// Events that are in.
    events: usize,
    /// The run is over, and its whole log is in.
    is_done: bool,
    failure: Option<Failure>,
}

impl Cluster {
    /// Begins to listen. Must be called inside a runtime.
    ///
    /// # Errors
    /// The coordinator's address cannot be used.
    pub(super) fn start(args: &RemoteArgs, id: &str, out: &Out) -> Result<Self, Failure> {
        let address = Address::of(args)?;
        // What is wrong with the connection stands in the frame, not between its lines.
        let mut quiet = out.clone();
        quiet.quiet = true;
        let remote = Arc::new(Remote::new(&address, Patience::WHOLE_RUN, &quiet));
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                view: RunView::new(id),
                ..State::default()
            }),
            is_known: Notify::new(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(remote.clone(), id.to_owned(), shared.clone()));
        tasks.spawn(ask(remote.clone(), id.to_owned(), shared.clone()));
        Ok(Self {
            remote,
            shared,
            _tasks: tasks,
            pace: Pace::default(),
            first: Some(Remote::new(&address, Patience::ONE_CALL, out)),
            is_shown: false,
        })
    }

    /// Shows what was heard; the first time it waits until all is in that there is.
    ///
    /// # Errors
    /// The coordinator refuses, or is gone for too long.
    pub(super) async fn look(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        if let Some(remote) = self.first.take() {
            let id = self.shared.state().view.run.run.clone();
            let asked = GetRunRequest { id };
            remote
                .call(async |clients| clients.runs().get_run(asked.clone()).await)
                .await?;
        }
        loop {
            let heard = self.shared.is_known.notified();
            {
                let mut state = self.shared.state();
                if let Some(failure) = state.failure.take() {
                    return Err(failure);
                }
                if let Some(run) = &state.run
                    && (self.is_shown || state.is_whole(run))
                {
                    self.is_shown = true;
                    show(&state, run, screen);
                    self.pace.see(&mut screen.view);
                    return Ok(());
                }
            }
            heard.await;
        }
    }

    /// Pauses the run; says what became of it.
    pub(super) async fn pause(&self) -> String {
        let id = self.shared.state().view.run.run.clone();
        let answer = self
            .remote
            .call_once(async |clients| clients.runs().pause_run(PauseRunRequest { id }).await)
            .await;
        match answer {
            Ok(answer) => format!("the run is {}", run_state(&answer.run.unwrap_or_default())),
            Err(failure) => failure
                .errors
                .into_iter()
                .next()
                .map_or_else(String::new, |e| e.message),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each piece of news is taken in whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn show(state: &State, run: &Run, screen: &mut Screen) {
    screen.view = state.view.clone();
    screen.name = if run.name.is_empty() {
        run.id.clone()
    } else {
        run.name.clone()
    };
    screen.kept = kept(&screen.view.run);
    let word = run_state(run);
    // A picture of the run may come before the events that it rests on.
    let is_whole = state.is_whole(run);
    screen.notice =
        (is_whole && (word.starts_with("paused") || word == "failed")).then(|| NoticeRow {
            state: word,
            cause: Some(run.cause.clone()).filter(|cause| !cause.is_empty()),
            at_unix_ms: Some(run.ended_ms).filter(|ms| *ms > 0),
            fix: advice(&run.cause, &Roles::default()),
        });
    let is_moving = screen.notice.is_none() && !is_over(&screen.view.run.state);
    screen.stage = state.stage.clone().filter(|_| is_moving);
    screen.waits = state.waits.clone();
    screen.can_pause = !is_over(&screen.view.run.state);
    screen.link = state.away.as_ref().map(|away| away.words(unix_ms()));
    // While nobody answers, the numbers keep their time.
    screen.at_ms = if state.away.is_some() {
        state.at_ms
    } else {
        unix_ms()
    };
}

/// Hears all news of the run until it is over.
async fn listen(remote: Arc<Remote>, id: String, shared: Arc<Shared>) {
    loop {
        // What was heard before is told again when the stream is opened anew.
        let mut known = shared.state().events;
        let heard = watch(&remote, &id, |news| {
            let mut state = shared.state();
            state.at_ms = unix_ms();
            if matches!(news, News::Event(_)) && known > 0 {
                known -= 1;
            } else {
                state.hear(news);
            }
            drop(state);
            shared.is_known.notify_waiters();
            true
        })
        .await;
        let is_over = {
            let mut state = shared.state();
            state.failure = heard.err();
            state.end();
            state.is_done || state.failure.is_some()
        };
        shared.is_known.notify_waiters();
        if is_over {
            return;
        }
        // A coordinator that goes away in peace ends the stream; another one has the run.
        tokio::time::sleep(ASK).await;
    }
}

impl State {
    /// Returns whether all is in that this picture of the run rests on.
    fn is_whole(&self, run: &Run) -> bool {
        if is_over(&run_state(run)) {
            return self.is_done;
        }
        let row: RunRow = serde_json::from_str(&run.row_json).unwrap_or_default();
        let view = &self.view.run;
        view.steps_done >= row.steps_done && view.baseline.is_some() >= row.baseline.is_some()
    }

    /// Takes in that the stream has ended.
    fn end(&mut self) {
        let word = self.run.as_ref().map(run_state).unwrap_or_default();
        if is_over(&word) {
            self.view.stands(&word, None);
            self.is_done = true;
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Run(run) => {
                self.view.run.run.clone_from(&run.id);
                if run.kind == "eval" && self.view.evaluation.is_none() {
                    self.view.evaluation = Some(EvaluationRow {
                        run: run.id.clone(),
                        ..EvaluationRow::default()
                    });
                }
                let row: RunRow = serde_json::from_str(&run.row_json).unwrap_or_default();
                self.view.spends(&LedgerRow {
                    cost_usd: row.cost_usd,
                    cost_usd_missing_reason: row.cost_usd_missing_reason,
                    cap_usd: row.cap_usd,
                    ..LedgerRow::default()
                });
                let word = run_state(&run);
                // The end is known only with the last event.
                if !is_over(&word) {
                    self.view.stands(&word, row.baseline_in);
                }
                self.run = Some(*run);
            }
            News::Event(event) => {
                self.view.apply(&event);
                self.events += 1;
                self.stage = None;
            }
            News::Progress(news) => {
                self.stage = Some((stage_words(&news.stage), news.done, news.total));
            }
        }
    }
}

/// Asks why jobs wait, for as long as the run is watched.
async fn ask(remote: Arc<Remote>, id: String, shared: Arc<Shared>) {
    loop {
        let request = WhyRequest { id: id.clone() };
        let answer = remote
            .call_once(async |clients| clients.cluster().why(request).await)
            .await;
        let pause = {
            let mut state = shared.state();
            let at_ms = state.at_ms;
            state.away = Away::after(state.away.take(), answer.as_ref().err(), at_ms);
            match answer {
                Ok(answer) => {
                    state.waits = Some(answer.waits.into_iter().map(row).collect());
                    state.at_ms = unix_ms();
                }
                // What jobs waited for is not so any more, or nobody may tell us.
                Err(_) => state.waits = None,
            }
            state.away.as_ref().map_or(ASK, Away::pause)
        };
        tokio::time::sleep(pause).await;
    }
}

fn row(wait: skillopt_proto::v1::Wait) -> WaitReason {
    WaitReason {
        code: wait.code,
        words: wait.words,
        help: wait.help,
        count: wait.count,
        oldest_ms: wait.oldest_ms,
    }
}
