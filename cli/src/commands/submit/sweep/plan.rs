//! Reads and packs every cell before anything is sent, and says what the sweep will need.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::{Value, json};
use skillopt_config::sweep::{Arm, CellConfig, Sweep};
use skillopt_config::{Problem, Role, RunConfig, Scope};
use skillopt_coordinator::bundle::{self, What};
use skillopt_coordinator::prepare::Prepared;
use skillopt_coordinator::sweep::repeat;
use skillopt_coordinator::{inputs, read_model};
use skillopt_core::Hash;
use skillopt_core::job::{Key, Price};
use skillopt_core::skill::Folder;

use crate::config_args::{Loaded, resolve};
use crate::exit::Exit;
use crate::failure::{Failure, Wrong};
use crate::output::Out;
use crate::output::words::{amount, count, plural};
use crate::preflight::Preflight;

/// Name of the folder in configurations that have none on this machine.
const NO_FOLDER: &str = "submitted";

/// A cell that can be run.
pub(super) struct PlannedCell {
    pub(super) name: String,
    pub(super) model: String,
    pub(super) benchmark: String,
    pub(super) harness: String,
    pub(super) seed: u64,
    pub(super) repeat: u32,
    pub(super) bundle: Hash,
    need: Preflight,
    prices: [Option<Price>; 2],
    /// Calls of one skill on its test items.
    test_calls: u64,
    first: Hash,
}

/// A sweep of which every cell can be run.
pub(super) struct Planned {
    name: String,
    pub(super) cells: Vec<PlannedCell>,
    /// Names of the arms; the address of the skill, unless it is each cell's own.
    pub(super) arms: Vec<(String, Option<Hash>)>,
    blobs: BTreeMap<Hash, Bytes>,
    transfer: bool,
    shape: String,
    /// Rollouts of starting skills that cells ask for, and the different ones among them.
    starts: [u64; 2],
}

impl Planned {
    /// Reads and packs all cells.
    ///
    /// # Errors
    /// All cells that cannot be run, each with what is wrong.
    pub(super) fn new(sweep: &Sweep, out: &Out) -> Result<Self, Failure> {
        let cells = sweep.expand().map_err(super::wrong)?;
        let mut planned = Self {
            name: sweep.name.clone(),
            cells: Vec::new(),
            arms: Vec::new(),
            blobs: BTreeMap::new(),
            transfer: sweep.transfer,
            shape: shape(sweep),
            starts: [0; 2],
        };
        let mut faults = Faults::default();
        planned.read_arms(sweep, &mut faults);
        let mut keys: BTreeSet<Key> = BTreeSet::new();
        let mut told = BTreeSet::new();
        for cell in cells {
            match planned.cell(&cell, &mut keys) {
                Ok(warnings) => {
                    // What one cell warns of, the others do too.
                    let new = |w: &Problem| told.insert(w.to_string());
                    out.warnings(&warnings.into_iter().filter(new).collect::<Vec<_>>());
                }
                Err(failure) => faults.add(&cell.name, failure),
            }
        }
        planned.starts[1] = keys.len() as u64;
        faults.result()?;
        Ok(planned)
    }

    fn read_arms(&mut self, sweep: &Sweep, faults: &mut Faults) {
        for arm in &sweep.arms {
            let skill = match arm {
                Arm::StartingSkill => None,
                Arm::NoSkill => Some(Folder::default()),
                Arm::Skill { name, skill } => {
                    match inputs::skill(&skill.path.to_string_lossy(), false) {
                        Ok(folder) => Some(folder),
                        Err(error) => {
                            let reason = format!("cannot be used: {error}");
                            let problem =
                                Problem::at(format!("sweep.arms: {name}"), &skill.origin, reason);
                            faults.own.push(Wrong::from(&problem));
                            continue;
                        }
                    }
                }
            };
            let hash = skill.map(|folder| self.keep(Bytes::from(folder.encode())));
            self.arms.push((arm.name().to_owned(), hash));
        }
    }

    fn keep(&mut self, blob: Bytes) -> Hash {
        let hash = Hash::of(&blob);
        self.blobs.insert(hash, blob);
        hash
    }

