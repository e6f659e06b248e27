//! From a checked configuration to a run: data, skill, prompts, model profiles, identity.
//!
//! Everything that can be wrong shows itself here, before a model is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use skillopt_benchmarks::splits::Generated;
use skillopt_benchmarks::{LoadArgs, LoadError, registry};
use skillopt_config::{Role, RunConfig, Scope};
use skillopt_core::job::{Limits, Profile};
use skillopt_core::skill::Folder;
use skillopt_core::stages::prompts;
use skillopt_core::{Hash, capability};
use skillopt_queue::{Lane, RunId};
use skillopt_runtime::files::FileError;

use crate::folder::{Claim, ClaimError, Predictions, RunFolder};
use crate::inputs::{self, InputError};
use crate::payers::{PayError, Payers};
use crate::sample::Samples;
use crate::session::Common;
use crate::train::{Plan, PlanError};

/// Sizes that follow from the data, which name a run by their content.
const DERIVED: &[&str] = &[
    "train_size",
    "steps_per_epoch",
    "batches_per_epoch",
    "total_steps",
    "samples_per_epoch",
];

/// Why a run cannot start.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The data.
    #[error(transparent)]
    Data(#[from] LoadError),
    /// The skill or the prompts.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Configuration and data contradict each other.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Nothing to score.
    #[error("the {0} split has no items, so there is no score")]
    NothingJudged(&'static str),
    /// Data that would be others after a journey.
    #[error(
        "the data cannot be sent: a number in them is not the same once it is written and read \
         again; write it with fewer digits, or as a text"
    )]
    Unportable,
    /// Prices and caps.
    #[error(transparent)]
    Pay(#[from] PayError),
    /// A value that cannot be written down.
    #[error("cannot describe the run: {0}")]
    Encode(#[from] serde_json::Error),
}

/// A run that is ready to go.
#[derive(Debug)]
pub struct Prepared {
    /// What the loop is told.
    pub plan: Plan,
    /// The configuration as it is written down, without secrets.
    pub config: Map<String, Value>,
    /// What decides the run's result, for [`crate::folder::RunFolder::claim`].
    pub facts: Map<String, Value>,
    /// What all its jobs share.
    pub common: Common,
    /// The target's and the optimizer's profile.
    pub profiles: [Profile; 2],
    /// Blobs that its jobs name, apart from items, skills and prompts.
    pub blobs: Vec<Bytes>,
    /// What people call the benchmark.
    pub title: String,
}

impl Prepared {
    /// Takes the run's folder.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub fn claim(&self, folder: &RunFolder) -> Result<Claim, ClaimError> {
        folder.claim(self.common.run.as_str(), &self.facts, difference)
    }

    /// Returns who may share the run's answers.
    ///
    /// # Errors
    /// The mark of a run that shares with nobody cannot be read or written.
    pub fn scope(&self, config: &RunConfig, folder: &RunFolder) -> Result<String, FileError> {
        match config.scope {
            Scope::Fresh => folder.fresh_scope(self.common.run.as_str()),
            Scope::Shared | Scope::Run => Ok(self.common.scope.clone()),
        }
    }
}

/// Says in words how two configurations of one folder differ.
fn difference(known: &Map<String, Value>, new: &Map<String, Value>) -> Option<String> {
    let differences = skillopt_config::differs(known, new);
    let words: Vec<String> = differences
        .iter()
        .take(3)
        .map(|(key, old, new)| {
            let known = skillopt_config::KEYS
                .iter()
                .find(|known| known.name == *key);
            let path = known.map_or(key.as_str(), |known| known.path);
            format!("`{path}` is {old} there, {new} here")
        })
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Returns which stages write a folder for each item.
#[must_use]
pub fn predictions(kept: skillopt_config::Predictions) -> fn(&str) -> Predictions {
    const fn all(_: &str) -> Predictions {
        Predictions::Write
    }
    fn train_only(stage: &str) -> Predictions {
        if stage.ends_with("/rollout") {
            Predictions::Write
        } else {
            Predictions::Skip
        }
    }
    const fn none(_: &str) -> Predictions {
        Predictions::Skip
    }
    match kept {
        skillopt_config::Predictions::All => all,
        skillopt_config::Predictions::Train => train_only,
        skillopt_config::Predictions::None => none,
    }
}

/// What a run reads of files: all that is needed beside its configuration.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Registered name of the benchmark.
    pub benchmark: String,
    /// Its version.
    pub benchmark_version: String,
    /// What people call it.
    pub title: String,
    /// The data.
    pub samples: Samples,
    /// The split folder to write, if the data were cut by a ratio.
    pub generated: Option<Generated>,
    /// Settings of every rollout.
    pub settings: Arc<Value>,
    /// Rows of the final table of accuracy by type.
    pub task_types: Vec<String>,
    /// What the error analyst may call a failure.
    pub failure_types: Vec<String>,
    /// The skill to start from.
    pub initial: Folder,
    /// Prompt templates.
    pub prompts: prompts::Set,
    /// Who pays, at today's prices.
    pub payers: Payers,
}

