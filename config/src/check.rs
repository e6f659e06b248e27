//! The checks that look at more than one value (training spec 7.8, D16, D35).

use skillopt_backends::registry;
use skillopt_core::job::Profile;

use crate::address;
use crate::choices::{
    AnswerMode, LrControlMode, LrScheduler, ReasoningEffort, SplitMode, UpdateMode,
};
use crate::context::Context;
use crate::flat::{Flat, LATER_BENCHMARKS};
use crate::node::{Data, Node, Origin};
use crate::problem::{Problem, Warning};
use crate::roles::{Role, default_model};
use crate::run_config::RunConfig;
use crate::suggest::nearest;

/// Settings of the simulated model, with `_` for `-`.
pub const SIM_SETTINGS: &[&str] = &[
    "seed",
    "p_rule",
    "p_none",
    "p_trap",
    "crowd",
    "sticky",
    "p_near",
    "p_harm",
    "p_note",
    "rules_per_call",
    "reply_chars",
    "latency",
    "latency_target",
    "latency_optimizer",
    "p429",
    "p500",
    "preset",
    "phang",
    "pgarbage",
    "hang_s",
    "retry_after",
    "max_inflight",
    "rps",
];

/// Collects problems and warnings.
struct Findings<'a> {
    flat: &'a Flat,
    problems: &'a mut Vec<Problem>,
    warnings: &'a mut Vec<Warning>,
}

impl Findings<'_> {
    /// Builds a finding about a key; the default's place if it was not set.
    fn about(&self, path: &str, name: &str, reason: impl Into<String>) -> Problem {
        match self.flat.known.get(name) {
            Some(node) => Problem::new(path, node, reason),
            None => Problem::at(path, &Origin::Default, reason),
        }
    }

    fn problem(&mut self, path: &str, name: &str, reason: impl Into<String>) {
        let problem = self.about(path, name, reason);
        self.problems.push(problem);
    }

    fn warning(&mut self, path: &str, name: &str, reason: impl Into<String>) {
        let warning = self.about(path, name, reason);
        self.warnings.push(warning);
    }
}

/// Runs all checks; the configuration is put right where that is defined.
pub(crate) fn all(
    config: &mut RunConfig,
    flat: &Flat,
    context: &Context<'_>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) {
    let mut findings = Findings {
        flat,
        problems,
        warnings,
    };
    benchmark(config, context, &mut findings);
    sizes(config, &mut findings);
    budget(config, &mut findings);
    update_mode(config, &mut findings);
    splits(config, &mut findings);
    evaluation(config, &mut findings);
    calls(config, &mut findings);
    second_copies(config, &mut findings);
    addresses(config, &mut findings);
    together(config, &mut findings);
    untold(config, &mut findings);
    overruled(config, &mut findings);
    simulated(config, &mut findings);
}

fn benchmark(config: &RunConfig, context: &Context<'_>, findings: &mut Findings<'_>) {
    let Some(benchmarks) = context.benchmarks else {
        return;
    };
    if benchmarks.contains(&config.env.as_str()) {
        return;
    }
    let reason = if config.env.trim().is_empty() {
        "names no benchmark"
    } else if LATER_BENCHMARKS.contains(&config.env.as_str()) {
        "is known, but this release cannot run it yet"
    } else {
        "is no benchmark we know"
    };
    let mut problem = findings.about("env.name", "env", reason);
    problem.allowed = Some(format!("one of `{}`", benchmarks.join("`, `")));
    problem.nearest = nearest(&config.env, benchmarks.iter().copied()).map(str::to_owned);
    findings.problems.push(problem);
}

fn sizes(config: &RunConfig, findings: &mut Findings<'_>) {
    if config.steps_per_epoch.is_some_and(|n| n > 0) {
        findings.warning(
            "train.steps_per_epoch",
            "steps_per_epoch",
            "is ignored: it follows from the size of the train split, `batch_size` and \
             `accumulation`",
        );
    }
    if config.limit > 0 && config.train_size > config.limit {
        let reason = format!(
            "is more than `env.limit: {}` leaves of the train split; set `train.train_size` to 0 to \
             take what there is",
            config.limit
        );
        findings.problem("train.train_size", "train_size", reason);
    }
}

