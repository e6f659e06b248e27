//! Everything a run needs, as blobs: so that a coordinator needs no file of the submitter.
//!
//! A bundle is one small blob, the root, that names the others: the suite with its items, which
//! many runs share, and the first skill. Its address is the bundle's name. Reading it back gives the
//! run that the submitter would have had, under the same name, or an error. Design note 0003 says
//! what is in it and why.

mod code;
mod root;
mod suite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skillopt_benchmarks::splits::Generated;
use skillopt_config::RunConfig;
use skillopt_core::Hash;
use skillopt_core::skill::Folder;
use skillopt_queue::ledger::Caps;
use skillopt_queue::{Store, store};

use self::root::Root;
use self::suite::Suite;
use crate::evaluate::Evaluation;
use crate::payers;
use crate::prepare::{self, PrepareError, Prepared};

pub use suite::Suites;

/// Version of the format. A coordinator reads this one and all before it.
pub const VERSION: u32 = 1;

/// What a bundle is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A training.
    Train,
    /// An evaluation.
    Evaluate(Evaluation),
}

impl What {
    /// Returns `train` or `eval`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Evaluate(_) => "eval",
        }
    }
}

/// A bundle ready to be sent.
#[derive(Debug)]
pub struct Packed {
    /// Address of the root.
    pub root: Hash,
    /// All blobs, the root last.
    pub blobs: Vec<Bytes>,
    /// The run itself.
    pub prepared: Prepared,
}

/// A bundle as it was read.
#[derive(Debug)]
pub struct Unpacked {
    /// The configuration, without credentials.
    pub config: RunConfig,
    /// The run.
    pub prepared: Prepared,
    /// What it is.
    pub what: What,
    /// Keeps the suite where other runs find it.
    _suite: Arc<Suite>,
}

impl Unpacked {
    /// Puts the run into another folder than the submitter named.
    ///
    /// # Errors
    /// A file of it would lie elsewhere.
    pub fn put_at(&mut self, root: &Path) -> Result<(), UnpackError> {
        let old = Path::new(&self.config.out_root);
        let place = |(path, bytes): &(PathBuf, Arc<[u8]>)| {
            let below = path.strip_prefix(old).map_err(|_| {
                let path = path.display();
                UnpackError::Damaged(format!("its file `{path}` is outside of the run folder"))
            })?;
            Ok((root.join(below), Arc::clone(bytes)))
        };
        if let Some(split) = &mut self.prepared.plan.generated {
            let files: Result<_, UnpackError> = split.files().iter().map(place).collect();
            *split = Generated::from_files(files?);
        }
        self.config.out_root = root.display().to_string();
        Ok(())
    }

    /// Returns whether the run shares answers with no other.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.config.scope == skillopt_config::Scope::Fresh
    }
}

/// Why a bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// A blob was not uploaded.
    #[error("blob `{0}` of the bundle is not there; upload it, then submit again")]
    Missing(Hash),
    /// Made by a later release.
    #[error(
        "the bundle has format {found}, this coordinator knows up to {VERSION}; use a newer one"
    )]
    Newer {
        /// The format.
        found: u32,
    },
    /// No bundle, or one that was made wrongly.
    #[error("the bundle cannot be read: {0}; make it again with this release of skillopt")]
    Damaged(String),
    /// Another release understands the same inputs otherwise.
    #[error(
        "the bundle is of run `{theirs}`, which is `{ours}` here: {cause}; use the same release of \
         skillopt on both sides"
    )]
    Differs {
        /// The run's name in the bundle.
        theirs: String,
        /// The name it would have here.
        ours: String,
        /// What is known of the reason.
        cause: String,
    },
    /// The run it describes cannot be.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The store cannot be read now.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl UnpackError {
    /// Returns whether the same call may succeed later.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Store(_))
    }
}

