//! From flat settings to a typed, fully checked configuration.

use crate::backend_settings::BackendSettings;
use crate::check;
use crate::context::Context;
use crate::flat::{Flat, SECTIONS, near_env_key};
use crate::node::{Mapping, Node, Origin};
use crate::problem::{Errors, Problem, Warning};
use crate::roles::{
    Role, RoleChoice, default_model, is_shipped_model, normalize_label, resolve_role_backends,
};
use crate::run_config::{KEYS, RunConfig};
use crate::setting::{Reader, scalar_text};
use crate::suggest::nearest;
use skillopt_core::secret::{Secret, is_secret_name};

impl RunConfig {
    /// Reads and checks everything, before any model is called (D35). All that is wrong is
    /// reported at once.
    ///
    /// # Errors
    /// Every problem found.
    pub fn resolve(flat: &Flat, context: &Context<'_>) -> Result<(Self, Vec<Warning>), Errors> {
        let mut warnings = flat.warnings.clone();
        let mut reader = Reader::new(&flat.known);
        let mut config = Self::read(&mut reader);
        let (mut problems, mut origins) = (reader.problems, reader.origins);
        problems.splice(0..0, flat.unknown.iter().cloned());
        let bad_variables;
        (config.backends, bad_variables) =
            BackendSettings::read(&flat.known, context.env, &mut problems, &mut origins);
        config.origins = origins;
        config.take_rest(flat, &mut warnings);
        config.resolve_roles(&flat.known, context, &mut problems);
        let used = [
            config.optimizer_backend.as_str(),
            config.target_backend.as_str(),
        ];
        problems.extend(bad_variables.into_iter().filter_map(|bad| bad.of(&used)));
        warn_about_credentials(flat, &mut warnings);
        check::all(&mut config, flat, context, &mut problems, &mut warnings);
        if problems.is_empty() {
            Ok((config, warnings))
        } else {
            Err(Errors(problems))
        }
    }

    /// Returns where the value of a flat name came from.
    #[must_use]
    pub fn origin(&self, name: &str) -> &Origin {
        static DEFAULT: Origin = Origin::Default;
        self.origins.get(name).unwrap_or(&DEFAULT)
    }

    fn take_rest(&mut self, flat: &Flat, warnings: &mut Vec<Warning>) {
        for (key, node) in flat.env_extra.iter() {
            self.origins.insert(key.to_owned(), node.origin.clone());
            if let Some(near) = near_env_key(key) {
                warnings.push(unknown_env_key(key, near, node));
            }
            match scalar_text(node) {
                Some(text) if is_secret_name(key) => {
                    self.backends.add_secret(key, Secret::new(text));
                }
                _ => {
                    self.env_extra.insert(key.to_owned(), node.to_json());
                }
            }
        }
        for (key, node) in flat.extra.iter() {
            self.origins.insert(key.to_owned(), node.origin.clone());
            warnings.push(unknown_top_level(key, node));
            match scalar_text(node) {
                Some(text) if is_secret_name(key) => {
                    self.backends.add_secret(key, Secret::new(text));
                }
                _ => {
                    self.extra.insert(key.to_owned(), node.to_json());
                }
            }
        }
    }

    fn resolve_roles(
        &mut self,
        known: &Mapping,
        context: &Context<'_>,
        problems: &mut Vec<Problem>,
    ) {
        let chosen = |name: &str| {
            let node = known.get(name).filter(|node| !node.is_blank());
            node.is_some_and(|node| !node.origin.is_shipped_base())
        };
        let variables = [Role::Optimizer, Role::Target].map(|role| {
            let own = format!("{}_backend", role.as_str());
            if chosen("model_backend") || chosen(&own) {
                return None;
            }
            let variable = own.to_uppercase();
            let value = (context.env)(&variable).filter(|value| !value.trim().is_empty())?;
            let origin = Origin::Env(variable.into());
            self.origins.insert(own, origin);
            Some(value)
        });
        let [optimizer_variable, target_variable] = &variables;
        let [optimizer, target] = [
            ("optimizer_backend", optimizer_variable),
            ("target_backend", target_variable),
        ]
        .map(|(name, variable)| {
            let node = known.get(name);
            RoleChoice {
                value: variable.as_deref().or_else(|| node.and_then(Node::as_text)),
                explicit: node.is_some_and(|node| node.origin.is_command_line()),
            }
        });
        let label = known.get("model_backend").and_then(Node::as_text);
        let resolved = resolve_role_backends(label, optimizer, target);
        match resolved {
            Ok((optimizer, target)) => {
                self.model_backend = normalize_label(label.unwrap_or_default());
                self.put_derived("optimizer_backend", optimizer);
                self.put_derived("target_backend", target);
            }
            Err(error) => {
                let name = match error.role {
                    None => "model_backend",
                    Some(Role::Optimizer) => "optimizer_backend",
                    Some(Role::Target) => "target_backend",
                };
                let mut problem = Problem::at(
                    KEYS.iter()
                        .find(|k| k.name == name)
                        .map_or(name, |k| k.path),
                    self.origin(name),
                    match error.role {
                        None => "is no backend",
                        Some(Role::Optimizer) => "is no backend for the optimizer",
                        Some(Role::Target) => "is no backend for the target",
                    },
                );
                problem.value = Some(format!("{:?}", error.name));
                problem.allowed = Some(format!("one of `{}`", error.allowed.join("`, `")));
                problem.nearest = error.nearest.map(str::to_owned);
                problems.push(problem);
            }
        }
        self.resolve_model(Role::Optimizer, context);
        self.resolve_model(Role::Target, context);
    }