/// Loads everything a run needs.
///
/// # Errors
/// See [`PrepareError`]; nothing is written in any case.
pub fn prepare(config: &RunConfig) -> Result<Prepared, PrepareError> {
    describe(config, load(config)?)
}

/// Reads the files of a run.
///
/// # Errors
/// See [`PrepareError`]; nothing is written in any case.
pub fn load(config: &RunConfig) -> Result<Inputs, PrepareError> {
    let benchmark = registry::find(&config.env)?;
    let suite = benchmark.load(&load_args(config))?;
    let initial = inputs::skill(&config.skill_init, config.allow_missing_skill_init)?;
    let prompts = inputs::prompts(
        &config.prompts_dir,
        benchmark.name(),
        &suite.analyst_prompts,
    )?;
    Ok(Inputs {
        benchmark: benchmark.name().to_owned(),
        benchmark_version: benchmark.version().to_owned(),
        title: suite.title,
        samples: Samples::new(suite.splits),
        generated: suite.generated,
        settings: Arc::new(suite.settings),
        task_types: suite.task_types,
        failure_types: suite.failure_categories,
        initial,
        prompts,
        payers: Payers::new(config)?,
    })
}

/// Says what is told to Qwen models about thinking, which several keys and variables decide together
/// (backends spec 1.7). It only repeats them, so it names no run.
fn resolved_thinking(profiles: &[Profile]) -> Option<(&'static str, Value)> {
    let of_qwen = profiles.iter().filter(|p| p.backend == "qwen_chat");
    let mode = |profile: &Profile| match profile.settings.get("enable_thinking") {
        Some(Value::Bool(true)) => "enabled",
        Some(Value::Bool(false)) => "disabled",
        _ => "server_default",
    };
    let modes: Map<String, Value> = of_qwen
        .map(|profile| (profile.role.clone(), mode(profile).into()))
        .collect();
    (!modes.is_empty()).then(|| (skillopt_config::RESOLVED_THINKING, modes.into()))
}

