//! `skillopt demo`: a whole training on made-up data, against a model served on loopback.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use skillopt_coordinator::read_model::RunRow;
use skillopt_runtime::files;
use skillopt_sim::server;
use skillopt_sim::{Settings, SimulatedModel, Sizes, generate};

use crate::args::DemoArgs;
use crate::config_args::resolve;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::local::Local;
use crate::models::Tape;
use crate::output::{Out, Tone};

use super::{show, train};

/// Seed of the data and of the simulated model.
const SEED: u64 = 42;
const SIZES: Sizes = Sizes {
    train: 160,
    val: 120,
    test: 300,
};
/// Folders `outputs/demo-N` that are tried.
const FOLDERS_MAX: u32 = 10_000;

pub(crate) fn run(args: &DemoArgs, out: &Out) -> Result<Exit, Failure> {
    let dir = folder(args.out.as_deref())?;
    let file = dir.join("config.yaml");
    generate(&dir.join("data"), SEED, SIZES)?;
    files::write_atomic(&file, config(&dir).as_bytes())?;
    let settings = Settings::from_pairs(["latency=fixed:20"])?;
    let model = Arc::new(SimulatedModel::new(settings));
    // The address must be known before the configuration is read; the server starts with the run.
    let socket = std::net::TcpListener::bind(server::DEFAULT_LISTEN)?;
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    let serve = async move {
        if let Ok(listener) = tokio::net::TcpListener::from_std(socket) {
            server::serve(listener, model, std::future::pending()).await;
        }
    };
    let mut flat = skillopt_config::load(&file)?;
    for set in [
        "model.backend=openai_compatible".to_owned(),
        format!("model.openai_compatible_base_url=http://{address}/v1"),
    ] {
        flat.set(&set)?;
    }
    let config = resolve(&flat, &|_| None)?.config;
    train::check(&config, &Tape::Off)?;
    let prepared = train::prepared(&config)?;
    out.chat(format!(
        "a simulated model answers on http://{address}; nothing leaves this machine"
    ));
    let local = Local::open(&config, &prepared, &Tape::Off)?;
    let row = train::train(&config, &prepared, &local, out, "skillopt demo", serve).map_err(
        |failure| {
            // The address is another one next time, so that this very run cannot go on.
            let again = failure
                .hint
                .as_ref()
                .map(|_| "`skillopt demo` starts a new one".to_owned());
            Failure {
                hint: again,
                ..failure
            }
        },
    )?;
    end(&row, Path::new(&config.out_root), &file, out)?;
    Ok(Exit::Done)
}

/// Takes the folder that was asked for, or the first `outputs/demo…` that is free.
fn folder(asked: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(dir) = asked {
        return if dir.exists() && std::fs::read_dir(dir)?.next().is_some() {
            Err(Failure::usage(format!("`{}` is not empty", dir.display()))
                .hint("the demo wants a folder of its own; choose another --out"))
        } else {
            Ok(dir.to_owned())
        };
    }
    let name = |n: u32| match n {
        1 => PathBuf::from("outputs/demo"),
        n => PathBuf::from(format!("outputs/demo-{n}")),
    };
    (1..=FOLDERS_MAX)
        .map(name)
        .find(|dir| !dir.exists())
        .ok_or_else(|| {
            Failure::usage("`outputs` is full of demos").hint("choose a folder with --out")
        })
}

/// The demo's configuration, which also works by itself with the in-process model.
fn config(dir: &Path) -> String {
    let path =
        |name: &str| serde_json::Value::from(dir.join(name).display().to_string()).to_string();
    format!(
        "# Written by `skillopt demo`. Try: skillopt train THIS_FILE --out outputs/mine --edit_budget 8\n\
         model:\n  backend: simulated\n  optimizer: sim-optimizer\n  target: sim-target\n\n\
         train:\n  num_epochs: 2\n  batch_size: 40\n  seed: {SEED}\n\n\
         gradient:\n  minibatch_size: 8\n\n\
         optimizer:\n  learning_rate: 4\n  lr_scheduler: cosine\n  use_slow_update: true\n  use_meta_skill: true\n\n\
         env:\n  name: searchqa\n  split_mode: split_dir\n  split_dir: {}\n  out_root: {}\n  workers: 32\n",
        path("data"),
        path("run"),
    )
}

/// Shows what was learned, and what to do next.
fn end(row: &RunRow, run: &Path, file: &Path, out: &Out) -> Result<(), Failure> {
    if out.json {
        return Ok(());
    }
    out.line("");
    out.line(out.paint.of(Tone::Strong, "accepted edits"));
    for line in show::changes(run, 0, row.best_step.unwrap_or(0), out.paint)? {
        out.line(line);
    }
    out.line("");
    out.line(format!(
        "steps and decisions: skillopt show {}",
        run.display()
    ));
    out.line(format!(
        "check every number:  skillopt replay {}",
        run.display()
    ));
    out.line(format!(
        "train it yourself:   skillopt train {} --out outputs/mine",
        file.display()
    ));
    Ok(())
}
