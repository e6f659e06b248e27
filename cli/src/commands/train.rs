//! `skillopt train`.

use serde_json::json;
use skillopt_config::{Role, RunConfig};
use skillopt_coordinator::Halt;
use skillopt_coordinator::folder::RunFolder;
use skillopt_coordinator::halt::wants_new_run;
use skillopt_coordinator::prepare::{Prepared, prepare};
use skillopt_coordinator::read_model::{RunRow, headline, points, share};
use skillopt_runtime::{Shutdown, limits};

use super::recorded;
use crate::advice::{Roles, advice};
use crate::args::TrainArgs;
use crate::config_args::{Loaded, check_backends};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::local::{self, Local};
use crate::models::{self, Tape};
use crate::output::doubts;
use crate::output::progress::Reporter;
use crate::output::table::table;
use crate::output::words::{amount, count, number};
use crate::output::{Out, Tone};
use crate::place::place;
use crate::preflight::Preflight;
use crate::process;
use crate::remarks;

/// Files that a process has open besides one socket for each slot.
const OTHER_FILES: u64 = 64;

pub(crate) fn run(args: &TrainArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded {
        mut config,
        warnings,
    } = args.config.load()?;
    out.warnings(&warnings);
    let tape = recorded::open(&args.tape, &config)?;
    check(&config, &tape)?;
    remarks::say(&config, out);
    let name = format!("skillopt_{}_{}", config.env, config.optimizer_model);
    let placed = place(&mut config, &name, out, prepared)?;
    let command = process::same_command(&placed.extra);
    let local = Local::open(&config, &placed.prepared, &tape)?;
    let row = train(&config, &placed.prepared, &local, out, &command, async {});
    let exit = row.map(|row| {
        if args.exit_code && row.accepted == 0 {
            Exit::NothingAccepted
        } else {
            Exit::Done
        }
    });
    recorded::close(&tape, exit, out)
}

/// Refuses what cannot be run, before anything is read or spent.
///
/// # Errors
/// A backend of this configuration cannot be called, or it wants too many slots.
pub(crate) fn check(config: &RunConfig, tape: &Tape) -> Result<(), Failure> {
    let roles = [Role::Optimizer, Role::Target];
    check_backends(config, &roles)?;
    if tape.calls_models() {
        models::try_connect(config, &roles).map_err(Failure::usage)?;
    }
    check_slots(config)
}

/// Loads what a training needs.
///
/// # Errors
/// Something of it cannot be used.
pub(crate) fn prepared(config: &RunConfig) -> Result<Prepared, Failure> {
    Ok(prepare(config)?)
}

/// Refuses more slots than the system has sockets for.
pub(crate) fn check_slots(config: &RunConfig) -> Result<(), Failure> {
    let files = limits::raise_open_files();
    let slots = config.slot_count() as u64;
    if slots + OTHER_FILES <= files {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{slots} slots need {} open files, but this process may have {files}",
        slots + OTHER_FILES
    ))
    .hint(format!(
        "use `--slots {}`, or raise the limit with `ulimit -n`",
        files.saturating_sub(OTHER_FILES)
    )))
}

/// Trains to the end while `beside` goes on, and shows what came out.
///
/// # Errors
/// What stopped it; `command` is what goes on from there.
pub(crate) fn train(
    config: &RunConfig,
    prepared: &Prepared,
    local: &Local,
    out: &Out,
    command: &str,
    beside: impl Future<Output = ()> + Send + 'static,
) -> Result<RunRow, Failure> {
    let shutdown = Shutdown::new();
    let reporter = Reporter::new(out, prepared.common.run.as_str(), &shutdown);
    let work = async {
        // Said when Ctrl-C is heard already.
        preflight(config, prepared, out);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(beside);
        let outcome = local::run_training(local, config, prepared, &shutdown, &reporter).await;
        tasks.shutdown().await;
        outcome
    };
    let outcome = process::block_on(&shutdown, told(out), work)?;
    reporter.finish();
    let view = reporter.view();
    match outcome {
        Ok(_) => {
            summary(&view.run, &local.folder, config, out);
            Ok(view.run)
        }
        Err(halt) => Err(stopped(halt, &view.run, &Roles::of(config), command)),
    }
}

/// Says what a training will need.
pub(crate) fn preflight(config: &RunConfig, prepared: &Prepared, out: &Out) {
    let turns = config.max_turns.unwrap_or(1) as u64;
    let need = Preflight::new(prepared, turns);
    if out.json {
        let mut value = need.to_json();
        if let Some(map) = value.as_object_mut() {
            map.insert("run".to_owned(), prepared.common.run.as_str().into());
            map.insert("dir".to_owned(), config.out_root.clone().into());
            map.insert("benchmark".to_owned(), prepared.title.clone().into());
        }
        out.object("preflight", value);
    } else {
        out.chat(format!("{}: {}", prepared.title, need.words()));
        out.chat(format!("run folder: {}", config.out_root));
    }
}

