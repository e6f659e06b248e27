//! The runs of sweeps, which are runs like all others.

use std::sync::Arc;

use async_trait::async_trait;
use skillopt_core::Hash;
use skillopt_core::job::Payer;
use skillopt_queue::RunId;
use skillopt_queue::ledger::Caps;

use super::error::Error;
use super::parts::Parts;
use super::rows::Rows;
use super::table::{Submission, Table};
use crate::bundle::{self, Suites};
use crate::sweep::runs::{self, Inputs, NewRun, RunNow, Runs, What, Wish};

/// Priority of a run that nobody gave one.
const PRIORITY: u8 = 4;

/// Runs as a sweep sees them.
pub(super) struct Cells {
    pub(super) parts: Parts,
    pub(super) table: Table,
    pub(super) rows: Rows,
    pub(super) suites: Arc<Suites>,
}

#[async_trait]
impl Runs for Cells {
    async fn submit(&self, run: NewRun) -> Result<String, runs::Error> {
        let contents = bundle::contents(self.parts.store.as_ref(), run.bundle).await;
        let contents = contents.map_err(Error::from)?;
        let (kind, skill) = match run.what {
            What::Train => (contents.what.kind(), None),
            What::Evaluate { skill } => ("eval", Some(skill)),
        };
        let mut blobs = contents.blobs;
        blobs.extend(skill);
        let missing = self
            .parts
            .store
            .missing(&blobs)
            .await
            .map_err(Error::from)?;
        if let Some(hash) = missing.first() {
            return Err(Error::from(bundle::UnpackError::Missing(*hash)).into());
        }
        let new = Submission {
            client_key: run.client_key,
            name: run.name,
            kind: kind.to_owned(),
            tenant: run.tenant,
            owner: run.owner,
            bundle: run.bundle,
            skill,
            sweep: run.sweep,
            cell: run.cell,
            weight: run.weight,
            priority: PRIORITY,
            // An evaluation is paid by the sweep; a training has the caps of its own file, too.
            caps: if skill.is_some() {
                Caps::default()
            } else {
                contents.caps
            },
        };
        let (stored, _) = self.table.submit(new).await?;
        Ok(stored.run.id)
    }

    async fn get(&self, ids: &[String]) -> Result<Vec<Option<RunNow>>, runs::Error> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let now = match self.table.get(id).await? {
                None => None,
                Some(stored) => {
                    let run = stored.run;
                    let view = self.rows.of(&run).await?;
                    Some(RunNow {
                        state: run.state.word().to_owned(),
                        cause: run.cause.clone(),
                        cause_class: run.cause_class.clone(),
                        started_ms: run.started_ms,
                        ended_ms: run.ended_ms,
                        row_json: super::rows::json(&run, &view)?,
                    })
                }
            };
            found.push(now);
        }
        Ok(found)
    }

    async fn set_wish(&self, id: &str, wish: Wish) -> Result<(), runs::Error> {
        match self.table.wish(id, wish, None).await {
            // It has ended, or is not there.
            Ok(_) | Err(Error::Precondition(_) | Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        if wish == Wish::Cancel {
            self.table.withdraw(id).await?;
        }
        Ok(())
    }

    fn log(&self, id: &str) -> RunId {
        RunId::new(id)
    }

    async fn inputs(&self, bundle: Hash) -> Result<Arc<Inputs>, runs::Error> {
        let store = self.parts.store.as_ref();
        let unpacked = bundle::unpack(store, bundle, None, &self.suites).await;
        let prepared = unpacked.map_err(Error::from)?.prepared;
        let mut test = prepared.plan.samples.test;
        if prepared.plan.test_items > 0 {
            test.truncate(prepared.plan.test_items);
        }
        let price = |payer: &Option<Payer>| payer.as_ref().and_then(|payer| payer.price);
        let payers = &prepared.common.payers;
        Ok(Arc::new(Inputs {
            prices: [price(&payers.target), price(&payers.optimizer)],
            initial: prepared.plan.initial.hash(),
            common: prepared.common,
            test,
        }))
    }
}
