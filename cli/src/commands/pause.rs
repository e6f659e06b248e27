//! `skillopt pause`: stops a run or a sweep for now.

use serde_json::json;
use skillopt_proto::v1::{PauseRunRequest, PauseSweepRequest, Run, Sweep};

use crate::args::PauseArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Out;
use crate::remote::{self, run_json, run_state};

pub(crate) fn run(args: &PauseArgs, out: &Out) -> Result<Exit, Failure> {
    let id = &args.id;
    remote::ask(&args.remote, out, async |remote| {
        let asked = PauseRunRequest { id: id.clone() };
        let answer = remote
            .find(async |clients| clients.runs().pause_run(asked.clone()).await)
            .await?;
        if let Some(answer) = answer {
            let run = answer.run.unwrap_or_default();
            if run.state == "running" && !out.json {
                out.line(pausing("run", &run.id));
            } else {
                tell_run(&run, out);
            }
            return Ok(Exit::Done);
        }
        let asked = PauseSweepRequest { id: id.clone() };
        let answer = remote
            .find(async |clients| clients.sweeps().pause_sweep(asked.clone()).await)
            .await?
            .ok_or_else(|| unknown(id))?;
        let sweep = answer.sweep.unwrap_or_default();
        if sweep.state == "running" && !out.json {
            out.line(pausing("sweep", &sweep.id));
        } else {
            tell_sweep(&sweep, out);
        }
        Ok(Exit::Done)
    })
}

fn pausing(what: &str, id: &str) -> String {
    format!("{what} {id} is pausing: calls under way end first")
}

/// There is neither a run nor a sweep of this id.
pub(crate) fn unknown(id: &str) -> Failure {
    Failure::usage(format!("there is no run or sweep `{id}`"))
        .hint("`skillopt runs` lists what there is")
}

/// Says how a run stands now.
pub(crate) fn tell_run(run: &Run, out: &Out) {
    if out.json {
        out.object("run", run_json(run));
        return;
    }
    let state = run_state(run);
    out.line(format!("run {} {state}", run.id));
    if state.starts_with("paused") {
        out.chat(format!(
            "what is paid for is kept; `skillopt resume {}` goes on",
            run.id
        ));
    }
}

/// Says how a sweep stands now.
pub(crate) fn tell_sweep(sweep: &Sweep, out: &Out) {
    if out.json {
        out.object(
            "sweep",
            json!({"id": sweep.id, "name": sweep.name, "state": sweep.state, "cells": sweep.cells.len()}),
        );
        return;
    }
    out.line(format!("sweep {} {}", sweep.id, sweep.state));
    if sweep.state == "paused" {
        out.chat(format!(
            "what is paid for is kept; `skillopt resume {}` goes on",
            sweep.id
        ));
    }
}