fn budget(config: &mut RunConfig, findings: &mut Findings<'_>) {
    if config.min_edit_budget > config.edit_budget {
        if findings.flat.known.get("min_edit_budget").is_some() {
            let reason = format!(
                "is more than `optimizer.learning_rate: {0}`; {0} is used",
                config.edit_budget
            );
            findings.warning("optimizer.min_learning_rate", "min_edit_budget", reason);
        }
        config.min_edit_budget = config.edit_budget;
    }
    if let Some(Data::Text(word)) = findings.flat.known.get("lr_scheduler").map(|n| &n.data)
        && LrScheduler::parse(word).is_some_and(|s| s.as_str() != word)
    {
        let mut problem = findings.about(
            "optimizer.lr_scheduler",
            "lr_scheduler",
            "must be spelled exactly",
        );
        problem.nearest = LrScheduler::parse(word).map(|s| s.as_str().to_owned());
        findings.problems.push(problem);
    }
}

fn update_mode(config: &mut RunConfig, findings: &mut Findings<'_>) {
    let mode = config.skill_update_mode;
    if config.use_skill_aware_reflection && mode != UpdateMode::Patch {
        let reason = format!(
            "cannot be used with `optimizer.skill_update_mode: {}`, because a rewrite can drop the \
             appendix; use `patch` or turn it off",
            mode.as_str()
        );
        findings.problem(
            "optimizer.use_skill_aware_reflection",
            "use_skill_aware_reflection",
            reason,
        );
    }
    if config.use_skill_aware_reflection && config.optimizer_answer_mode == AnswerMode::Schema {
        findings.problem(
            "optimizer.use_skill_aware_reflection",
            "use_skill_aware_reflection",
            "cannot be used with `model.optimizer_answer_mode: schema`, whose analysts write no \
             notes; use `free` or turn it off"
                .to_owned(),
        );
    }
    // Whole new texts are not counted, so nobody decides about their number (4.2).
    if mode == UpdateMode::FullRewriteMinibatch {
        config.lr_control_mode = LrControlMode::None;
    }
}

fn splits(config: &RunConfig, findings: &mut Findings<'_>) {
    if config.split_mode == SplitMode::SplitDir && config.split_dir.trim().is_empty() {
        findings.problem(
            "env.split_dir",
            "split_dir",
            "is empty, but `env.split_mode: split_dir` needs a folder with `train`, `val` and `test`",
        );
    }
    let node = findings.flat.known.get("split_ratio");
    let base_sixty = |node: &Node| {
        matches!(node.data, Data::Int(_) | Data::Float(_))
            && node.raw.as_ref().is_some_and(|raw| raw.contains(':'))
    };
    if node.is_some_and(base_sixty) {
        findings.problem(
            "env.split_ratio",
            "split_ratio",
            "is read as a number to the base 60, because it is not quoted; write it in quotes, as \
             in `\"2:1:7\"`",
        );
    } else if !is_ratio(&config.split_ratio) {
        let mut problem = findings.about("env.split_ratio", "split_ratio", "is no ratio");
        problem.allowed = Some("three positive whole numbers, as in `\"2:1:7\"`".to_owned());
        findings.problems.push(problem);
    }
}

/// Returns whether `text` is three positive whole numbers; blank parts do not count.
fn is_ratio(text: &str) -> bool {
    let parts: Vec<&str> = text
        .split(':')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect();
    parts.len() == 3
        && parts
            .iter()
            .all(|part| part.parse::<u32>().is_ok_and(|n| n > 0))
}

fn evaluation(config: &RunConfig, findings: &mut Findings<'_>) {
    let empty = config
        .leading_words
        .as_ref()
        .is_some_and(|words| words.iter().all(|word| word.trim().is_empty()));
    if config.use_semantic_density && empty {
        findings.warning(
            "evaluation.leading_words",
            "leading_words",
            "is empty, so the density bonus is always 0",
        );
    }
}

