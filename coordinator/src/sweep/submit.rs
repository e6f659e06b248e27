//! Taking a sweep: everything that can be wrong with it is said before anything runs.

use std::collections::BTreeSet;

use serde_json::Value;
use skillopt_core::Hash;
use skillopt_queue::board::{self, Expect};
use skillopt_queue::ledger::Caps;

use super::desk::{Caller, Sweeps};
use super::error::Error;
use super::record::{Arm, CELLS_MAX, CHECKS_MAX, Cell, Sweep};
use super::runs::Wish;

/// Longest `spec`, in bytes.
const SPEC_BYTES_MAX: usize = 128 << 10;
/// Longest client key and names, in bytes.
const NAME_BYTES_MAX: usize = 512;
/// Blobs that are looked for together.
const PAGE: usize = 50;
/// Most arms of a sweep.
const ARMS_MAX: usize = 20;

/// A sweep that is asked for.
#[derive(Clone, Debug)]
pub struct NewSweep {
    /// The same key again is the same sweep.
    pub client_key: String,
    /// Shown to people.
    pub name: String,
    /// The cells, without runs.
    pub cells: Vec<Cell>,
    /// The sweep file's settings: `arms` (a list of `{name, skill}`, where `skill` is the hash of a
    /// blob, or null for each cell's own), `correct` (`none` or `family`), and what people want to see.
    pub spec: Value,
    /// Try each best skill in the other cells of its benchmark.
    pub transfer: bool,
    /// Share against other runs of the tenant; 0 counts as 100.
    pub weight: u32,
    /// Most that all runs together may use.
    pub caps: Caps,
}

