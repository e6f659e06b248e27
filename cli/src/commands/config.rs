//! `skillopt config show` and `check`.

use serde_json::{Value, json};
use skillopt_config::{Role, shown};
use skillopt_coordinator::prepare::prepare;

use crate::args::{ConfigCheckArgs, ConfigShowArgs};
use crate::config_args::{Loaded, check_backends};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Out, Tone};
use crate::preflight::Preflight;

pub(crate) fn show(args: &ConfigShowArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded { config, warnings } = args.config.load_any()?;
    out.warnings(&warnings);
    let values = shown(&config);
    if out.json && !args.origin {
        out.object("config", json!({"config": values}));
        return Ok(Exit::Done);
    }
    for (name, value) in &values {
        let origin = config.origin(name).to_string();
        if out.json {
            out.object(
                "key",
                json!({"key": name, "value": value, "origin": origin}),
            );
        } else if args.origin {
            let line = format!("{name}: {}", yaml(value));
            out.line(format!(
                "{line:<48} {}",
                out.paint.of(Tone::Faint, &format!("# {origin}"))
            ));
        } else {
            out.line(format!("{name}: {}", yaml(value)));
        }
    }
    Ok(Exit::Done)
}

/// JSON is YAML; a plain word needs no quotes to be read by people.
fn yaml(value: &Value) -> String {
    value.to_string()
}

pub(crate) fn check(args: &ConfigCheckArgs, out: &Out) -> Result<Exit, Failure> {
    let Loaded {
        mut config,
        warnings,
    } = args.config.load()?;
    out.warnings(&warnings);
    check_backends(&config, &[Role::Optimizer, Role::Target])?;
    // A ratio split is worked out, and must leave nothing behind.
    let scratch = tempfile::tempdir()?;
    config.out_root = scratch.path().display().to_string();
    let prepared = prepare(&config)?;
    let need = Preflight::new(&prepared, config.max_turns.unwrap_or(1) as u64);
    if out.json {
        out.object("check", json!({"ok": true, "need": need.to_json()}));
    } else {
        out.line(format!("{}: {}", prepared.title, need.words()));
        out.line(out.paint.of(Tone::Good, "the configuration is fine"));
    }
    Ok(Exit::Done)
}