/// Nobody reserves for copies, so that a cap would not hold over them.
fn second_copies(config: &RunConfig, findings: &mut Findings<'_>) {
    let caps = [
        ("requests", config.budget_requests.is_some()),
        ("tokens", config.budget_tokens.is_some()),
        ("usd", config.budget_usd.is_some()),
    ];
    let cap = caps.iter().find(|(_, is_set)| *is_set);
    if let Some((cap, _)) = cap
        && config.hedge > 0.0
    {
        let reason =
            format!("does nothing here: where a cap pays (`budget.{cap}`), no call is made twice");
        findings.warning("env.hedge", "hedge", reason);
    }
}

/// Settings of a backend that say something only together.
fn together(config: &RunConfig, findings: &mut Findings<'_>) {
    for (role, backend) in [
        (Role::Optimizer, &config.optimizer_backend),
        (Role::Target, &config.target_backend),
    ] {
        for (key, finding) in config.backends.judge(role, backend) {
            let own = format!("{}_{key}", role.as_str());
            let name = if config.origins.contains_key(&own) {
                own
            } else {
                key.to_owned()
            };
            let about = |reason| Problem::at(format!("model.{name}"), config.origin(&name), reason);
            match finding {
                Ok(remark) => findings
                    .warnings
                    .push(about(format!("{remark} (model of the {})", role.as_str()))),
                Err(reason) => findings
                    .problems
                    .push(about(format!("{reason} (model of the {})", role.as_str()))),
            }
        }
    }
}

/// The program of an agent has not every setting that a model has. What it is not told is said here, if
/// somebody set it.
fn untold(config: &RunConfig, findings: &mut Findings<'_>) {
    if !config.has_agent() {
        return;
    }
    let backend = config.target_backend.as_str();
    let told = |effort: &str, max_tokens: u32| {
        let mut profile = Profile {
            max_tokens,
            reasoning_effort: effort.to_owned(),
            ..Profile::bare(Role::Target.as_str(), backend, &config.target_model)
        };
        config.backends.describe(Role::Target, &mut profile);
        profile
    };
    let effort = config.reasoning_effort.as_str();
    let keys = registry::find(backend).map_or(&[][..], |backend| backend.keys);
    // A key of its own takes the place of the shared one.
    let has_own = keys.iter().any(|key| {
        key.base.ends_with("_effort") && config.backends.get(Role::Target, key.base).is_some()
    });
    let is_heard = effort.is_empty() || has_own || !told(effort, 0).reasoning_effort.is_empty();
    let limit = config.answer_limit_of_agents();
    for (path, name, is_lost, could_be) in [
        (
            "model.reasoning_effort",
            "reasoning_effort",
            !is_heard,
            !told(ReasoningEffort::High.as_str(), 0)
                .reasoning_effort
                .is_empty(),
        ),
        (
            "env.max_completion_tokens",
            "max_completion_tokens",
            told("", limit).max_tokens == 0,
            told("", 1).max_tokens > 0,
        ),
    ] {
        let node = findings.flat.known.get(name);
        let is_chosen = node.is_some_and(|node| !node.is_blank() && !node.origin.is_shipped_base());
        if !(is_lost && is_chosen) {
            continue;
        }
        let reason = match (could_be, backend, name) {
            (true, ..) => format!(
                "is the usual value, which `{backend}` leaves to its program; any other is sent"
            ),
            (false, "declared_exec", "reasoning_effort") => format!(
                "is not told to `{backend}`; let the declaration hold `{{effort}}` where it goes"
            ),
            (false, ..) => {
                format!("is not told to `{backend}`, whose program has no setting for it")
            }
        };
        findings.warning(path, name, format!("{reason} (model of the target)"));
    }
}