    fn cell(
        &mut self,
        cell: &CellConfig,
        keys: &mut BTreeSet<Key>,
    ) -> Result<Vec<Problem>, Failure> {
        let Loaded {
            mut config,
            warnings,
        } = resolve(&cell.flat, &|name| std::env::var(name).ok())?;
        super::super::check(&config, &[Role::Optimizer, Role::Target])?;
        check(&config)?;
        repeat::apart(&mut config, cell.repeat);
        NO_FOLDER.clone_into(&mut config.out_root);
        let packed = bundle::pack(&config, &What::Train)?;
        let prepared = &packed.prepared;
        let first = prepared.plan.initial.hash();
        let starts = starts(prepared, first);
        self.starts[0] += starts.len() as u64;
        keys.extend(starts);
        let turns = config.max_turns.unwrap_or(1) as u64;
        let payers = [
            &prepared.common.payers.target,
            &prepared.common.payers.optimizer,
        ];
        self.cells.push(PlannedCell {
            name: cell.name.clone(),
            model: cell.model.clone(),
            benchmark: cell.benchmark.clone(),
            harness: cell.harness.clone(),
            seed: config.seed,
            repeat: cell.repeat,
            bundle: packed.root,
            need: Preflight::new(prepared, turns),
            prices: payers.map(|payer| payer.as_ref().and_then(|payer| payer.price)),
            test_calls: prepared.plan.scored_items().len() as u64 * turns,
            first,
        });
        for blob in packed.blobs {
            self.keep(blob);
        }
        Ok(warnings)
    }

    /// Returns everything that has to be in the cluster.
    pub(super) fn blobs(&self) -> Vec<Bytes> {
        self.blobs.values().cloned().collect()
    }

    fn calls(&self) -> [u64; 2] {
        self.cells.iter().fold([0; 2], |sum, cell| {
            let [target, optimizer] = cell.need.calls();
            [sum[0] + target, sum[1] + optimizer]
        })
    }

    /// Most calls for further arms.
    fn arm_calls(&self) -> u64 {
        let skills = self.arms.iter().filter_map(|(_, skill)| *skill);
        skills
            .map(|skill| {
                let others = self.cells.iter().filter(|cell| cell.first != skill);
                others.map(|cell| cell.test_calls).sum::<u64>()
            })
            .sum()
    }

    /// Most calls for trying skills in other cells.
    fn transfer_calls(&self) -> u64 {
        if !self.transfer {
            return 0;
        }
        let kin = |to: &PlannedCell| {
            let same = self.cells.iter().filter(|from| {
                (&from.benchmark, from.seed, from.repeat) == (&to.benchmark, to.seed, to.repeat)
            });
            (same.count() as u64 - 1) * to.test_calls
        };
        self.cells.iter().map(kin).sum()
    }

    fn micro_usd(&self) -> Option<u64> {
        let costs = self
            .cells
            .iter()
            .map(|cell| cell.need.micro_usd(cell.prices));
        costs.sum()
    }

    fn tokens(&self) -> u64 {
        self.cells.iter().map(|cell| cell.need.tokens()).sum()
    }

    /// Says what the sweep will need; for a dry run that is what was asked for.
    pub(super) fn show(&self, is_dry_run: bool, out: &Out) {
        if out.json {
            return out.object("plan", self.to_json());
        }
        for line in self.words() {
            if is_dry_run {
                out.line(line);
            } else {
                out.chat(line);
            }
        }
    }

    fn words(&self) -> Vec<String> {
        let [target, optimizer] = self.calls();
        let price = match self.usd() {
            Some(usd) => format!("about {}", read_model::money(Some(usd))),
            None => read_model::money(None),
        };
        let [asked, different] = self.starts;
        let arms: Vec<&str> = self.arms.iter().map(|(name, _)| name.as_str()).collect();
        let mut lines = vec![
            format!(
                "sweep {}: {} ({})",
                self.name,
                plural(self.cells.len() as u64, "cell"),
                self.shape
            ),
            format!(
                "at most {} target and {} optimizer calls, about {} tokens, {price}",
                count(target),
                count(optimizer),
                amount(self.tokens()),
            ),
            format!(
                "{} of {} rollouts of starting skills are equal to others and made once; more may be \
                 answered by what the cluster has",
                count(asked - different),
                count(asked)
            ),
            format!(
                "compared with {}: at most {} more",
                arms.join(", "),
                plural(self.arm_calls(), "call")
            ),
        ];
        if self.transfer {
            lines.push(format!(
                "skills tried in other cells: at most {} more",
                plural(self.transfer_calls(), "call")
            ));
        }
        lines
    }

