//! `skillopt eval`: one rollout of a skill, no optimizer.

use std::path::Path;

use serde_json::{Value, json};
use skillopt_config::{Role, RunConfig};
use skillopt_coordinator::Halt;
use skillopt_coordinator::evaluate::{self, Evaluation, STAGE};
use skillopt_coordinator::folder::Unanswered;
use skillopt_coordinator::prepare::{PrepareError, Prepared};
use skillopt_coordinator::read_model::{RunRow, TokenRow, share};
use skillopt_coordinator::timings::Timings;
use skillopt_coordinator::train::PlanError;
use skillopt_runtime::Shutdown;

use super::recorded;
use crate::advice::Roles;
use crate::args::{EvalArgs, EvaluatedArgs, Split};
use crate::config_args::{Loaded, check_backends};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::local::Local;
use crate::models;
use crate::output::doubts;
use crate::output::progress::Reporter;
use crate::output::words::{amount, count, plural};
use crate::output::{Out, Tone};
use crate::place::place;
use crate::process;
use crate::remarks;

use super::train::{check_slots, stopped, told};

impl Split {
    const fn meant(self) -> evaluate::Split {
        match self {
            Self::Train => evaluate::Split::Train,
            Self::Val => evaluate::Split::Val,
            Self::Test => evaluate::Split::Test,
            Self::All => evaluate::Split::All,
        }
    }
}

/// Reads what is evaluated.
pub(crate) fn evaluation(args: &EvaluatedArgs) -> Result<Evaluation, Failure> {
    if args.skill.trim().is_empty() || !Path::new(&args.skill).exists() {
        return Err(
            Failure::usage(format!("the skill `{}` does not exist", args.skill))
                .hint("`--skill` takes a Markdown file, or a folder with `SKILL.md`"),
        );
    }
    Ok(Evaluation {
        skill: args.skill.clone(),
        split: args.split.meant(),
    })
}

pub(crate) fn run(args: &EvalArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded {
        mut config,
        warnings,
    } = args.config.load()?;
    out.warnings(&warnings);
    check_backends(&config, &[Role::Target])?;
    let tape = recorded::open(&args.tape, &config)?;
    if tape.calls_models() {
        models::try_connect(&config, &[Role::Target]).map_err(Failure::usage)?;
    }
    check_slots(&config)?;
    remarks::say(&config, out);
    let evaluation = evaluation(&args.what)?;
    evaluation.adapt(&mut config);
    let name = format!("eval_{}_{}", config.env, config.target_model);
    let placed = place(&mut config, &name, out, |config| {
        prepared(config, &evaluation)
    })?;
    let command = process::same_command(&placed.extra);
    let local = Local::open(&config, &placed.prepared, &tape)?;
    let exit = evaluate(
        &evaluation,
        &config,
        &placed.prepared,
        &local,
        &command,
        out,
    );
    recorded::close(&tape, exit, out)
}

/// Loads what an evaluation needs.
fn prepared(config: &RunConfig, evaluation: &Evaluation) -> Result<Prepared, Failure> {
    evaluation.prepare(config).map_err(|error| {
        let exit = match &error {
            PrepareError::Plan(PlanError::Empty(_)) | PrepareError::NothingJudged(_) => {
                Exit::NothingJudged
            }
            _ => Exit::Usage,
        };
        Failure::new(exit, error)
    })
}

/// Says what an evaluation will need.
pub(crate) fn preflight(config: &RunConfig, prepared: &Prepared, items: u64, out: &Out) {
    let calls = items.saturating_mul(config.max_turns.unwrap_or(1) as u64);
    if out.json {
        out.object(
            "preflight",
            json!({"n_items": items, "target_calls_max": calls, "dir": config.out_root}),
        );
    } else {
        out.chat(format!(
            "{}: {}, at most {} target calls",
            prepared.title,
            plural(items, "item"),
            count(calls)
        ));
        out.chat(format!("run folder: {}", config.out_root));
    }
}

fn evaluate(
    evaluation: &Evaluation,
    config: &RunConfig,
    prepared: &Prepared,
    local: &Local,
    command: &str,
    out: &Out,
) -> Result<Exit, Failure> {
    let items = evaluation.items(config, prepared);
    let shutdown = Shutdown::new();
    let reporter = Reporter::new(out, prepared.common.run.as_str(), &shutdown);
    let session = local.session(config, prepared, &shutdown, &reporter);
    let log = local.log(prepared, &reporter)?;
    local
        .write_status("running", None, &reporter)
        .map_err(Failure::from)?;
    let timings = Timings::default();
    let work = local.with_worker(&shutdown, &reporter, async {
        preflight(config, prepared, items.len() as u64, out);
        let blobs = prepared.blobs.clone();
        local
            .store
            .put_blobs(blobs)
            .await
            .map_err(Halt::infrastructure)?;
        let stage = evaluation.run(prepared, &items, &session, &log).await?;
        session.close()?;
        Ok(stage)
    });
    let outcome = process::block_on(&shutdown, told(out), work)?;
    reporter.finish();
    let told = local.write_outcome(&outcome, |_| "evaluated", &reporter);
    // What stopped it is said first, even if it cannot be written down.
    let stage =
        outcome.map_err(|halt| stopped(halt, &RunRow::default(), &Roles::of(config), command))?;
    told?;
    local.folder.json("timings.json", &timings.to_json())?;
    let found = evaluation.write(&local.folder, prepared, &stage)?;
    summary(found, stage.usage.into(), config, out);
    Ok(Exit::Done)
}

/// Shows what an evaluation came to.
pub(crate) fn summary(summary: Value, tokens: TokenRow, config: &RunConfig, out: &Out) {
    let score = |name: &str| share(summary.get(name).and_then(Value::as_f64));
    let no_answer = &summary["no_answer"];
    let unanswered = no_answer["items"].as_u64().map(|n| Unanswered {
        n,
        of: summary["n_items"].as_u64().unwrap_or(n),
        cause: no_answer["cause"].as_str().unwrap_or_default().to_owned(),
    });
    doubts::warn(unanswered.as_ref(), tokens.truncated_calls, config, out);
    if out.json {
        out.object("result", summary);
        return;
    }
    out.line(format!(
        "{} exact, {} partial on {} items ({})",
        out.paint.of(Tone::Strong, &score("hard")),
        score("soft"),
        count(summary["n_items"].as_u64().unwrap_or(0)),
        summary["split"].as_str().unwrap_or_default()
    ));
    out.line(format!(
        "{} calls, {} tokens sent, {} received",
        count(tokens.calls),
        amount(tokens.prompt_tokens),
        amount(tokens.completion_tokens)
    ));
    out.line(format!(
        "results: {}/{STAGE}/results.jsonl",
        config.out_root
    ));
}
