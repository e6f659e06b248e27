//! The typed configuration of a run, and the table of its keys.
//!
//! The table below is the only place where a key is written down: the struct, the reading, the
//! checks of single values, `config.json`, the flags and the reference page all come from it.
//! Source: training spec, chapter 7.4.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};
use skillopt_backends::declare::Work;
use skillopt_backends::registry;
use skillopt_core::job::Profile;

use crate::backend_settings::BackendSettings;
use crate::choices::{
    AnswerMode, AppendixSource, GateMetric, LrControlMode, LrScheduler, PairPolicy, Predictions,
    ReasoningEffort, Scope, SplitMode, UpdateMode,
};
use crate::key::{FILE, FILE_OPS, FLAG, FLAG_OPS, Key, Kind, float, int};
use crate::node::Origin;
use crate::roles::Role;
use crate::setting::{Reader, Setting};

macro_rules! settings {
    ($( $(#[doc = $doc:literal])+ $field:ident : $ty:ty = $path:literal, $kind:expr, $default:expr, $usage:expr; )+) => {
        /// Everything a run is told. Field names are the flat key names of `config.json`.
        #[derive(Clone)]
        pub struct RunConfig {
            $( $(#[doc = $doc])+ pub $field: $ty, )+
            /// Keys of the `env` section that are not ours, handed to the benchmark.
            pub env_extra: Map<String, Json>,
            /// Unknown top-level keys, passed through.
            pub extra: Map<String, Json>,
            /// Settings of single backends (addresses, credentials, programs).
            pub backends: BackendSettings,
            /// Where each value came from, by flat name; absent = default.
            pub origins: BTreeMap<String, Origin>,
        }

        impl Default for RunConfig {
            fn default() -> Self {
                Self {
                    $( $field: $default, )+
                    env_extra: Map::new(),
                    extra: Map::new(),
                    backends: BackendSettings::default(),
                    origins: BTreeMap::new(),
                }
            }
        }

        /// The keys with a field in [`RunConfig`], in the order of the reference page.
        pub const KEYS: &[Key] = &[$( Key {
            name: stringify!($field),
            path: $path,
            kind: $kind,
            usage: $usage,
            help: concat!($($doc, "\n"),+),
            default: || { let value: $ty = $default; Setting::write(&value) },
        } ),+];

        impl RunConfig {
            /// Reads every field; what is wrong is noted in the reader, and the default taken.
            pub(crate) fn read(reader: &mut Reader<'_>) -> Self {
                let mut config = Self::default();
                for key in KEYS {
                    match key.name {
                        $( stringify!($field) => reader.read(key, &mut config.$field), )+
                        _ => {}
                    }
                }
                config
            }

            /// Returns the fields as JSON, in the order of the table.
            #[must_use]
            pub fn fields(&self) -> Map<String, Json> {
                let mut map = Map::new();
                $( map.insert(stringify!($field).to_owned(), Setting::write(&self.$field)); )+
                map
            }
        }
    };
}

const fn choice(words: &'static [crate::choices::Word]) -> Kind {
    Kind::Choice(words)
}

fn text(value: &str) -> String {
    value.to_owned()
}

settings! {
    /// Passes over the train split.
    num_epochs: usize = "train.num_epochs", int(1), 4, FLAG;
    /// Items of the train split; 0 takes the split as it is, else it must have this size.
    train_size: usize = "train.train_size", int(0), 0, FLAG;
    /// Accepted and ignored: always worked out from the sizes.
    steps_per_epoch: Option<usize> = "train.steps_per_epoch", int(0), None, FLAG;
    /// Items per micro-batch.
    batch_size: usize = "train.batch_size", int(1), 40, FLAG;
    /// Micro-batches gathered before one update.
    accumulation: usize = "train.accumulation", int(1), 1, FLAG;
    /// Seed of everything that is drawn.
    seed: u64 = "train.seed", Kind::Int { min: 0, max: i64::MAX }, 42, FLAG;

    /// Trajectories shown to one analyst call.
    minibatch_size: usize = "gradient.minibatch_size", int(1), 8, FLAG;
    /// Patches joined by one merge call.
    merge_batch_size: usize = "gradient.merge_batch_size", int(2), 8, FLAG;
    /// Optimizer calls made at the same time.
    analyst_workers: usize = "gradient.analyst_workers", int(1), 16, FLAG_OPS;
    /// Ask no analyst about successes.
    failure_only: bool = "gradient.failure_only", Kind::Bool, false, FLAG;
    /// Ask an optimizer model once more when its answer cannot be used.
    reask_unusable: bool = "gradient.reask_unusable", Kind::Bool, true, FILE;

    /// Most edits of one step and of one analyst answer (`learning_rate` in structured files).
    edit_budget: usize = "optimizer.learning_rate", int(1), 4, FLAG;
    /// Floor of the decaying schedules (`min_learning_rate` in structured files).
    min_edit_budget: usize = "optimizer.min_learning_rate", int(0), 2, FLAG;
    /// How the edit budget moves over the run.
    lr_scheduler: LrScheduler = "optimizer.lr_scheduler", choice(LrScheduler::WORDS), LrScheduler::Constant, FLAG;
    /// Who decides the number of edits of a step.
    lr_control_mode: LrControlMode = "optimizer.lr_control_mode", choice(LrControlMode::WORDS), LrControlMode::Fixed, FLAG;
    /// What the optimizer proposes: edits, suggestions or whole texts.
    skill_update_mode: UpdateMode = "optimizer.skill_update_mode", choice(UpdateMode::WORDS), UpdateMode::Patch, FLAG;
    /// Compare skills at the end of each epoch and write lasting guidance.
    use_slow_update: bool = "optimizer.use_slow_update", Kind::Bool, false, FLAG;
    /// Items compared by the slow update.
    slow_update_samples: usize = "optimizer.slow_update_samples", int(1), 20, FLAG;
    /// Let the gate decide about the slow update too.
    slow_update_gate_with_selection: bool = "optimizer.slow_update_gate_with_selection", Kind::Bool, false, FILE;
    /// Which pairs the slow update looks at.
    longitudinal_pair_policy: PairPolicy = "optimizer.longitudinal_pair_policy", choice(PairPolicy::WORDS), PairPolicy::Mixed, FLAG;
    /// Keep a memory of what helped, across epochs.
    use_meta_skill: bool = "optimizer.use_meta_skill", Kind::Bool, false, FLAG;
    /// Route reminders of rules the skill already has into an appendix.
    use_skill_aware_reflection: bool = "optimizer.use_skill_aware_reflection", Kind::Bool, false, FLAG;
    /// Which analysts may write appendix notes.
    skill_aware_appendix_source: AppendixSource = "optimizer.skill_aware_appendix_source", choice(AppendixSource::WORDS), AppendixSource::Both, FLAG;
    /// Notes in the appendix from which on it is consolidated; 0 never.
    skill_aware_consolidate_threshold: usize = "optimizer.skill_aware_consolidate_threshold", int(0), 0, FLAG;

    /// Accept a candidate only if it scores better on the val split.
    use_gate: bool = "evaluation.use_gate", Kind::Bool, true, FLAG;
    /// The number that the gate compares.
    gate_metric: GateMetric = "evaluation.gate_metric", choice(GateMetric::WORDS), GateMetric::Hard, FILE;
    /// Weight of the soft score in `gate_metric: mixed`.
    gate_mixed_weight: f64 = "evaluation.gate_mixed_weight", float(0.0, 1.0), 0.5, FILE;
    /// Add a small bonus for skills that say much in few words.
    use_semantic_density: bool = "evaluation.use_semantic_density", Kind::Bool, false, FILE;
    /// Weight of that bonus.
    semantic_density_weight: f64 = "evaluation.semantic_density_weight", float(0.0, 1000.0), 0.05, FILE;
    /// Words that the bonus counts; absent = the built-in list.
    leading_words: Option<Vec<String>> = "evaluation.leading_words", Kind::Words, None, FILE;
    /// Val items used by the gate; 0 = all.
    sel_env_num: usize = "evaluation.sel_env_num", int(0), 0, FLAG;
    /// Test items used at the end; 0 = all.
    test_env_num: usize = "evaluation.test_env_num", int(0), 0, FLAG;
    /// Measure on the test split before and after.
    eval_test: bool = "evaluation.eval_test", Kind::Bool, true, FLAG;
    /// Measure the incumbent again before it is compared if its text changed since (D40).
    remeasure_stale: bool = "evaluation.remeasure_stale", Kind::Bool, false, FILE;

    /// The benchmark (`name` in structured files).
    env: String = "env.name", Kind::Text, String::new(), FLAG;
    /// The skill to start from, a file or a folder with `SKILL.md`; empty starts blank.
    skill_init: String = "env.skill_init", Kind::Path, String::new(), FLAG;
    /// Start blank also if `skill_init` does not exist.
    allow_missing_skill_init: bool = "env.allow_missing_skill_init", Kind::Bool, false, FILE;
    /// The run folder; empty makes one under `outputs`.
    out_root: String = "env.out_root", Kind::Path, String::new(), FLAG_OPS;
    /// Where the splits come from.
    split_mode: SplitMode = "env.split_mode", choice(SplitMode::WORDS), SplitMode::Ratio, FLAG;
    /// Shares of train, val and test, as in `"2:1:7"` (quote it).
    split_ratio: String = "env.split_ratio", Kind::Text, text("2:1:7"), FLAG;
    /// Seed of the ratio split; 0 takes the seed of the run.
    split_seed: u64 = "env.split_seed", Kind::Int { min: 0, max: i64::MAX }, 42, FLAG;
    /// Folder with `train`, `val` and `test`.
    split_dir: String = "env.split_dir", Kind::Path, String::new(), FLAG;
    /// File to cut by ratio, or a folder with one such file.
    data_path: String = "env.data_path", Kind::Path, String::new(), FLAG;
    /// Where a ratio split is written; empty = inside the run folder.
    split_output_dir: String = "env.split_output_dir", Kind::Path, String::new(), FLAG_OPS;
    /// Seconds one target call or agent may take; a chat model's own `…_timeout_seconds` counts unless this is set.
    exec_timeout: f64 = "env.exec_timeout", float(0.001, 86_400.0), 120.0, FILE_OPS;
    /// Cut every split to its first items; 0 keeps all.
    limit: usize = "env.limit", int(0), 0, FLAG;
    /// Rollouts made at the same time.
    workers: usize = "env.workers", int(1), 16, FLAG_OPS;
    /// Jobs of all kinds made at the same time; absent = `workers`.
    slots: Option<usize> = "env.slots", int(1), None, FLAG_OPS;
    /// Most tokens of a target answer.
    max_completion_tokens: u32 = "env.max_completion_tokens", int(1), 16_384, FILE;
    /// Most exchanges of one rollout; absent = the benchmark's own number.
    max_turns: Option<usize> = "env.max_turns", int(1), None, FLAG;
    /// The database of answers; empty = `.skillopt/store.sqlite` in the run folder.
    store: String = "env.store", Kind::Path, String::new(), FLAG_OPS;
    /// With whom answers of earlier jobs are shared.
    scope: Scope = "env.scope", choice(Scope::WORDS), Scope::Shared, FLAG;
    /// Folder whose prompt files replace the shipped ones of the same name.
    prompts_dir: String = "env.prompts_dir", Kind::Path, String::new(), FLAG;
    /// Which stages write a folder per item into the run folder.
    predictions: Predictions = "env.predictions", choice(Predictions::WORDS), Predictions::All, FLAG;

    /// Share of calls that may be made a second time when the first takes unusually long; 0 never.
    hedge: f64 = "env.hedge", float(0.0, 0.5), 0.0, FILE_OPS;

    /// Most calls that the run may make; absent = no limit.
    budget_requests: Option<u64> = "budget.requests", Kind::Int { min: 1, max: i64::MAX }, None, FLAG_OPS;
    /// Most tokens that the run may send and receive; absent = no limit.
    budget_tokens: Option<u64> = "budget.tokens", Kind::Int { min: 1, max: i64::MAX }, None, FLAG_OPS;
    /// Most US dollars that the run may spend; absent = no limit. Needs the prices of its models.
    budget_usd: Option<f64> = "budget.usd", float(0.000_001, 1e9), None, FLAG_OPS;
    /// File with the prices of models; its lines go before the list prices that come with the program.
    budget_prices: String = "budget.prices", Kind::Path, String::new(), FLAG_OPS;

    /// A name for a pair of backends, one for each role.
    model_backend: String = "model.backend", Kind::Text, String::new(), FLAG;
    /// Model that writes edits.
    optimizer_model: String = "model.optimizer", Kind::Text, text("gpt-5.5"), FLAG;
    /// Model that is trained for.
    target_model: String = "model.target", Kind::Text, text("gpt-5.5"), FLAG;
    /// Backend of the optimizer.
    optimizer_backend: String = "model.optimizer_backend", Kind::Text, text("openai_chat"), FLAG;
    /// Backend of the target.
    target_backend: String = "model.target_backend", Kind::Text, text("openai_chat"), FLAG;
    /// How hard the models think; empty = what the provider does.
    reasoning_effort: ReasoningEffort = "model.reasoning_effort", choice(ReasoningEffort::WORDS), ReasoningEffort::Medium, FLAG;
    /// How hard the optimizer thinks when it rewrites a whole skill.
    rewrite_reasoning_effort: ReasoningEffort = "model.rewrite_reasoning_effort", choice(ReasoningEffort::WORDS), ReasoningEffort::High, FLAG;
    /// Most tokens of a whole rewritten skill.
    rewrite_max_completion_tokens: u32 = "model.rewrite_max_completion_tokens", int(1), 64_000, FLAG;
    /// Whether the optimizer is bound to the stage's JSON schema.
    optimizer_answer_mode: AnswerMode = "model.optimizer_answer_mode", choice(AnswerMode::WORDS), AnswerMode::Free, FLAG;
    /// Whether the target is bound to a JSON schema where the benchmark has one.
    target_answer_mode: AnswerMode = "model.target_answer_mode", choice(AnswerMode::WORDS), AnswerMode::Free, FLAG;
    /// Show the optimizer what a `codex_exec` target did, with a summary, not only what it said; what other agents did is always shown.
    codex_trace_to_optimizer: bool = "model.codex_trace_to_optimizer", Kind::Bool, true, FLAG;
    /// Seconds one optimizer call may take; its backend's own `…_timeout_seconds` counts unless this is set.
    optimizer_timeout: f64 = "model.optimizer_timeout", float(0.001, 86_400.0), 300.0, FILE_OPS;
    /// Attempts of one call before the run pauses.
    retry_attempts: u32 = "model.retry_attempts", Kind::Int { min: 1, max: 1000 }, 8, FILE_OPS;
    /// Milliseconds before the second attempt; doubles with each further one.
    retry_base_ms: u64 = "model.retry_base_ms", Kind::Int { min: 0, max: 3_600_000 }, 500, FILE_OPS;
    /// Most milliseconds between two attempts.
    retry_cap_ms: u64 = "model.retry_cap_ms", Kind::Int { min: 0, max: 3_600_000 }, 30_000, FILE_OPS;
    /// Settings of the simulated model, by their names with `_` (`seed`, `latency`, `p429`, …).
    sim: Map<String, Json> = "model.sim", Kind::Map, Map::new(), FILE;
}

impl RunConfig {
    /// Returns the number of jobs made at the same time.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slots.unwrap_or(self.workers)
    }

    /// Returns whether somebody chose the value of a flat name: a shipped base only writes the usual one
    /// down.
    #[must_use]
    pub fn is_chosen(&self, name: &str) -> bool {
        let origin = self.origin(name);
        *origin != Origin::Default && !origin.is_shipped_base()
    }

    /// Returns the limit of one call of a role, in seconds: the run's own key where somebody chose it, else
    /// what its backend has. An agent's task is many calls, and has the run's own limit.
    #[must_use]
    pub fn call_seconds(&self, role: Role) -> f64 {
        let (name, own, backend) = match role {
            Role::Optimizer => (
                "optimizer_timeout",
                self.optimizer_timeout,
                &self.optimizer_backend,
            ),
            Role::Target => ("exec_timeout", self.exec_timeout, &self.target_backend),
        };
        if self.is_chosen(name) || (role == Role::Target && self.has_agent()) {
            return own;
        }
        self.backends.timeout_seconds(role, backend).unwrap_or(own)
    }

    /// Returns the most tokens of one answer that the backend of a target which only talks has, with the
    /// key that sets it.
    #[must_use]
    pub fn answer_cap(&self) -> Option<(&'static str, u32)> {
        let backend = registry::find(&self.target_backend).filter(|_| !self.has_agent())?;
        let mut names = backend.keys.iter().map(|key| key.base);
        let key = names.find(|name| name.ends_with("_max_tokens"))?;
        let role = Role::Target.as_str();
        let mut profile = Profile::bare(role, &self.target_backend, &self.target_model);
        self.backends.describe(Role::Target, &mut profile);
        (profile.max_tokens > 0).then_some((key, profile.max_tokens))
    }

    /// Returns the most tokens of one answer that the program of a target which is an agent is told; 0
    /// leaves it to the program, and so does the usual number: an agent's answers hold its thoughts and
    /// the calls of its tools, too.
    #[must_use]
    pub fn answer_limit_of_agents(&self) -> u32 {
        let is_usual = self.max_completion_tokens == Self::default().max_completion_tokens;
        match self.has_agent() && !is_usual {
            true => self.max_completion_tokens,
            false => 0,
        }
    }

    /// Returns whether the target is an agent.
    pub(crate) fn has_agent(&self) -> bool {
        let backend = registry::find(&self.target_backend);
        backend.is_some_and(|backend| backend.target == Some(Work::Agent))
    }
}
