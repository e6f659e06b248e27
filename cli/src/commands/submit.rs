//! `skillopt submit`: gives a cluster a training, an evaluation or a sweep.
//!
//! All that a local run checks is checked before anything is sent. With `--wait` the command looks
//! and ends like its local twin, and leaves the same folder.

mod order;
mod send;
mod sweep;
mod wait;

use std::path::Path;

use skillopt_config::Role;
use skillopt_coordinator::bundle::What;
use skillopt_coordinator::prepare::Prepared;

use crate::args::{SubmitArgs, SubmitCommand, SubmitEvalArgs, SubmitTrainArgs, SweepArgs};
use crate::config_args::{Loaded, check_backends};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;

use self::order::Order;
use super::{eval, train};

pub(crate) fn run(args: &SubmitArgs, out: &Out) -> Result<Exit, Failure> {
    match &args.what {
        Some(SubmitCommand::Train(args)) => submit_train(args, out),
        Some(SubmitCommand::Eval(args)) => submit_eval(args, out),
        None => submit_sweep(&args.sweep, out),
    }
}

fn submit_train(args: &SubmitTrainArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded { config, warnings } = args.train.config.load()?;
    out.warnings(&warnings);
    check_backends(&config, &[Role::Optimizer, Role::Target])?;
    let folder = format!("skillopt_{}_{}", config.env, config.optimizer_model);
    let file = args.train.config.path();
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
    train::summary(&view.run, &order.config, out);
    let nothing = view.run.accepted == 0;
    Ok(if args.train.exit_code && nothing {
        Exit::NothingAccepted
    } else {
        Exit::Done
    })
}

fn submit_eval(args: &SubmitEvalArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded {
        mut config,
        warnings,
    } = args.eval.config.load()?;
    out.warnings(&warnings);
    check_backends(&config, &[Role::Target])?;
    let evaluation = eval::evaluation(&args.eval)?;
    evaluation.adapt(&mut config);
    let folder = format!("eval_{}_{}", config.env, config.target_model);
    let file = args.eval.config.path();
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
    sweep::run(args, file, out)
}

/// Says that a file is not there, and what was probably meant: `skillopt submit trian my.yaml`.
pub(crate) fn no_sweep(file: &Path) -> Failure {
    let name = file.display().to_string();
    let failure = Failure::usage(format!("the sweep file `{name}` does not exist"));
    match skillopt_config::suggest::nearest(&name, ["train", "eval"]) {
        Some(meant) => failure.hint(format!("did you mean `skillopt submit {meant} CONFIG`?")),
        None => failure.hint("`skillopt submit train CONFIG` submits one training"),
    }
}