/// Of two limits of the target's answers one counts. That the other does not is said here, if somebody set
/// it.
fn overruled(config: &RunConfig, findings: &mut Findings<'_>) {
    if config.has_agent() {
        return;
    }
    let backend = config.target_backend.as_str();
    let own = config.backends.own_timeout(Role::Target, backend);
    if let Some(own) = own.filter(|_| config.is_chosen("exec_timeout")) {
        let reason = format!(
            "is what limits a call of the target, and `model.{own}` counts for nothing; set one of them"
        );
        findings.warning("env.exec_timeout", "exec_timeout", reason);
    }
    let Some((key, cap)) = config.answer_cap() else {
        return;
    };
    if config.is_chosen("max_completion_tokens") && cap < config.max_completion_tokens {
        let reason = format!(
            "is more than the {cap} tokens of `model.{key}`, at which answers of the target are cut; \
             raise that one too"
        );
        findings.warning("env.max_completion_tokens", "max_completion_tokens", reason);
    }
}

/// A wrong address would only show in the first call.
fn addresses(config: &RunConfig, findings: &mut Findings<'_>) {
    for (role, backend) in [
        (Role::Optimizer, &config.optimizer_backend),
        (Role::Target, &config.target_backend),
    ] {
        let Some((key, address)) = config.backends.address(role, backend) else {
            continue;
        };
        let Some(fault) = address::fault(&address) else {
            continue;
        };
        let name = address_name(config, role, key, findings);
        let origin = config.origin(&name).clone();
        let mut problem = Problem::at(format!("model.{name}"), &origin, fault.reason);
        problem.value = (!fault.is_private).then(|| format!("{address:?}"));
        problem.allowed = Some("an address like `https://host/v1`".to_owned());
        if !findings.problems.contains(&problem) {
            findings.problems.push(problem);
        }
    }
}

/// Returns the key that gave `role` its address: the role's own or the shared one, of the
/// configuration or else of the environment.
fn address_name(config: &RunConfig, role: Role, shared: &str, findings: &Findings<'_>) -> String {
    let own = format!("{}_{shared}", role.as_str());
    let known = |name: &str| {
        let node = findings.flat.known.get(name);
        node.is_some_and(|node| !node.is_blank())
    };
    let is_own = known(&own) || (!known(shared) && config.origins.contains_key(&own));
    if is_own { own } else { shared.to_owned() }
}

fn calls(config: &RunConfig, findings: &mut Findings<'_>) {
    if config.retry_base_ms > config.retry_cap_ms {
        let reason = format!(
            "is more than `model.retry_cap_ms: {}`, the longest pause allowed",
            config.retry_cap_ms
        );
        findings.problem("model.retry_base_ms", "retry_base_ms", reason);
    }
    for (role, name, path, model, backend) in [
        (
            Role::Optimizer,
            "optimizer_model",
            "model.optimizer",
            &config.optimizer_model,
            &config.optimizer_backend,
        ),
        (
            Role::Target,
            "target_model",
            "model.target",
            &config.target_model,
            &config.target_backend,
        ),
    ] {
        let may_choose = backend.ends_with("_exec")
            || backend == "copilot_chat"
            || default_model(role, backend) == Some("");
        if model.trim().is_empty() && !may_choose {
            findings.problem(path, name, "names no model");
        }
    }
}

fn simulated(config: &mut RunConfig, findings: &mut Findings<'_>) {
    let mut settings = serde_json::Map::new();
    for (name, value) in &config.sim {
        let plain = name.replace('-', "_");
        if SIM_SETTINGS.contains(&plain.as_str()) {
            settings.insert(plain, value.clone());
            continue;
        }
        let origin = findings
            .flat
            .known
            .get("sim")
            .and_then(|sim| sim.as_map()?.get(name))
            .map_or(Origin::Default, |node| node.origin.clone());
        let mut problem = Problem::at(
            format!("model.sim.{name}"),
            &origin,
            "is no setting of the simulated model",
        );
        problem.nearest = nearest(&plain, SIM_SETTINGS.iter().copied()).map(str::to_owned);
        findings.problems.push(problem);
    }
    config.sim = settings;
}