    fn usd(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        self.micro_usd().map(|micro| micro as f64 / 1e6)
    }

    fn to_json(&self) -> Value {
        let [target, optimizer] = self.calls();
        let [asked, different] = self.starts;
        let usd = self.usd();
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|cell| {
                let mut value = cell.need.to_json();
                value["cell"] = cell.name.clone().into();
                value["bundle"] = cell.bundle.to_string().into();
                value
            })
            .collect();
        json!({
            "name": self.name,
            "cells": cells,
            "target_calls_max": target,
            "optimizer_calls_max": optimizer,
            "arm_calls_max": self.arm_calls(),
            "transfer_calls_max": self.transfer_calls(),
            "starting_rollouts": asked,
            "starting_rollouts_shared": asked - different,
            "tokens_about": self.tokens(),
            "cost_usd_about": usd,
            "cost_usd_missing_reason": usd.is_none().then_some("price unknown"),
        })
    }
}

/// Refuses what a sweep cannot compare.
fn check(config: &RunConfig) -> Result<(), Failure> {
    let mut problems = Vec::new();
    if !config.eval_test {
        let reason = "is off, but cells of a sweep are compared on the test split; set it to true";
        let origin = config.origin("eval_test");
        problems.push(Problem::at("evaluation.eval_test", origin, reason));
    }
    if config.scope == Scope::Fresh {
        let reason = "is `fresh`, but answers of a sweep must be found again; use `run`, or \
                      `sweep.repeats` for answers of their own";
        problems.push(Problem::at("env.scope", config.origin("scope"), reason));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(skillopt_config::Errors(problems).into())
}

/// Keys of the rollouts of the starting skill on the val and the test items.
fn starts(prepared: &Prepared, first: Hash) -> Vec<Key> {
    let plan = &prepared.plan;
    let items = plan.gate_items().into_iter().chain(plan.scored_items());
    items
        .map(|sample| prepared.common.rollout_job(sample, first, 0).key())
        .collect()
}

/// Says how many of what there are.
fn shape(sweep: &Sweep) -> String {
    let mut parts = vec![
        plural(sweep.models.len() as u64, "model"),
        plural(sweep.benchmarks.len() as u64, "benchmark"),
        match sweep.harnesses.len() {
            1 => "1 harness".to_owned(),
            n => format!("{n} harnesses"),
        },
    ];
    if sweep.seeds.len() > 1 {
        parts.push(plural(sweep.seeds.len() as u64, "seed"));
    }
    if sweep.repeats > 1 {
        parts.push(plural(u64::from(sweep.repeats), "repeat"));
    }
    parts.join(" × ")
}

/// What is wrong, with the cells that it keeps from running.
#[derive(Default)]
struct Faults {
    own: Vec<Wrong>,
    by_cell: Vec<(Wrong, Vec<String>)>,
    hints: BTreeSet<String>,
}

impl Faults {
    fn add(&mut self, cell: &str, failure: Failure) {
        self.hints.extend(failure.hint);
        for wrong in failure.errors {
            let same = |(known, _): &&mut (Wrong, Vec<String>)| {
                known.message == wrong.message && known.place == wrong.place
            };
            match self.by_cell.iter_mut().find(same) {
                Some((_, cells)) => cells.push(cell.to_owned()),
                None => self.by_cell.push((wrong, vec![cell.to_owned()])),
            }
        }
    }

    fn result(self) -> Result<(), Failure> {
        if self.own.is_empty() && self.by_cell.is_empty() {
            return Ok(());
        }
        let named = self.by_cell.into_iter().map(|(wrong, cells)| {
            let noun = if cells.len() == 1 { "cell" } else { "cells" };
            let message = format!("{noun} {}: {}", cells.join(", "), wrong.message);
            Wrong { message, ..wrong }
        });
        let hints: Vec<String> = self.hints.into_iter().collect();
        Err(Failure {
            exit: Exit::Usage,
            errors: self.own.into_iter().chain(named).collect(),
            fix: None,
            hint: (!hints.is_empty()).then(|| hints.join("; ")),
        })
    }
}