    fn put_derived(&mut self, name: &str, value: String) {
        let slot = match name {
            "optimizer_backend" => &mut self.optimizer_backend,
            _ => &mut self.target_backend,
        };
        if *slot != value {
            *slot = value;
            if !matches!(self.origin(name), Origin::Env(_)) {
                self.origins.insert(name.to_owned(), Origin::Derived);
            }
        }
    }

    /// Replaces a shipped model name that nobody chose by one that the backend knows. A name in
    /// the operator's own file or on the command line is kept, whatever it is.
    fn resolve_model(&mut self, role: Role, context: &Context<'_>) {
        let name = format!("{}_model", role.as_str());
        let origin = self.origin(&name).clone();
        let (model, backend) = match role {
            Role::Optimizer => (&self.optimizer_model, &self.optimizer_backend),
            Role::Target => (&self.target_model, &self.target_backend),
        };
        let chosen = origin != Origin::Default && !origin.is_shipped_base();
        if chosen {
            return;
        }
        let configured = self
            .backends
            .get(role, "minimax_model")
            .filter(|_| backend == "minimax_chat")
            .and_then(serde_json::Value::as_str)
            .map(|model| (model.to_owned(), Origin::Derived));
        let (role_name, prefix) = (role.as_str().to_uppercase(), backend.to_uppercase());
        let variables = [
            format!("{role_name}_{prefix}_MODEL"),
            format!("{prefix}_MODEL"),
            format!("{role_name}_DEPLOYMENT"),
        ];
        let from_env = || {
            variables.into_iter().find_map(|name| {
                let model = (context.env)(&name).filter(|model| !model.trim().is_empty())?;
                Some((model, Origin::Env(name.into())))
            })
        };
        let default = || {
            let default = default_model(role, backend).filter(|_| is_shipped_model(model));
            default.map(|default| (default.to_owned(), Origin::Derived))
        };
        let Some((value, origin)) = configured.or_else(from_env).or_else(default) else {
            return;
        };
        match role {
            Role::Optimizer => self.optimizer_model = value,
            Role::Target => self.target_model = value,
        }
        self.origins.insert(name, origin);
    }
}

fn unknown_env_key(key: &str, near: String, node: &Node) -> Warning {
    let reason = "is not a key of ours; it is handed to the benchmark";
    let mut warning = Problem::at(format!("env.{key}"), &node.origin, reason);
    warning.nearest = Some(near);
    warning
}

fn unknown_top_level(key: &str, node: &Node) -> Warning {
    let mut warning = Problem::new(key, node, "is not a key of ours; it is passed through");
    warning.value = None;
    let names = KEYS.iter().map(|k| k.name).chain(SECTIONS.iter().copied());
    warning.nearest = nearest(key, names).map(str::to_owned);
    warning
}

fn warn_about_credentials(flat: &Flat, warnings: &mut Vec<Warning>) {
    let all = [&flat.known, &flat.env_extra, &flat.extra];
    for (key, node) in all.into_iter().flat_map(Mapping::iter) {
        if is_secret_name(key) && node.origin.is_command_line() && !node.is_blank() {
            let reason = format!(
                "was given on the command line, where other programs can see it; set the \
                 environment variable `{}` instead",
                key.to_uppercase().replace(['-', '.'], "_")
            );
            warnings.push(Problem::at(key, &node.origin, reason));
        }
    }
}
