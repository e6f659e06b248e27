//! What a training run is told, resolved once: settings in the types of the domain, sizes derived.

use skillopt_benchmarks::splits::{EpochPlan, Generated};
use skillopt_config::RunConfig;
use skillopt_core::budget;
use skillopt_core::gate::{DEFAULT_LEADING_WORDS, Density, Scoring};
use skillopt_core::pairs::Policy;
use skillopt_core::rate::Control;
use skillopt_core::stages::AnswerMode;
use skillopt_core::stages::prompts;
use skillopt_core::trajectory::Trace;
use skillopt_core::update_mode::UpdateMode;
use std::sync::Arc;

use skillopt_core::skill::Folder;

use crate::sample::{Sample, Samples};

/// Everything that decides how a run goes, apart from the answers of its jobs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The data.
    pub samples: Samples,
    /// The split folder to write, if the data were cut by a ratio.
    pub generated: Option<Generated>,
    /// The skill to start from.
    pub initial: Arc<Folder>,
    /// Prompt templates.
    pub prompts: prompts::Set,
    /// Failure types that the benchmark offers its error analyst.
    pub failure_types: Vec<String>,
    /// Rows of the final table of accuracy by type.
    pub task_types: Vec<String>,
    /// Passes over the train split.
    pub epochs: u64,
    /// Micro-batches of an epoch.
    pub epoch: EpochPlan,
    /// Seed of the run.
    pub seed: i64,
    /// Trajectories of one analyst call.
    pub minibatch_size: usize,
    /// Patches of one merge call.
    pub merge_batch_size: usize,
    /// Ask no analyst about successes.
    pub failure_only: bool,
    /// Ask once more when an answer cannot be used (D22).
    pub reask_unusable: bool,
    /// How the optimizer answers.
    pub answers: AnswerMode,
    /// How much the optimizer is shown of what an agent did.
    pub trace: Trace,
    /// What the optimizer proposes.
    pub mode: UpdateMode,
    /// The edit budget over the run.
    pub budget: budget::Plan,
    /// Who decides on the budget of a step.
    pub control: Control,
    /// Slow update at the end of each epoch.
    pub slow_update: Option<SlowUpdate>,
    /// Items compared by the slow update or, without one, for the meta skill.
    pub compared: usize,
    /// Which pairs of the comparison count.
    pub policy: Policy,
    /// Keep a memory for the optimizer.
    pub meta_skill: bool,
    /// Skill-aware reflection.
    pub skill_aware: Option<SkillAware>,
    /// Whether the gate decides; else every candidate is taken.
    pub gate: bool,
    /// The number it compares.
    pub scoring: Scoring,
    /// Measure the incumbent again before a comparison if its text changed (D40).
    pub remeasure_stale: bool,
    /// Val items; 0 = all.
    pub val_items: usize,
    /// Test items; 0 = all.
    pub test_items: usize,
    /// Measure on the test split.
    pub eval_test: bool,
    /// Token limit and effort of a rewrite.
    pub rewrite: Rewrite,
}

/// How the slow update is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowUpdate {
    /// Always.
    Forced,
    /// If the gate accepts it.
    Gated,
}

/// Skill-aware reflection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkillAware {
    /// Successes may bring notes too.
    pub from_successes: bool,
    /// Consolidate above this many notes; 0 never.
    pub consolidate_above: usize,
}

/// Limits of a rewrite call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Most tokens.
    pub max_tokens: u32,
    /// Reasoning effort; `None` is the run's own.
    pub reasoning_effort: Option<String>,
}

/// A plan that contradicts its data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// `train_size` names another number than the data has.
    #[error(
        "`train.train_size` is {configured}, but the train split has {loaded} items; set it to 0 to take what is there"
    )]
    TrainSize {
        /// The configured number.
        configured: usize,
        /// Items of the split.
        loaded: usize,
    },
    /// A split without items.
    #[error("the {0} split has no items; check the data folder or file and `env.limit`")]
    Empty(&'static str),
    /// A value that no part of the program knows.
    #[error("{0}")]
    Value(String),
}

