//! What a sweep file says besides its axes.

use std::collections::BTreeSet;

use super::fields::Reader;
use super::{Arm, Caps, Seed};
use crate::node::{Data, Mapping, Node};
use crate::problem::Problem;
use crate::suggest::nearest;

impl Reader<'_> {
    pub(super) fn seeds(&mut self, map: &Mapping) -> Vec<Seed> {
        let path = "sweep.seeds";
        let items = map
            .get("seeds")
            .map(|node| self.list(path, node))
            .unwrap_or_default();
        let mut seeds: Vec<Seed> = Vec::new();
        for item in items {
            let Some(value) = self.whole(path, &item, 0, i64::MAX.unsigned_abs()) else {
                continue;
            };
            if seeds.iter().any(|seed| seed.value == value) {
                self.problem(
                    path,
                    &item,
                    "is there twice; use `sweep.repeats` to run a cell again",
                );
            }
            seeds.push(Seed {
                value,
                origin: item.origin.clone(),
            });
        }
        seeds
    }

    pub(super) fn arms(&mut self, map: &Mapping) -> Vec<Arm> {
        let path = "sweep.arms";
        let Some(node) = map.get("arms") else {
            return vec![Arm::NoSkill, Arm::StartingSkill];
        };
        let mut arms = Vec::new();
        let mut names = BTreeSet::new();
        for item in self.list(path, node) {
            let arm = match &item.data {
                Data::Map(map) => {
                    for (key, value) in map
                        .iter()
                        .filter(|(key, _)| !["name", "skill"].contains(key))
                    {
                        self.unknown(path, key, value, ["name", "skill"].into_iter());
                    }
                    let name = map
                        .get("name")
                        .and_then(|n| self.text("sweep.arms.name", n));
                    let skill = map
                        .get("skill")
                        .and_then(|n| self.named("sweep.arms.skill", n));
                    match name.zip(skill) {
                        Some((name, skill)) => Arm::Skill { name, skill },
                        None => {
                            self.problem(path, &item, "needs a `name` and a `skill`");
                            continue;
                        }
                    }
                }
                _ => match self.text(path, &item).as_deref() {
                    Some("no_skill") => Arm::NoSkill,
                    Some("starting_skill") => Arm::StartingSkill,
                    Some(other) => {
                        let mut problem = Problem::new(path, &item, "is no arm");
                        problem.allowed = Some(
                            "`no_skill`, `starting_skill`, or `{name: …, skill: PATH}`".to_owned(),
                        );
                        problem.nearest =
                            nearest(other, ["no_skill", "starting_skill"]).map(str::to_owned);
                        self.problems.push(problem);
                        continue;
                    }
                    None => continue,
                },
            };
            if !names.insert(arm.name().to_owned()) {
                self.problem(path, &item, "is there twice; give each arm its own name");
            }
            arms.push(arm);
        }
        if arms.is_empty() && self.problems.is_empty() {
            self.problem(
                path,
                node,
                "is empty; a best skill is compared with at least one arm",
            );
        }
        arms
    }

    pub(super) fn caps(&mut self, map: &Mapping) -> Caps {
        let mut caps = Caps::default();
        let Some(entry) = map
            .get("caps")
            .and_then(|node| self.map("sweep.caps", node))
            .cloned()
        else {
            return caps;
        };
        for (key, node) in entry.iter() {
            let path = format!("sweep.caps.{key}");
            match key {
                "requests" => caps.requests = self.whole(&path, node, 1, i64::MAX.unsigned_abs()),
                "tokens" => caps.tokens = self.whole(&path, node, 1, i64::MAX.unsigned_abs()),
                "dollars" => caps.micro_usd = self.dollars(&path, node),
                _ => {
                    let names = ["requests", "tokens", "dollars"].into_iter();
                    self.unknown("sweep.caps", key, node, names);
                }
            }
        }
        caps
    }

    fn dollars(&mut self, path: &str, node: &Node) -> Option<u64> {
        let value = crate::setting::number(node);
        let Some(value) = value.filter(|x| x.is_finite() && *x > 0.0 && *x <= 1e9) else {
            self.problem(path, node, "is no amount of dollars above 0");
            return None;
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be above 0 and at most 10^15"
        )]
        let micro = (value * 1e6).floor() as u64;
        Some(micro.max(1))
    }

    pub(super) fn correct(&mut self, map: &Mapping) -> bool {
        let Some(node) = map.get("correct") else {
            return false;
        };
        match self.text("sweep.correct", node).as_deref() {
            Some("none") => false,
            Some("family") => true,
            other => {
                let mut problem = Problem::new("sweep.correct", node, "is unknown");
                problem.allowed = Some("`none` or `family`".to_owned());
                problem.nearest =
                    nearest(other.unwrap_or_default(), ["none", "family"]).map(str::to_owned);
                self.problems.push(problem);
                false
            }
        }
    }
}