/// Says what Ctrl-C does.
pub(crate) fn told(out: &Out) -> impl Fn(u32) + Send + Sync + 'static {
    let out = out.clone();
    move |count| {
        if count == 1 {
            out.note("stopping: calls under way are finished and kept; Ctrl-C again stops at once");
        }
    }
}

/// Tells why a run stopped, what helps, what is kept, and how to go on.
pub(crate) fn stopped(halt: Halt, run: &RunRow, roles: &Roles, command: &str) -> Failure {
    let fix = match &halt {
        Halt::Paused(_, cause) => advice(cause, roles),
        _ => None,
    };
    let hint = match &halt {
        Halt::Failed(_) | Halt::NotStored => None,
        // The same command would find the same failures.
        Halt::Paused(_, cause) if wants_new_run(cause) => Some(format!("{} are kept", kept(run))),
        Halt::Paused(..) | Halt::Interrupted => {
            Some(format!("{} are kept; go on with `{command}`", kept(run)))
        }
    };
    Failure {
        fix,
        hint,
        ..Failure::from(halt)
    }
}

/// Says what there is of a run that is not over.
pub(crate) fn kept(run: &RunRow) -> String {
    match run.steps_total {
        Some(total) => format!("{} of {total} steps and all answers so far", run.steps_done),
        None => "all answers so far".to_owned(),
    }
}

/// Shows what a run came to, by its row and its folder.
pub(crate) fn summary(run: &RunRow, folder: &RunFolder, config: &RunConfig, out: &Out) {
    let truncated = run.tokens.map_or(0, |tokens| tokens.truncated_calls);
    match folder.unanswered() {
        Ok(unanswered) => doubts::warn(unanswered.as_ref(), truncated, config, out),
        Err(error) => out.warning("env.out_root", &error.to_string()),
    }
    let lines = headline(run);
    let best = format!("{}/best_skill.md", config.out_root.trim_end_matches('/'));
    if out.json {
        out.object(
            "result",
            json!({"headline": lines, "run": run, "dir": config.out_root, "best_skill": best}),
        );
        return;
    }
    let tone = if run.state == "improved" {
        Tone::Good
    } else {
        Tone::Strong
    };
    out.line(out.paint.of(tone, &lines.first));
    out.line(&lines.second);
    out.line("");
    for line in scores(run) {
        out.line(line);
    }
    out.line("");
    out.line(counts(run));
    if let Some(tokens) = run.tokens {
        out.line(format!(
            "{} calls, {} tokens sent, {} received",
            count(tokens.calls),
            amount(tokens.prompt_tokens),
            amount(tokens.completion_tokens)
        ));
    }
    out.line(format!("best skill: {}", out.paint.of(Tone::Name, &best)));
}

/// The scores of the initial, the best and the last skill.
pub(crate) fn scores(run: &RunRow) -> Vec<String> {
    let row =
        |name: &str, val, test, note: String| vec![name.to_owned(), share(val), share(test), note];
    let gain = run
        .best
        .zip(run.baseline)
        .map(|(best, base)| points(best - base));
    let step = match run.best_step {
        Some(0) => "the initial skill".to_owned(),
        Some(step) => format!("step {step}"),
        None => String::new(),
    };
    let best = [step, gain.unwrap_or_default()].join(", ");
    table(&[
        vec!["skill".to_owned(), "val".to_owned(), "test".to_owned()],
        row("initial", run.baseline, run.test.baseline, String::new()),
        row(
            "best",
            run.best,
            run.test.best,
            best.trim_matches([',', ' ']).to_owned(),
        ),
        row("last", run.kept, run.test.last, String::new()),
    ])
}

/// How many steps ended how.
pub(crate) fn counts(run: &RunRow) -> String {
    let taken = if run.gate {
        "● accepted"
    } else {
        "□ taken without gate"
    };
    format!(
        "{taken} {}   ✕ refused {}   – skipped {}   of {} steps",
        run.accepted,
        run.refused,
        run.skipped,
        number(run.steps_total)
    )
}

#[cfg(test)]
mod tests {
    use skillopt_core::job::FailureClass;

    use super::*;

    #[track_caller]
    fn hint(cause: &str) -> String {
        let halt = Halt::Paused(FailureClass::Provider, cause.to_owned());
        let row = RunRow::default();
        let failure = stopped(halt, &row, &Roles::default(), "skillopt train x.yaml");
        failure.hint.expect("a hint")
    }

    #[test]
    fn a_pause_says_one_way_to_go_on() {
        assert!(hint("it is down").contains("go on with `skillopt train x.yaml`"));
        let anew = "all 2 rollouts of the batch failed; start again with `env.scope: fresh` and \
                    another --out once the cause is gone";
        let said = hint(anew);
        assert!(said.ends_with("are kept"), "{said}");
    }
}
