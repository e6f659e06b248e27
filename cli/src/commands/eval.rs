//! `skillopt eval`: one rollout of a skill, no optimizer.

use std::path::Path;

use serde_json::json;
use skillopt_config::{Role, RunConfig};
use skillopt_coordinator::Halt;
use skillopt_coordinator::events::Event;
use skillopt_coordinator::jobs::{Jobs as _, RolloutAsk, Urgency};
use skillopt_coordinator::prepare::{PrepareError, Prepared, prepare};
use skillopt_coordinator::read_model::{RunRow, share};
use skillopt_coordinator::sample::Sample;
use skillopt_coordinator::timings::Timings;
use skillopt_coordinator::train::PlanError;
use skillopt_core::Hash;
use skillopt_queue::RunId;
use skillopt_runtime::Shutdown;

use crate::args::{EvalArgs, Split};
use crate::config_args::{Loaded, check_backends};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::local::Local;
use crate::output::progress::Reporter;
use crate::output::words::{amount, count, plural};
use crate::output::{Out, Tone};
use crate::place::place;
use crate::process;

use super::train::{check_slots, stopped, told};

/// Folder of the rollouts below the run folder.
const STAGE: &str = "rollout";

impl Split {
    const fn word(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
            Self::All => "all",
        }
    }
}

pub(crate) fn run(args: &EvalArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded {
        mut config,
        warnings,
    } = args.config.load()?;
    out.warnings(&warnings);
    check_backends(&config, &[Role::Target])?;
    check_slots(&config)?;
    if args.skill.trim().is_empty() || !Path::new(&args.skill).exists() {
        return Err(
            Failure::usage(format!("the skill `{}` does not exist", args.skill))
                .hint("`--skill` takes a Markdown file, or a folder with `SKILL.md`"),
        );
    }
    config.skill_init.clone_from(&args.skill);
    config.train_size = 0;
    config.eval_test = false;
    let name = format!("eval_{}_{}", config.env, config.target_model);
    let placed = place(&mut config, &name, out, |config| prepared(config, args))?;
    let items = items(&placed.prepared, &config, args.split);
    let command = process::same_command(&placed.extra);
    evaluate(args, &config, &placed.prepared, &items, &command, out)
}

/// Loads what an evaluation needs.
fn prepared(config: &RunConfig, args: &EvalArgs) -> Result<Prepared, Failure> {
    let prepared = prepare(config, skillopt_worker::CHAT_LANE);
    let mut prepared = prepared.map_err(|error| {
        let exit = match &error {
            PrepareError::Plan(PlanError::Empty(_)) => Exit::NothingJudged,
            _ => Exit::Usage,
        };
        Failure::new(exit, error)
    })?;
    name_run(&mut prepared, args)?;
    if items(&prepared, config, args.split).is_empty() {
        return Err(Failure::new(
            Exit::NothingJudged,
            format!(
                "the {} split has no items, so there is no score",
                args.split.word()
            ),
        ));
    }
    Ok(prepared)
}

/// Makes this evaluation a run of its own, so that a folder is not used for two.
fn name_run(prepared: &mut Prepared, args: &EvalArgs) -> Result<(), Failure> {
    let facts = &mut prepared.facts;
    facts.insert("command".to_owned(), "eval".into());
    facts.insert("split".to_owned(), args.split.word().into());
    facts.insert("skill".to_owned(), args.skill.clone().into());
    let bytes = serde_json::to_vec(facts).map_err(|e| Failure::new(Exit::Unexpected, e))?;
    let run = prepared.common.run.as_str().as_bytes().to_vec();
    prepared.common.run = RunId::new(&Hash::of_parts([bytes.as_slice(), &run]).short());
    Ok(())
}

/// Chooses the items: whole splits for `all`, else at most `test_env_num` (training spec 7.7).
fn items<'a>(prepared: &'a Prepared, config: &RunConfig, split: Split) -> Vec<&'a Sample> {
    let samples = &prepared.plan.samples;
    let limit = match config.test_env_num {
        0 => usize::MAX,
        n => n,
    };
    match split {
        Split::Train => samples.train.iter().take(limit).collect(),
        Split::Val => samples.val.iter().take(limit).collect(),
        Split::Test => samples.test.iter().take(limit).collect(),
        Split::All => samples
            .train
            .iter()
            .chain(&samples.val)
            .chain(&samples.test)
            .collect(),
    }
}

fn preflight(config: &RunConfig, prepared: &Prepared, items: u64, out: &Out) {
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
    args: &EvalArgs,
    config: &RunConfig,
    prepared: &Prepared,
    items: &[&Sample],
    command: &str,
    out: &Out,
) -> Result<Exit, Failure> {
    let local = Local::open(config, prepared)?;
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
        let ask = RolloutAsk {
            stage: STAGE,
            skill: &prepared.plan.initial,
            items,
            repeats: &[],
            keep_records: false,
            urgency: Urgency::Next,
        };
        let stage = session.rollouts(ask).await?;
        session.close()?;
        let event = Event::evaluated(
            args.split.word(),
            stage.score(),
            stage.rolled.len(),
            stage.usage,
        );
        log.commit(event).await?;
        Ok(stage)
    });
    let outcome = process::block_on(&shutdown, told(out), work)?;
    reporter.finish();
    let told = local.write_outcome(&outcome, |_| "evaluated", &reporter);
    // What stopped it is said first, even if it cannot be written down.
    let stage = outcome.map_err(|halt| stopped(halt, &RunRow::default(), command))?;
    told?;
    local.folder.json("timings.json", &timings.to_json())?;
    let (hard, soft) = stage.score();
    let summary = json!({
        "skill": args.skill,
        "split": args.split.word(),
        "n_items": stage.rolled.len(),
        "hard": hard,
        "soft": soft,
    });
    local.folder.json("config.json", &prepared.config)?;
    local.folder.json("eval_summary.json", &summary)?;
    if out.json {
        out.object("result", summary);
    } else {
        out.line(format!(
            "{} exact, {} partial on {} items ({})",
            out.paint.of(Tone::Strong, &share(Some(hard))),
            share(Some(soft)),
            count(stage.rolled.len() as u64),
            args.split.word()
        ));
        out.line(format!(
            "{} calls, {} tokens sent, {} received",
            count(stage.usage.calls),
            amount(stage.usage.prompt_tokens),
            amount(stage.usage.completion_tokens)
        ));
        out.line(format!(
            "results: {}/{STAGE}/results.jsonl",
            config.out_root
        ));
    }
    Ok(Exit::Done)
}
