//! `skillopt submit`: gives a cluster a training, an evaluation or a sweep.
//!
//! All that a local run checks is checked before anything is sent. With `--wait` the command looks
//! and ends like its local twin, and leaves the same folder.

mod order;
mod send;
mod sweep;
mod wait;

use std::path::Path;

use skillopt_config::{Role, RunConfig};
use skillopt_coordinator::bundle::What;
use skillopt_coordinator::prepare::Prepared;

use crate::args::{SubmitArgs, SubmitCommand, SubmitEvalArgs, SubmitTrainArgs, SweepArgs};
use crate::config_args::{Loaded, check_backends};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::models;
use crate::output::Out;

use self::order::Order;
use super::{eval, train};

/// Largest file that is looked at for what it is.
const FILE_MAX: u64 = 4 << 20;

pub(crate) fn run(args: &SubmitArgs, out: &Out) -> Result<Exit, Failure> {
    match &args.what {
        Some(SubmitCommand::Train(args)) => submit_train(args, out),
        Some(SubmitCommand::Eval(args)) => submit_eval(args, out),
        Some(SubmitCommand::Sweep(args)) => submit_sweep(args, out),
        None => submit_sweep(&args.sweep, out),
    }
}

fn submit_train(args: &SubmitTrainArgs, out: &Out) -> Result<Exit, Failure> {
    let file = args.config.path();
    let Loaded { config, warnings } =
        args.config
            .load()
            .map_err(|failure| match file.filter(|file| is_sweep(file)) {
                Some(file) => failure.hint(format!(
                    "this is a sweep file: `skillopt submit {}`",
                    file.display()
                )),
                None => failure,
            })?;
    out.warnings(&warnings);
    check(&config, &[Role::Optimizer, Role::Target])?;
    let folder = format!("skillopt_{}_{}", config.env, config.optimizer_model);
    let order = Order::new(
        What::Train,
        config,
        &folder,
        file,
        &args.how,
        &args.remote,
        out,
    )?;
    if !args.how.wait {
        return send::and_leave(&order, out);
    }
    let show = |prepared: &Prepared| train::preflight(&order.config, prepared, out);
    let view = wait::wait(&order, show, out)?;
    train::summary(&view.run, &order.folder(), &order.config, out);
    let nothing = view.run.accepted == 0;
    Ok(if args.exit_code && nothing {
        Exit::NothingAccepted
    } else {
        Exit::Done
    })
}

fn submit_eval(args: &SubmitEvalArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded {
        mut config,
        warnings,
    } = args.config.load()?;
    out.warnings(&warnings);
    check(&config, &[Role::Target])?;
    let evaluation = eval::evaluation(&args.what)?;
    evaluation.adapt(&mut config);
    let folder = format!("eval_{}_{}", config.env, config.target_model);
    let file = args.config.path();
    let what = What::Evaluate(evaluation.clone());
    let order = Order::new(what, config, &folder, file, &args.how, &args.remote, out)?;
    if !args.how.wait {
        return send::and_leave(&order, out);
    }
    let show = |prepared: &Prepared| {
        let items = evaluation.items(&order.config, prepared).len() as u64;
        eval::preflight(&order.config, prepared, items, out);
    };
    let view = wait::wait(&order, show, out)?;
    let row = view.evaluation.unwrap_or_default();
    let summary = order.json("eval_summary.json")?;
    eval::summary(summary, row.tokens.unwrap_or_default(), &order.config, out);
    Ok(Exit::Done)
}

fn submit_sweep(args: &SweepArgs, out: &Out) -> Result<Exit, Failure> {
    let file = args.file.as_deref().unwrap_or(Path::new(""));
    if !file.exists() {
        return Err(no_sweep(file));
    }
    if file.is_dir() {
        let shown = file.display();
        return Err(
            Failure::usage(format!("`{shown}` is a folder, not a sweep file"))
                .hint("name the file in it, as in `skillopt submit configs/sweeps/mini.yaml`"),
        );
    }
    sweep::run(args, file, out).map_err(|failure| {
        if failure.exit == Exit::Usage && !is_sweep(file) {
            failure.hint(format!(
                "it has no section `sweep`; one training is submitted with \
                 `skillopt submit train {}`",
                file.display()
            ))
        } else {
            failure
        }
    })
}

/// Refuses models that no worker could call, as a local run would.
fn check(config: &RunConfig, roles: &[Role]) -> Result<(), Failure> {
    check_backends(config, roles)?;
    models::check_agent(config).map_err(Failure::usage)
}

/// Tells whether a file has a section `sweep`; it may be wrong otherwise.
fn is_sweep(file: &Path) -> bool {
    let text = skillopt_runtime::files::read_limited(file, FILE_MAX).unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .any(|line| line.starts_with("sweep:") || line.trim_start().starts_with("\"sweep\""))
}

/// Says what was meant by `submit trian CONFIG`, whose parts make no sense as a sweep.
pub(crate) fn mistyped(args: impl Iterator<Item = String>) -> Option<Failure> {
    let mut words = args.filter(|arg| !arg.starts_with('-'));
    words.next().filter(|word| word == "submit")?;
    let word = words.next()?;
    let known = ["train", "eval", "sweep"];
    if known.contains(&word.as_str()) || Path::new(&word).exists() {
        return None;
    }
    let config = words.next()?;
    let meant = skillopt_config::suggest::nearest(&word, known)?;
    Some(
        Failure::usage(format!("`submit` has no command `{word}`"))
            .hint(format!("did you mean `skillopt submit {meant} {config}`?")),
    )
}

/// Says that a file is not there, and what was probably meant: `skillopt submit trian my.yaml`.
pub(crate) fn no_sweep(file: &Path) -> Failure {
    let name = file.display().to_string();
    let failure = Failure::usage(format!("the sweep file `{name}` does not exist"));
    match skillopt_config::suggest::nearest(&name, ["train", "eval", "sweep"]) {
        Some(meant) => failure.hint(format!("did you mean `skillopt submit {meant} CONFIG`?")),
        None => failure.hint("`skillopt submit train CONFIG` submits one training"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_told_from_a_sweep() {
        let hint = |line: &str| {
            let failure = mistyped(line.split(' ').map(str::to_owned));
            failure.and_then(|failure| failure.hint)
        };
        assert_eq!(
            hint("submit trian my.yaml --wait").as_deref(),
            Some("did you mean `skillopt submit train my.yaml`?")
        );
        for line in ["submit train my.yaml", "submit sweep.yaml", "watch trian x"] {
            assert_eq!(hint(line), None, "{line}");
        }
    }

    #[test]
    fn sweep_files_are_known_by_their_section() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        for (text, want) in [
            ("sweep:\n  seeds: [1]\n", true),
            ("train:\n  sweep: 1\n", false),
            ("{\n  \"sweep\": {}}", true),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(is_sweep(&file), want, "{text}");
        }
    }
}
