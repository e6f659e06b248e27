//! `skillopt replay`: runs the loop again from stored answers alone, and compares.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use skillopt_config::{Flat, Origin, RunConfig};
use skillopt_coordinator::Halt;
use skillopt_coordinator::events::Event;
use skillopt_coordinator::folder::{PRIVATE, RunFolder};
use skillopt_coordinator::log::{self, Log};
use skillopt_coordinator::prepare::{Prepared, predictions, prepare};
use skillopt_coordinator::progress::Watcher;
use skillopt_coordinator::session::{Common, Session, Source};
use skillopt_coordinator::timings::Timings;
use skillopt_coordinator::train::train;
use skillopt_queue::sqlite::SqlitePeek;
use skillopt_queue::{MemoryStore, Store};
use skillopt_runtime::{Shutdown, files};

use crate::args::ReplayArgs;
use crate::config_args::resolve;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::Found;
use crate::output::words::plural;
use crate::output::{Out, Tone};
use crate::process;
use crate::status::FILE_MAX;

/// Sizes that `config.json` shows, but nobody sets.
const DERIVED: &[&str] = &["batches_per_epoch", "total_steps", "samples_per_epoch"];
/// The one file that differs between equal runs.
const TIMINGS: &str = "timings.json";
/// Differences that are shown.
const SHOWN_MAX: usize = 20;

/// What a replay found.
struct Comparison {
    events: usize,
    files: usize,
    differences: Vec<String>,
    /// The run had not ended when its answers ran out.
    unfinished: bool,
}

pub(crate) fn run(args: &ReplayArgs, out: &Out) -> Result<Exit, Failure> {
    let found = Found::read(&args.run, args.store.as_deref())?;
    if found.command != "train" {
        return Err(Failure::usage(format!(
            "`{}` holds an evaluation, and `replay` is for trainings",
            args.run.display()
        ))
        .hint("run the same `skillopt eval` again: it answers from the store"));
    }
    let scratch = tempfile::tempdir()?;
    let root = scratch.path().join("run");
    let config = config(&found, &root)?;
    let prepared = prepare(&config).map_err(|e| {
        Failure::usage(e).hint("call `skillopt replay` from the folder where the run was started")
    })?;
    let seen = again(&found, &config, &prepared, &root, out)?;
    Ok(report(&found, &seen, out))
}

/// Reads the configuration that the run wrote down.
fn config(found: &Found, root: &Path) -> Result<RunConfig, Failure> {
    let text = found.text("config.json")?;
    let mut written: Map<String, Value> = serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("`config.json` of the run is damaged: {e}")))?;
    for name in DERIVED {
        written.shift_remove(*name);
    }
    // Nothing is spent here, so caps and prices do not matter.
    written.retain(|name, _| !name.starts_with("budget_"));
    written.insert("out_root".to_owned(), root.display().to_string().into());
    // As if given by hand: nothing is to be replaced by a default or by the environment.
    let mut flat = Flat::from_json(&written, &Origin::Set("config.json".into()));
    // The file is flat, so that keys of the benchmark stand beside unknown ones.
    let rest = std::mem::take(&mut flat.extra);
    for (key, node) in rest.iter() {
        flat.env_extra.insert(key, node.clone());
    }
    Ok(resolve(&flat, &|_| None)?.config)
}

fn again(
    found: &Found,
    config: &RunConfig,
    prepared: &Prepared,
    root: &Path,
    out: &Out,
) -> Result<Comparison, Failure> {
    let store: Arc<dyn Store> = Arc::new(SqlitePeek::open(&found.store)?);
    let fresh: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let folder = RunFolder::new(root);
    let shutdown = Shutdown::new();
    let run = prepared.common.run.clone();
    let session = Session::new(
        Source::Store,
        store,
        folder.clone(),
        predictions(config.predictions),
        Common {
            scope: prepared.scope(config, &found.folder)?,
            ..prepared.common.clone()
        },
        shutdown.clone(),
        Watcher::silent(),
    );
    let log = Log::new(Arc::clone(&fresh), run.clone(), Watcher::silent());
    let timings = Timings::default();
    let work = async {
        let outcome = train(
            &prepared.plan,
            &prepared.config,
            &session,
            &folder,
            &log,
            &timings,
        );
        // Stored answers come at once, so there is nothing to drain.
        let outcome = shutdown.drain.run_until_cancelled(outcome).await;
        let outcome = outcome.unwrap_or(Err(Halt::Interrupted));
        let outcome = outcome.and_then(|ending| session.close().map(|()| ending));
        (outcome, log::read(fresh.as_ref(), &run).await)
    };
    let (outcome, made) = process::block_on(&shutdown, |_| {}, work)?;
    let made = made?;
    let mut differences = identity(found, prepared);
    let was_over = found.events.iter().any(|e| e.kind == "ended");
    match outcome {
        Ok(_) => {}
        Err(Halt::Interrupted) => return Err(Halt::Interrupted.into()),
        // A run that is not over ends where its answers end.
        Err(Halt::NotStored) if !was_over => {}
        Err(halt) => differences.push(halt.to_string()),
    }
    let unfinished = !was_over;
    compare_events(&found.events, &made, unfinished, &mut differences);
    let files = compare_files(found.folder.root(), root, unfinished, &mut differences)?;
    out.chat(format!(
        "{} worked out again",
        plural(made.len() as u64, "event")
    ));
    Ok(Comparison {
        events: made.len(),
        files,
        differences,
        unfinished,
    })
}

