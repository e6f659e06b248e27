//! From a sweep to the configurations of its cells.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Axis, CELLS_MAX, Named, Seed, Sweep, SweepError};
use crate::flat::Flat;
use crate::load::{self, LoadError};
use crate::node::{Data, Mapping, Node, Origin};
use crate::problem::{Errors, Problem};

/// A cell before its configuration is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct CellConfig {
    /// `MODEL/BENCHMARK/HARNESS`, with `#SEED` if the sweep lists seeds, `@REPEAT` if it repeats.
    pub name: String,
    /// Name of the model in the sweep.
    pub model: String,
    /// Name of the benchmark in the sweep.
    pub benchmark: String,
    /// Name of the harness in the sweep.
    pub harness: String,
    /// The seed, if the sweep lists seeds.
    pub seed: Option<u64>,
    /// From 0.
    pub repeat: u32,
    /// Everything it is told.
    pub flat: Flat,
}

impl Sweep {
    /// Makes the cells: models first, then benchmarks, harnesses, seeds and repeats, each in the
    /// order of the file.
    ///
    /// # Errors
    /// A configuration cannot be read, a pattern matches nothing, or there are no cells or more
    /// than [`CELLS_MAX`].
    pub fn expand(&self) -> Result<Vec<CellConfig>, SweepError> {
        let bases = self.bases()?;
        let seeds: Vec<Option<&Seed>> = match self.seeds.as_slice() {
            [] => vec![None],
            seeds => seeds.iter().map(Some).collect(),
        };
        let mut all = Vec::new();
        let mut cells = Vec::new();
        for model in &self.models {
            for benchmark in &self.benchmarks {
                for harness in &self.harnesses {
                    for seed in &seeds {
                        for repeat in 0..self.repeats {
                            let name = self.name_of([model, benchmark, harness], *seed, repeat);
                            if self.wants(&name) {
                                if cells.len() == CELLS_MAX {
                                    return Err(self.too_many());
                                }
                                let axes = [model, benchmark, harness];
                                let base = self
                                    .base_of(benchmark)
                                    .and_then(|n| bases.get(n.path.as_path()));
                                let base = base.cloned().unwrap_or_default();
                                cells.push(self.cell(&name, axes, *seed, repeat, base));
                            }
                            all.push(name);
                        }
                    }
                }
            }
        }
        self.check_patterns(&all, &cells)?;
        Ok(cells)
    }

    fn bases(&self) -> Result<BTreeMap<&Path, Flat>, SweepError> {
        let mut bases = BTreeMap::new();
        for named in self.benchmarks.iter().filter_map(|axis| self.base_of(axis)) {
            if !bases.contains_key(named.path.as_path()) {
                let flat = load::load(&named.path).map_err(|e| at(e, named))?;
                bases.insert(named.path.as_path(), flat);
            }
        }
        Ok(bases)
    }

    fn base_of<'a>(&'a self, benchmark: &'a Axis) -> Option<&'a Named> {
        benchmark.config.as_ref().or(self.base.as_ref())
    }

    fn name_of(&self, axes: [&Axis; 3], seed: Option<&Seed>, repeat: u32) -> String {
        let mut name = axes.map(|axis| axis.name.as_str()).join("/");
        if let Some(seed) = seed {
            name.push_str(&format!("#{}", seed.value));
        }
        if self.repeats > 1 {
            name.push_str(&format!("@{}", repeat + 1));
        }
        name
    }

    fn wants(&self, name: &str) -> bool {
        let is_in = self.include.is_empty() || self.include.iter().any(|p| p.matches(name));
        is_in && !self.exclude.iter().any(|p| p.matches(name))
    }

    fn cell(
        &self,
        name: &str,
        [model, benchmark, harness]: [&Axis; 3],
        seed: Option<&Seed>,
        repeat: u32,
        base: Flat,
    ) -> CellConfig {
        let mut layers = vec![
            self.shared.clone(),
            named_by(benchmark, "env", "name", benchmark.config.is_none()),
            named_by(model, "model", "target", true),
            named_by(harness, "model", "target_backend", harness.name != "chat"),
        ];
        let overrides = self.cells.iter().filter(|o| o.pattern.matches(name));
        layers.extend(overrides.map(|o| o.sections.clone()));
        layers.extend(seed.map(|seed| {
            let value = Data::Int(i64::try_from(seed.value).unwrap_or(i64::MAX));
            section("train", "seed", Node::new(value, seed.origin.clone()))
        }));
        let flat = layers
            .into_iter()
            .map(Flat::from_layer)
            .fold(base, Flat::overlaid);
        CellConfig {
            name: name.to_owned(),
            model: model.name.clone(),
            benchmark: benchmark.name.clone(),
            harness: harness.name.clone(),
            seed: seed.map(|seed| seed.value),
            repeat,
            flat,
        }
    }

    /// A pattern without a cell is a typing error, and an empty sweep is no sweep.
    fn check_patterns(&self, all: &[String], cells: &[CellConfig]) -> Result<(), SweepError> {
        let lists = [
            ("sweep.include", self.include.iter().collect::<Vec<_>>()),
            ("sweep.exclude", self.exclude.iter().collect()),
            (
                "sweep.cells.match",
                self.cells.iter().map(|o| &o.pattern).collect(),
            ),
        ];
        let mut problems = Vec::new();
        for (key, patterns) in lists {
            for pattern in patterns {
                if !all.iter().any(|name| pattern.matches(name)) {
                    let mut problem = Problem::at(key, &pattern.origin, "matches no cell");
                    problem.value = Some(format!("{:?}", pattern.text));
                    problem.nearest =
                        crate::suggest::nearest(&pattern.text, all.iter().map(String::as_str))
                            .map(str::to_owned);
                    problems.push(problem);
                }
            }
        }
        if cells.is_empty() && problems.is_empty() {
            let origin = self
                .models
                .first()
                .map_or(Origin::Default, |a| a.origin.clone());
            let reason = "leaves no cell; look at `sweep.include` and `sweep.exclude`";
            problems.push(Problem::at("sweep", &origin, reason));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Errors(problems).into())
        }
    }

    fn too_many(&self) -> SweepError {
        let origin = self
            .models
            .first()
            .map_or(Origin::Default, |a| a.origin.clone());
        let reason = format!("has more than {CELLS_MAX} cells; make it several sweeps");
        Errors(vec![Problem::at("sweep", &origin, reason)]).into()
    }
}

/// Returns an axis's sections, with its name as the value of a key that they leave open.
fn named_by(axis: &Axis, section_name: &str, key: &str, is_wanted: bool) -> Mapping {
    let mut sections = axis.sections.clone();
    if !is_wanted {
        return sections;
    }
    let name = Node::text(axis.name.clone(), axis.origin.clone());
    match sections.get_mut(section_name).map(|node| &mut node.data) {
        Some(Data::Map(map)) if map.get(key).is_some() => {}
        Some(Data::Map(map)) => map.insert(key, name),
        _ => {
            for (known, node) in section(section_name, key, name) {
                sections.insert(known, node);
            }
        }
    }
    sections
}

fn section(name: &str, key: &str, node: Node) -> Mapping {
    let origin = node.origin.clone();
    let (mut inner, mut outer) = (Mapping::new(), Mapping::new());
    inner.insert(key, node);
    outer.insert(name, Node::new(Data::Map(inner), origin));
    outer
}

/// Says where a file that cannot be read was named.
fn at(error: LoadError, named: &Named) -> LoadError {
    match error {
        LoadError::Read { path, source } => LoadError::Named {
            at: named.origin.to_string(),
            path,
            source,
        },
        other => other,
    }
}