impl Plan {
    /// Resolves a configuration against its data.
    ///
    /// # Errors
    /// See [`PlanError`]; nothing was asked of a model yet.
    pub fn new(
        config: &RunConfig,
        samples: Samples,
        initial: Folder,
        prompts: prompts::Set,
    ) -> Result<Self, PlanError> {
        let loaded = samples.train.len();
        if loaded == 0 {
            return Err(PlanError::Empty("train"));
        }
        if samples.val.is_empty() {
            return Err(PlanError::Empty("val"));
        }
        if config.eval_test && samples.test.is_empty() {
            return Err(PlanError::Empty("test"));
        }
        if config.train_size != 0 && config.train_size != loaded {
            return Err(PlanError::TrainSize {
                configured: config.train_size,
                loaded,
            });
        }
        let value = |e: &dyn std::fmt::Display| PlanError::Value(e.to_string());
        let mode = UpdateMode::parse(config.skill_update_mode.as_str()).map_err(|e| value(&e))?;
        let control = match mode {
            UpdateMode::FullRewrite => Control::None,
            _ => Control::parse(config.lr_control_mode.as_str()).map_err(|e| value(&e))?,
        };
        let seed = i64::try_from(config.seed).map_err(|e| value(&e))?;
        let steps = loaded.div_ceil(config.batch_size.saturating_mul(config.accumulation));
        let total = (config.num_epochs as u64).saturating_mul(steps as u64);
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let effort = config.rewrite_reasoning_effort.as_str();
        Ok(Self {
            samples,
            generated: None,
            initial: Arc::new(initial),
            prompts,
            failure_types: Vec::new(),
            task_types: Vec::new(),
            epochs: config.num_epochs as u64,
            epoch: EpochPlan {
                train_size: loaded,
                batch_size: config.batch_size,
                steps,
                accumulation: config.accumulation,
                seed,
            },
            seed,
            minibatch_size: config.minibatch_size,
            merge_batch_size: config.merge_batch_size,
            failure_only: config.failure_only,
            reask_unusable: config.reask_unusable,
            answers: match config.optimizer_answer_mode {
                skillopt_config::AnswerMode::Free => AnswerMode::Free,
                skillopt_config::AnswerMode::Schema => AnswerMode::SchemaBound,
            },
            trace: trace(config),
            mode,
            budget: budget::Plan {
                schedule: config
                    .lr_scheduler
                    .as_str()
                    .parse()
                    .map_err(|e| value(&e))?,
                max: small(config.edit_budget),
                min: small(config.min_edit_budget),
                total_steps: u32::try_from(total).unwrap_or(u32::MAX),
            },
            control,
            slow_update: config.use_slow_update.then_some(
                if config.slow_update_gate_with_selection {
                    SlowUpdate::Gated
                } else {
                    SlowUpdate::Forced
                },
            ),
            compared: config.slow_update_samples,
            policy: Policy::parse(config.longitudinal_pair_policy.as_str())
                .map_err(|e| value(&e))?,
            meta_skill: config.use_meta_skill,
            skill_aware: config.use_skill_aware_reflection.then_some(SkillAware {
                from_successes: config.skill_aware_appendix_source.as_str() == "both",
                consolidate_above: config.skill_aware_consolidate_threshold,
            }),
            gate: config.use_gate,
            scoring: Scoring {
                metric: config.gate_metric.as_str().parse().map_err(|e| value(&e))?,
                mixed_weight: config.gate_mixed_weight,
                density: config.use_semantic_density.then(|| density(config)),
            },
            remeasure_stale: config.remeasure_stale,
            val_items: config.sel_env_num,
            test_items: config.test_env_num,
            eval_test: config.eval_test,
            rewrite: Rewrite {
                max_tokens: config.rewrite_max_completion_tokens,
                reasoning_effort: Some(effort.to_owned()).filter(|e| !e.is_empty()),
            },
        })
    }

    /// Returns the number of steps of the run.
    #[must_use]
    pub const fn total_steps(&self) -> u64 {
        self.epochs * self.epoch.steps as u64
    }

    /// Returns the val items that the gate looks at.
    #[must_use]
    pub fn gate_items(&self) -> Vec<&Sample> {
        first(&self.samples.val, self.val_items)
    }

    /// Returns the test items that skills are scored on.
    #[must_use]
    pub fn scored_items(&self) -> Vec<&Sample> {
        first(&self.samples.test, self.test_items)
    }

    /// Returns the most edits of one analyst answer; `None` is no limit (D17).
    #[must_use]
    pub fn analyst_budget(&self) -> Option<usize> {
        (self.control != Control::None).then_some(self.budget.max as usize)
    }
}

/// Returns the first `n` samples in file order, all for 0.
fn first(samples: &[Sample], n: usize) -> Vec<&Sample> {
    let n = if n == 0 { samples.len() } else { n };
    samples.iter().take(n).collect()
}

/// Returns how much is shown of what an agent did: the setting is for this one target, as its name says.
fn trace(config: &RunConfig) -> Trace {
    match (
        config.target_backend.as_str(),
        config.codex_trace_to_optimizer,
    ) {
        ("codex_exec", true) => Trace::Summed,
        ("codex_exec", false) => Trace::Hidden,
        _ => Trace::Shown,
    }
}

fn density(config: &RunConfig) -> Density {
    let weight = config.semantic_density_weight;
    match &config.leading_words {
        Some(words) => Density::new(weight, words),
        None => Density::new(weight, DEFAULT_LEADING_WORDS),
    }
}