impl Sweeps {
    /// Takes a sweep; returns it and whether its client key was used before.
    ///
    /// # Errors
    /// It contradicts itself, or names what was not uploaded.
    pub async fn submit(&self, caller: &Caller, new: NewSweep) -> Result<(Sweep, bool), Error> {
        let id = id_of(&caller.tenant, &new.client_key)?;
        if let Some((sweep, _)) = self.find(&id).await? {
            // Whoever wrote it may have come no further.
            self.cap(&sweep).await?;
            self.mark(&sweep).await?;
            return Ok((sweep, true));
        }
        let sweep = self.checked(caller, id, new).await?;
        let bytes = serde_json::to_vec(&sweep)?;
        let path = Sweep::path(&sweep.id);
        match self
            .board
            .put(&path, bytes.into(), Expect::Absent, None)
            .await
        {
            Ok(_) => {
                self.cap(&sweep).await?;
                self.mark(&sweep).await?;
                Ok((sweep, false))
            }
            // The same request was faster on another way.
            Err(board::Error::Conflict { .. }) => {
                let found = self.find(&sweep.id).await?;
                let (sweep, _) = found.ok_or_else(|| Error::NotFound(sweep.id.clone()))?;
                self.cap(&sweep).await?;
                self.mark(&sweep).await?;
                Ok((sweep, true))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the ledger the caps that the record says, which may have been raised since.
    async fn cap(&self, sweep: &Sweep) -> Result<(), Error> {
        let purse = format!("sweep/{}", sweep.id);
        Ok(self.ledger.set_caps(&purse, sweep.caps).await?)
    }

    async fn checked(&self, caller: &Caller, id: String, new: NewSweep) -> Result<Sweep, Error> {
        check_cells(&new.cells)?;
        let spec_bytes = new.spec.to_string().len();
        if spec_bytes > SPEC_BYTES_MAX {
            return Err(Error::Invalid(format!(
                "the sweep's settings have {spec_bytes} bytes, at most {SPEC_BYTES_MAX} are allowed"
            )));
        }
        let arms = arms(&new.spec)?;
        let family = match new.spec.get("correct").and_then(Value::as_str) {
            None | Some("none") => false,
            Some("family") => true,
            Some(other) => {
                return Err(Error::Invalid(format!(
                    "`correct` is `none` or `family`, not `{other}`"
                )));
            }
        };
        let sweep = Sweep {
            id,
            name: new.name,
            tenant: caller.tenant.clone(),
            owner: caller.owner.clone(),
            spec: new.spec,
            arms,
            transfer: new.transfer,
            family,
            weight: if new.weight == 0 { 100 } else { new.weight },
            caps: new.caps,
            wish: Wish::Run,
            untold: false,
            round: 0,
            submitted_ms: self.board.now().await?.as_ms(),
            ended_ms: 0,
            cells: new.cells,
            checks: Vec::new(),
            results: None,
        };
        if !(1..=1_000).contains(&sweep.weight) {
            return Err(Error::Invalid(format!(
                "the weight is 1 to 1000, not {}",
                sweep.weight
            )));
        }
        let checks = sweep.pairs().count()
            + sweep.cells.len() * sweep.arms.iter().filter(|arm| arm.skill.is_some()).count();
        if checks > CHECKS_MAX {
            return Err(Error::Invalid(format!(
                "arms and transfers would need up to {checks} evaluations, at most {CHECKS_MAX} are allowed; \
                 make it several sweeps"
            )));
        }
        self.check_blobs(&sweep).await?;
        self.check_prices(&sweep.cells, sweep.caps).await?;
        Ok(sweep)
    }

    /// Everything that is named was uploaded.
    async fn check_blobs(&self, sweep: &Sweep) -> Result<(), Error> {
        let bundles = sweep
            .cells
            .iter()
            .map(|cell| (cell.bundle, cell.name.as_str()));
        let skills = sweep
            .arms
            .iter()
            .filter_map(|arm| Some((arm.skill?, arm.name.as_str())));
        let wanted: Vec<(Hash, &str)> = bundles.chain(skills).collect();
        for chunk in wanted.chunks(PAGE) {
            let hashes: Vec<Hash> = chunk.iter().map(|(hash, _)| *hash).collect();
            let found = self.store.blobs(&hashes).await?;
            let missing = chunk.iter().zip(found).find(|(_, blob)| blob.is_none());
            if let Some(((hash, name), _)) = missing {
                return Err(Error::Precondition(format!(
                    "blob `{hash}` of `{name}` is not there; upload it, then submit again"
                )));
            }
        }
        Ok(())
    }

    /// A cap in dollars can only be kept if every price is known.
    pub(super) async fn check_prices(&self, cells: &[Cell], caps: Caps) -> Result<(), Error> {
        if caps.micro_usd.is_none() {
            return Ok(());
        }
        let mut seen = BTreeSet::new();
        for cell in cells.iter().filter(|cell| seen.insert(cell.bundle)) {
            let prices = self.gather.inputs(cell.bundle).await?.prices;
            if let Some(at) = prices.iter().position(Option::is_none) {
                let role = ["target", "optimizer"].get(at).copied().unwrap_or_default();
                return Err(Error::Precondition(format!(
                    "a cap in dollars cannot be kept: the price of the {role}'s model of `{}` is not known; name \
                     it in the file of `budget.prices` and submit again, or cap tokens or requests instead",
                    cell.name
                )));
            }
        }
        Ok(())
    }
}

/// Names a sweep by tenant and client key, so that the same request is the same sweep.
fn id_of(tenant: &str, client_key: &str) -> Result<String, Error> {
    if client_key.is_empty() || client_key.len() > 128 {
        return Err(Error::Invalid("`client_key` has 1 to 128 bytes".to_owned()));
    }
    Ok(Hash::of_parts([
        b"sweep".as_slice(),
        tenant.as_bytes(),
        client_key.as_bytes(),
    ])
    .short())
}

fn check_cells(cells: &[Cell]) -> Result<(), Error> {
    if cells.is_empty() || cells.len() > CELLS_MAX {
        return Err(Error::Invalid(format!(
            "a sweep has 1 to {CELLS_MAX} cells, this one has {}",
            cells.len()
        )));
    }
    let mut names = BTreeSet::new();
    for cell in cells {
        let parts = [&cell.name, &cell.model, &cell.benchmark, &cell.harness];
        let is_fit = |text: &&String| {
            !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control)
        };
        if !parts.iter().all(is_fit) {
            return Err(Error::Invalid(format!(
                "cell `{}` lacks a name, model, benchmark or harness of at most {NAME_BYTES_MAX} bytes",
                cell.name.escape_debug()
            )));
        }
        if !names.insert(&cell.name) {
            return Err(Error::Invalid(format!(
                "there are two cells `{}`",
                cell.name
            )));
        }
    }
    Ok(())
}

/// Reads what best skills are compared with.
fn arms(spec: &Value) -> Result<Vec<Arm>, Error> {
    let arms = match spec.get("arms") {
        None => Vec::new(),
        Some(arms) => serde_json::from_value(arms.clone())
            .map_err(|e| Error::Invalid(format!("`arms` cannot be read: {e}")))?,
    };
    if arms.is_empty() {
        return Ok(vec![Arm {
            name: "starting skill".to_owned(),
            skill: None,
        }]);
    }
    let names: BTreeSet<&str> = arms.iter().map(|arm: &Arm| arm.name.as_str()).collect();
    if names.len() < arms.len() || arms.len() > ARMS_MAX {
        return Err(Error::Invalid(
            "a sweep has at most 20 arms, each with its own name".to_owned(),
        ));
    }
    Ok(arms)
}