/// Makes a run of a configuration and what it read.
///
/// # Errors
/// They contradict each other.
pub fn describe(config: &RunConfig, inputs: Inputs) -> Result<Prepared, PrepareError> {
    let Inputs {
        benchmark,
        benchmark_version,
        settings: settings_value,
        ..
    } = inputs;
    let mut plan = Plan::new(config, inputs.samples, inputs.initial, inputs.prompts)?;
    plan.generated = inputs.generated;
    plan.failure_types = inputs.failure_types;
    plan.task_types = inputs.task_types;
    let profiles = [
        profile(config, Role::Target),
        profile(config, Role::Optimizer),
    ];
    let settings = Bytes::from(serde_json::to_vec(settings_value.as_ref())?);
    let target = Bytes::from(serde_json::to_vec(&profiles[0])?);
    let optimizer = Bytes::from(serde_json::to_vec(&profiles[1])?);
    let sizes = skillopt_config::Sizes::derive(config, plan.samples.train.len()).ok();
    let mut written = skillopt_config::to_config_json(config, sizes.as_ref());
    if let Some((name, modes)) = resolved_thinking(&profiles) {
        written.insert(name.to_owned(), modes);
    }
    let facts: Map<String, Value> = written
        .iter()
        .filter(|(k, _)| skillopt_config::changes_results(k) && !DERIVED.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    // Prompts, items and the skill are files; the run is named by their content.
    let prompts: Vec<u8> = serde_json::to_vec(&plan.prompts.overrides())?;
    let facts_bytes = serde_json::to_vec(&facts)?;
    let run = Hash::of_parts([
        facts_bytes.as_slice(),
        plan.samples.hash().as_bytes(),
        plan.initial.hash().as_bytes(),
        &prompts,
        &settings,
        benchmark.as_bytes(),
        benchmark_version.as_bytes(),
    ])
    .short();
    let common = Common {
        scope: match config.scope {
            Scope::Shared => String::new(),
            Scope::Run | Scope::Fresh => run.clone(),
        },
        run: RunId::new(&run),
        rollout_lane: Lane::new(&capability::rollouts(
            &profiles[0].backend,
            &benchmark,
            &benchmark_version,
        )),
        chat_lane: Lane::new(&capability::calls(&profiles[1].backend)),
        benchmark,
        benchmark_version,
        settings: Hash::of(&settings),
        settings_value,
        target: Hash::of(&target),
        optimizer: Hash::of(&optimizer),
        rollout_limits: limits(config, config.call_seconds(Role::Target)),
        chat_limits: limits(config, config.call_seconds(Role::Optimizer)),
        slots: config.slot_count(),
        payers: inputs.payers.of_run(&run),
    };
    Ok(Prepared {
        plan,
        config: written,
        facts,
        common,
        profiles,
        blobs: vec![settings, target, optimizer],
        title: inputs.title,
    })
}

impl Prepared {
    /// Returns the accounts that its jobs of each lane call.
    #[must_use]
    pub fn accounts(&self) -> BTreeMap<Lane, String> {
        let lanes = [&self.common.rollout_lane, &self.common.chat_lane];
        let of = |(lane, profile): (&Lane, &Profile)| (lane.clone(), profile.account().to_owned());
        lanes.into_iter().zip(&self.profiles).map(of).collect()
    }
}

fn limits(config: &RunConfig, timeout_s: f64) -> Limits {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be 0.001 to 86400, and 0 to 0.5"
    )]
    let (call_timeout_ms, hedge_permille) = (
        (timeout_s * 1_000.0).ceil() as u64,
        (config.hedge * 1_000.0).round() as u32,
    );
    Limits {
        call_timeout_ms,
        attempts: config.retry_attempts,
        retry_base_ms: config.retry_base_ms,
        retry_cap_ms: config.retry_cap_ms,
        hedge_permille,
    }
}

/// Returns what a role's calls are made with: everything that can change their answers.
#[must_use]
pub fn profile(config: &RunConfig, role: Role) -> Profile {
    let (backend, model) = match role {
        Role::Target => (&config.target_backend, &config.target_model),
        Role::Optimizer => (&config.optimizer_backend, &config.optimizer_model),
    };
    let mut profile = Profile {
        max_tokens: match role {
            Role::Target => config.answer_limit_of_agents(),
            Role::Optimizer => 0,
        },
        reasoning_effort: config.reasoning_effort.as_str().to_owned(),
        ..Profile::bare(role.as_str(), backend, model)
    };
    config.backends.describe(role, &mut profile);
    if backend == "simulated" {
        profile.settings.clone_from(&config.sim);
        profile.reasoning_effort.clear();
    }
    profile
}

fn load_args(config: &RunConfig) -> LoadArgs {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be 0.001 to 86400"
    )]
    let exec_timeout = config.exec_timeout.ceil() as u64;
    LoadArgs {
        split_mode: config.split_mode.as_str().to_owned(),
        split_dir: config.split_dir.clone(),
        data_path: config.data_path.clone(),
        split_ratio: config.split_ratio.clone(),
        split_seed: i64::try_from(config.split_seed).unwrap_or(i64::MAX),
        seed: i64::try_from(config.seed).unwrap_or(i64::MAX),
        limit: config.limit,
        split_output_dir: config.split_output_dir.clone(),
        out_root: config.out_root.clone().into(),
        max_turns: config
            .max_turns
            .map_or(1, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        max_completion_tokens: config.max_completion_tokens,
        exec_timeout,
        extra: config.env_extra.clone(),
    }
}