/// Compares what the run was begun with and what its folder and data say now.
fn identity(found: &Found, prepared: &Prepared) -> Vec<String> {
    if found.run == prepared.common.run {
        return Vec::new();
    }
    let mut differences: Vec<String> = skillopt_config::differs(&found.facts, &prepared.facts)
        .into_iter()
        .map(|(key, was, is)| format!("`{key}` was {was} when the run was begun, and is {is} now"))
        .collect();
    if differences.is_empty() {
        differences.push("the data, the first skill or the prompts are others now".to_owned());
    }
    differences
}

fn compare_events(old: &[Event], new: &[Event], unfinished: bool, differences: &mut Vec<String>) {
    for (seq, (old, new)) in old.iter().zip(new).enumerate() {
        if old.kind != new.kind {
            differences.push(format!(
                "event {seq} is `{}` in the log, `{}` by its answers",
                old.kind, new.kind
            ));
            return;
        }
        let names: BTreeSet<&String> = old.facts.keys().chain(new.facts.keys()).collect();
        for name in names {
            let (was, is) = (old.facts.get(name), new.facts.get(name));
            if was != is {
                let show = |value: Option<&Value>| {
                    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
                };
                differences.push(format!(
                    "event {seq} (`{}`): `{name}` is {} in the log, {} by its answers",
                    old.kind,
                    show(was),
                    show(is)
                ));
            }
        }
    }
    let enough = if unfinished {
        new.len() >= old.len()
    } else {
        new.len() == old.len()
    };
    if !enough {
        differences.push(format!(
            "the log has {}, its answers give {}",
            plural(old.len() as u64, "event"),
            new.len()
        ));
    }
}

/// Compares every file that the replay wrote, and looks for files that it did not write where it
/// wrote others. Returns how many are equal.
fn compare_files(
    old: &Path,
    new: &Path,
    unfinished: bool,
    differences: &mut Vec<String>,
) -> Result<usize, Failure> {
    let (mut was, mut is) = (BTreeSet::new(), BTreeSet::new());
    list(old, Path::new(""), &mut was)?;
    list(new, Path::new(""), &mut is)?;
    let mut equal = 0;
    for path in &is {
        if !was.contains(path) {
            // A run that was stopped may not have come to write this file.
            if !unfinished {
                differences.push(format!("`{}` is missing", path.display()));
            }
            continue;
        }
        let read = |root: &Path| files::read_limited(&root.join(path), FILE_MAX);
        if read(old)? == read(new)? {
            equal += 1;
        } else if !(unfinished && is_rewritten(path)) {
            differences.push(format!("`{}` differs", path.display()));
        }
    }
    let tops: BTreeSet<_> = is.iter().filter_map(|p| p.components().next()).collect();
    let foreign = was.iter().filter(|p| !is.contains(*p));
    let inside = foreign.filter(|p| p.components().next().is_some_and(|top| tops.contains(&top)));
    for path in inside.filter(|_| !unfinished) {
        differences.push(format!("`{}` is no file of this run", path.display()));
    }
    Ok(equal)
}

/// Files that a run writes again after each step, so that a stopped one may have older ones.
fn is_rewritten(path: &Path) -> bool {
    let at_top = path.components().count() == 1;
    at_top || path.starts_with("skills") || path.starts_with("best_skill")
}

fn list(root: &Path, below: &Path, files: &mut BTreeSet<PathBuf>) -> Result<(), Failure> {
    // Run folders are a few levels deep; the stack holds each folder once.
    let mut folders = vec![below.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if path == Path::new(PRIVATE) || path == Path::new(TIMINGS) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(())
}

fn report(found: &Found, seen: &Comparison, out: &Out) -> Exit {
    let agrees = seen.differences.is_empty();
    let exit = if agrees { Exit::Done } else { Exit::Unexpected };
    if out.json {
        out.object(
            "replay",
            json!({
                "dir": found.folder.root(),
                "agrees": agrees,
                "finished": !seen.unfinished,
                "events": seen.events,
                "files_equal": seen.files,
                "differences": seen.differences,
            }),
        );
        return exit;
    }
    for difference in seen.differences.iter().take(SHOWN_MAX) {
        out.line(format!("{} {difference}", out.paint.of(Tone::Bad, "✕")));
    }
    if seen.differences.len() > SHOWN_MAX {
        out.line(format!("… and {} more", seen.differences.len() - SHOWN_MAX));
    }
    let what = format!(
        "{} and {}",
        plural(seen.events as u64, "event"),
        plural(seen.files as u64, "file")
    );
    if !agrees {
        out.line(format!(
            "{}: {} where the run and its answers part ways",
            out.paint.of(Tone::Bad, "does not agree"),
            plural(seen.differences.len() as u64, "place")
        ));
    } else if seen.unfinished {
        out.line(format!(
            "{}: {what} follow from the stored answers; the run is not over",
            out.paint.of(Tone::Good, "agrees so far")
        ));
    } else {
        out.line(format!(
            "{}: {what} follow from the stored answers",
            out.paint.of(Tone::Good, "agrees")
        ));
    }
    exit
}