/// Reads the files of a run and makes its bundle.
///
/// # Errors
/// See [`PrepareError`].
pub fn pack(config: &RunConfig, what: &What) -> Result<Packed, PrepareError> {
    let mut config = config.clone();
    if let What::Evaluate(evaluation) = what {
        evaluation.adapt(&mut config);
    }
    let inputs = prepare::load(&config)?;
    let suite = suite::encode(&inputs, &config.out_root)?;
    let initial = Bytes::from(inputs.initial.encode());
    let mut root = Root {
        version: VERSION,
        what: what.clone(),
        config: config.to_wire(),
        suite: Hash::of(&suite),
        initial: Hash::of(&initial),
        prompts: inputs.prompts.overrides().clone(),
        payers: inputs.payers.clone(),
        run: String::new(),
    };
    let prepared = run_of(&config, inputs, what)?;
    prepared.common.run.as_str().clone_into(&mut root.run);
    let root = code::encode(&root)?;
    Ok(Packed {
        root: Hash::of(&root),
        blobs: vec![suite, initial, root],
        prepared,
    })
}

fn run_of(
    config: &RunConfig,
    inputs: prepare::Inputs,
    what: &What,
) -> Result<Prepared, PrepareError> {
    let prepared = prepare::describe(config, inputs)?;
    match what {
        What::Train => Ok(prepared),
        What::Evaluate(evaluation) => evaluation.of(config, prepared),
    }
}

/// What a bundle says of itself.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The blobs that it names.
    pub blobs: Vec<Hash>,
    /// What it is for.
    pub what: What,
    /// Most that its configuration lets the run use.
    pub caps: Caps,
    /// Whether the price of each model is known.
    pub is_priced: bool,
}

/// Reads the root of a bundle alone.
///
/// # Errors
/// See [`UnpackError`].
pub async fn contents(store: &dyn Store, root: Hash) -> Result<Contents, UnpackError> {
    let root = root::read(store, root).await?;
    let config = root.config()?;
    Ok(Contents {
        blobs: vec![root.suite, root.initial],
        caps: payers::caps(&config),
        is_priced: root.payers.is_priced(),
        what: root.what,
    })
}

/// Reads a bundle. `skill` takes the place of its first skill: then it is an evaluation of this
/// skill on the bundle's test items.
///
/// # Errors
/// See [`UnpackError`].
pub async fn unpack(
    store: &dyn Store,
    root: Hash,
    skill: Option<Hash>,
    suites: &Suites,
) -> Result<Unpacked, UnpackError> {
    let root = root::read(store, root).await?;
    let suite = suites.get(store, root.suite).await?;
    let initial = store.blobs(&[root.initial]).await?.pop().flatten();
    let initial = initial.ok_or(UnpackError::Missing(root.initial))?;
    let initial = read_skill(&initial)?;
    let mut config = root.config()?;
    let inputs = suite.inputs(&root, initial, &config.out_root)?;
    let prepared = run_of(&config, inputs.clone(), &root.what)?;
    let ours = prepared.common.run.as_str();
    if ours != root.run {
        return Err(UnpackError::Differs {
            theirs: root.run.clone(),
            ours: ours.to_owned(),
            cause: suite.difference(),
        });
    }
    let Some(hash) = skill else {
        return Ok(Unpacked {
            config,
            prepared,
            what: root.what,
            _suite: suite,
        });
    };
    let skill = store.blobs(&[hash]).await?.pop().flatten();
    let skill = read_skill(&skill.ok_or(UnpackError::Missing(hash))?)?;
    let evaluation = Evaluation {
        skill: format!("skill {}", hash.short()),
        split: crate::evaluate::Split::Test,
    };
    evaluation.adapt(&mut config);
    let inputs = prepare::Inputs {
        initial: skill,
        ..inputs
    };
    let what = What::Evaluate(evaluation);
    let scope = prepared.common.scope;
    let mut prepared = run_of(&config, inputs, &what)?;
    // Whoever shares the training's answers shares those of the evaluation: it is compared with it.
    prepared.common.scope = scope;
    Ok(Unpacked {
        config,
        prepared,
        what,
        _suite: suite,
    })
}

fn read_skill(bytes: &[u8]) -> Result<Folder, UnpackError> {
    Folder::decode(bytes).map_err(|e| UnpackError::Damaged(format!("its first skill: {e}")))
}
