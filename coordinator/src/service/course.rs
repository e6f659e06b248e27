//! A run from its first line to its end, with answers from wherever its session has them.

use std::sync::Arc;

use skillopt_queue::{RunId, Store};
use skillopt_runtime::Shutdown;

use super::record::State;
use crate::bundle::{Unpacked, What};
use crate::folder::RunFolder;
use crate::halt::Halt;
use crate::log::Log;
use crate::payers::Payers;
use crate::prepare::predictions;
use crate::progress::Watcher;
use crate::session::{Common, Session, Source};
use crate::timings::Timings;
use crate::train::train;

/// Where a run works.
pub(super) struct Place {
    pub(super) source: Source,
    /// Answers.
    pub(super) store: Arc<dyn Store>,
    /// The log.
    pub(super) log: Arc<dyn Store>,
    /// Name of the log.
    pub(super) log_name: RunId,
    /// Name of the run in the queue.
    pub(super) run: RunId,
    pub(super) folder: RunFolder,
    /// Whether items get folders of their own, where the configuration wants them.
    pub(super) has_items: bool,
    pub(super) shutdown: Shutdown,
    pub(super) watcher: Watcher,
    /// Who pays.
    pub(super) payers: Payers,
}

/// Runs to the end.
///
/// # Errors
/// What pauses or ends the run before.
pub(super) async fn course(unpacked: &Unpacked, place: Place) -> Result<State, Halt> {
    let Unpacked {
        config, prepared, ..
    } = unpacked;
    let _claim = prepared
        .claim(&place.folder)
        .map_err(Halt::infrastructure)?;
    let timings = Timings::default();
    let session = Session::new(
        place.source,
        Arc::clone(&place.store),
        place.folder.clone(),
        predictions(if place.has_items {
            config.predictions
        } else {
            skillopt_config::Predictions::None
        }),
        Common {
            scope: prepared.scope(config, &place.folder)?,
            run: place.run,
            payers: place.payers,
            ..prepared.common.clone()
        },
        place.shutdown,
        place.watcher.clone(),
    );
    let log = Log::new(place.log, place.log_name, place.watcher);
    let blobs = prepared.blobs.clone();
    let put = place.store.put_blobs(blobs).await;
    put.map_err(Halt::infrastructure)?;
    let outcome = match &unpacked.what {
        What::Train => {
            let (plan, written) = (&prepared.plan, &prepared.config);
            let ended = train(plan, written, &session, &place.folder, &log, &timings).await;
            ended.map(|ending| (State::from(ending.state), None))
        }
        What::Evaluate(evaluation) => {
            let items = evaluation.items(config, prepared);
            let stage = evaluation.run(prepared, &items, &session, &log).await;
            stage.map(|stage| (State::Evaluated, Some((evaluation, stage))))
        }
    };
    let written = session.close();
    let (state, evaluated) = outcome.and_then(|ended| written.map(|()| ended))?;
    place.folder.json("timings.json", &timings.to_json())?;
    if let Some((evaluation, stage)) = evaluated {
        evaluation.write(&place.folder, prepared, &stage)?;
    }
    Ok(state)
}
