//! `skillopt submit SWEEP`: checks every cell, says what it will need, submits, waits.

mod plan;
mod wait;

use std::path::Path;

use serde_json::json;
use skillopt_config::sweep;
use skillopt_core::Hash;
use skillopt_proto::v1::{Cell, ResumeSweepRequest, SubmitSweepRequest, Sweep};

use self::plan::Planned;
use crate::args::SweepArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::marker::{Marker, new_key};
use crate::output::Out;
use crate::output::words::amount;
use crate::remote::{self, Address, Remote};
use skillopt_coordinator::folder::RunFolder;

/// The priority that runs have unless asked for otherwise.
const NORMAL: u32 = 4;
/// Bytes of an upload that is worth a word.
const TOLD_BYTES: u64 = 1 << 20;

pub(super) fn run(args: &SweepArgs, file: &Path, out: &Out) -> Result<Exit, Failure> {
    if args.how.priority != NORMAL {
        return Err(Failure::usage("a sweep has no priority of its own")
            .hint("give it another share with `--weight`"));
    }
    // Before the work of reading the cells.
    let address = if args.dry_run {
        None
    } else {
        Some(Address::of(&args.remote)?)
    };
    let sweep = sweep::load(file).map_err(wrong)?;
    let planned = Planned::new(&sweep, out)?;
    planned.show(args.dry_run, out);
    let Some(address) = address else {
        return Ok(Exit::Done);
    };
    let order = Order {
        planned,
        file: &sweep,
        args,
        address,
    };
    if args.how.wait {
        return wait::wait(&order, out);
    }
    let (sweep, existed) = remote::talk(&order.address, out, async |remote| {
        order.submit(remote, out).await
    })?;
    if out.json {
        out.object(
            "submitted",
            json!({"sweep": sweep.id, "name": sweep.name, "cells": sweep.cells.len(), "existed": existed}),
        );
        return Ok(Exit::Done);
    }
    out.line(&sweep.id);
    out.chat(format!(
        "look at it with `skillopt show {id}`, at its runs with `skillopt runs --sweep {id}`, \
         end it with `skillopt cancel {id}`",
        id = sweep.id
    ));
    Ok(Exit::Done)
}

fn wrong(error: sweep::SweepError) -> Failure {
    match error {
        sweep::SweepError::Load(error) => error.into(),
        sweep::SweepError::Wrong(errors) => errors.into(),
    }
}

/// A sweep that is ready to be sent.
struct Order<'a> {
    planned: Planned,
    file: &'a sweep::Sweep,
    args: &'a SweepArgs,
    address: Address,
}

impl Order<'_> {
    /// Uploads what the cluster lacks and submits, or finds what was submitted before.
    ///
    /// # Errors
    /// Nobody answers, or a refusal. *Cancel safety*: the same call again finds the same sweep.
    async fn submit(&self, remote: &Remote, out: &Out) -> Result<(Sweep, bool), Failure> {
        let mut request = self.request();
        let content = Hash::of(format!("{request:?}").as_bytes()).to_string();
        let folder = self.args.out.as_ref().map(RunFolder::new);
        let known = folder.as_ref().and_then(Marker::read);
        let known = known.filter(|m| m.bundle == content && self.args.how.key.is_none());
        let mut marker = known.unwrap_or_else(|| Marker {
            key: self.args.how.key.clone().unwrap_or_else(new_key),
            bundle: content,
            ..Marker::default()
        });
        remote.places().clone_into(&mut marker.coordinator);
        let keep = |marker: &Marker| -> Result<(), Failure> {
            match &folder {
                Some(folder) => Ok(marker.write(folder)?),
                None => Ok(()),
            }
        };
        // Written before: if this process dies now, the next one submits under the same key.
        keep(&marker)?;
        let sent = remote::upload(remote, &self.planned.blobs()).await?;
        if sent >= TOLD_BYTES {
            out.chat(format!("sent {} bytes", amount(sent)));
        }
        request.client_key.clone_from(&marker.key);
        let answer = remote
            .call(async |clients| clients.sweeps().submit_sweep(request.clone()).await)
            .await?;
        let mut sweep = answer.sweep.unwrap_or_default();
        marker.run.clone_from(&sweep.id);
        keep(&marker)?;
        if answer.existed && sweep.state == "paused" {
            out.chat(format!("sweep {} was paused; it goes on", sweep.id));
            let resume = ResumeSweepRequest {
                id: sweep.id.clone(),
                cap_requests: request.cap_requests,
                cap_tokens: request.cap_tokens,
                cap_micro_usd: request.cap_micro_usd,
            };
            let answer = remote
                .call(async |clients| clients.sweeps().resume_sweep(resume.clone()).await)
                .await?;
            sweep = answer.sweep.unwrap_or(sweep);
        } else {
            let verb = if answer.existed {
                "is there already"
            } else {
                "was submitted"
            };
            out.chat(format!("sweep {} ({}) {verb}", sweep.id, sweep.name));
        }
        Ok((sweep, answer.existed))
    }

    /// The request without its key.
    fn request(&self) -> SubmitSweepRequest {
        let (how, caps) = (&self.args.how, &self.file.caps);
        let names = |axes: &[sweep::Axis]| -> Vec<String> {
            axes.iter().map(|axis| axis.name.clone()).collect()
        };
        let texts = |patterns: &[sweep::Pattern]| -> Vec<String> {
            patterns.iter().map(|p| p.text.clone()).collect()
        };
        let arms: Vec<_> = self
            .planned
            .arms
            .iter()
            .map(|(name, skill)| json!({"name": name, "skill": skill}))
            .collect();
        let spec = json!({
            "models": names(&self.file.models),
            "benchmarks": names(&self.file.benchmarks),
            "harnesses": names(&self.file.harnesses),
            "include": texts(&self.file.include),
            "exclude": texts(&self.file.exclude),
            "seeds": self.file.seeds.iter().map(|seed| seed.value).collect::<Vec<_>>(),
            "repeats": self.file.repeats,
            "arms": arms,
            "correct": if self.file.family { "family" } else { "none" },
        });
        let cell = |cell: &plan::PlannedCell| Cell {
            name: cell.name.clone(),
            model: cell.model.clone(),
            benchmark: cell.benchmark.clone(),
            harness: cell.harness.clone(),
            seed: cell.seed,
            repeat: cell.repeat,
            bundle: cell.bundle.as_bytes().to_vec(),
            run: None,
        };
        SubmitSweepRequest {
            client_key: String::new(),
            name: how.name.clone().unwrap_or_else(|| self.file.name.clone()),
            cells: self.planned.cells.iter().map(cell).collect(),
            spec_json: spec.to_string(),
            transfer: self.file.transfer,
            // The command line's own default is that of the file, too.
            weight: if how.weight == 100 {
                self.file.weight
            } else {
                how.weight
            },
            cap_requests: how.caps.requests.or(caps.requests),
            cap_tokens: how.caps.tokens.or(caps.tokens),
            cap_micro_usd: how.caps.usd.map(|usd| usd.0).or(caps.micro_usd),
        }
    }
}
