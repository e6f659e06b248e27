//! What is submitted: read, checked and packed, before anything is sent.

use std::cell::RefCell;
use std::path::Path;

use bytes::Bytes;
use serde_json::Value;
use skillopt_config::RunConfig;
use skillopt_coordinator::bundle::{self, What};
use skillopt_coordinator::folder::{Claim, RunFolder};
use skillopt_coordinator::prepare::{PrepareError, Prepared};
use skillopt_coordinator::train::PlanError;
use skillopt_core::Hash;

use crate::args::{CapArgs, HowArgs, RemoteArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::text_file;
use crate::output::Out;
use crate::place::{Placed, place};
use crate::remote::Address;

/// The folder of a run that is not waited for; nothing is ever written there.
const NO_FOLDER: &str = "submitted";

/// A run that is ready to be sent.
pub(super) struct Order {
    pub(super) address: Address,
    pub(super) config: RunConfig,
    /// `train` or `eval`.
    pub(super) kind: &'static str,
    /// What people call it.
    pub(super) name: String,
    pub(super) how: HowArgs,
    pub(super) root: Hash,
    pub(super) blobs: Vec<Bytes>,
    pub(super) placed: Placed,
    /// Whether it has a folder on this machine.
    pub(super) has_folder: bool,
}

impl Order {
    /// Reads and packs the inputs of `config`, which came from `file`; a folder that nobody named
    /// begins with `folder`.
    ///
    /// # Errors
    /// All that would keep a local run from starting, or no coordinator is named.
    pub(super) fn new(
        what: What,
        mut config: RunConfig,
        folder: &str,
        file: Option<&Path>,
        how: &HowArgs,
        remote: &RemoteArgs,
        out: &Out,
    ) -> Result<Self, Failure> {
        let address = Address::of(remote)?;
        limit(&mut config, how.caps);
        let packed = RefCell::new(None);
        // The last packing is the one for the folder that was chosen.
        let pack = |config: &RunConfig| -> Result<Prepared, Failure> {
            let made = bundle::pack(config, &what).map_err(refused)?;
            *packed.borrow_mut() = Some((made.root, made.blobs));
            Ok(made.prepared)
        };
        let named = config.out_root.trim().to_owned();
        let has_folder = how.wait || !named.is_empty();
        let placed = if has_folder {
            place(&mut config, folder, out, pack)?
        } else {
            NO_FOLDER.clone_into(&mut config.out_root);
            Placed::nowhere(pack(&config)?)
        };
        let (root, blobs) = packed
            .into_inner()
            .ok_or_else(|| Failure::new(Exit::Unexpected, "nothing was packed"))?;
        Ok(Self {
            address,
            kind: what.kind(),
            name: how.name.clone().unwrap_or_else(|| name(&named, file)),
            how: how.clone(),
            root,
            blobs,
            placed,
            has_folder,
            config,
        })
    }

    /// Returns the run's folder on this machine.
    pub(super) fn folder(&self) -> RunFolder {
        RunFolder::new(&self.config.out_root)
    }

    /// Takes the folder for this run and this process.
    ///
    /// # Errors
    /// It holds another run, or another process works in it.
    pub(super) fn claim(&self) -> Result<Claim, Failure> {
        Ok(self.placed.prepared.claim(&self.folder())?)
    }

    /// Reads a JSON file of the run's folder.
    ///
    /// # Errors
    /// It is not there, or damaged.
    pub(super) fn json(&self, name: &str) -> Result<Value, Failure> {
        let text = text_file(&self.folder().root().join(name))?;
        serde_json::from_str(&text)
            .map_err(|e| Failure::new(Exit::Unexpected, format!("`{name}` is damaged: {e}")))
    }
}

/// Puts the limits of the command line above those of the file.
fn limit(config: &mut RunConfig, caps: CapArgs) {
    config.budget_requests = caps.requests.or(config.budget_requests);
    config.budget_tokens = caps.tokens.or(config.budget_tokens);
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact below nine thousand million dollars"
    )]
    let usd = caps.usd.map(|usd| usd.0 as f64 / 1e6);
    config.budget_usd = usd.or(config.budget_usd);
}

/// Names a run by its folder, or by its file.
fn name(folder: &str, file: Option<&Path>) -> String {
    let path = if folder.is_empty() {
        file.and_then(Path::file_stem)
    } else {
        Path::new(folder).file_name()
    };
    path.map_or_else(
        || "run".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn refused(error: PrepareError) -> Failure {
    let exit = match &error {
        PrepareError::Plan(PlanError::Empty(_)) | PrepareError::NothingJudged(_) => {
            Exit::NothingJudged
        }
        _ => Exit::Usage,
    };
    Failure::new(exit, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (folder, file, want) in [
            ("outputs/first", Some("my.yaml"), "first"),
            ("", Some("configs/my.yaml"), "my"),
            ("", None, "run"),
        ] {
            assert_eq!(name(folder, file.map(Path::new)), want);
        }
    }
}
