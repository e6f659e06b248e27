//! A configuration on the command line: a file, overrides, and a flag for every key.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use skillopt_config::key::Kind;
use skillopt_config::{
    Context, Errors, Flag, Flat, LoadError, Origin, Problem, Role, RunConfig, Warning, flags,
    suggest,
};

use crate::failure::Failure;
use crate::models;

/// Flags that are shown in the short help; `--help` shows them all.
const DAILY: &[&str] = &[
    "out_root",
    "slots",
    "store",
    "num_epochs",
    "batch_size",
    "edit_budget",
    "seed",
    "limit",
    "backend",
    "optimizer_model",
    "target_model",
];

/// Where the configuration comes from.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Read this configuration file
    #[arg(value_name = "CONFIG")]
    path: Option<PathBuf>,
    /// Read this configuration file
    #[arg(
        long = "config",
        value_name = "FILE",
        hide = true,
        conflicts_with = "path"
    )]
    file: Option<PathBuf>,
    /// Override keys of the file, such as `train.batch_size=20`; later ones win
    #[arg(long, alias = "cfg-options", value_name = "KEY=VALUE", num_args = 1..)]
    set: Vec<String>,
    #[command(flatten)]
    flags: KeyFlags,
}

/// A checked configuration.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: RunConfig,
    pub(crate) warnings: Vec<Warning>,
}

impl ConfigArgs {
    /// Returns the file, if one is named. `--set a=1 FILE` names one too.
    pub(crate) fn path(&self) -> Option<&Path> {
        let named = self.path.as_deref().or(self.file.as_deref());
        named.or_else(|| self.set.last().filter(|s| !s.contains('=')).map(Path::new))
    }

    /// Reads and checks everything that can be checked without the data.
    ///
    /// # Errors
    /// All that is wrong.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        let mut loaded = resolve(&self.read()?, &|name| std::env::var(name).ok())?;
        loaded.warnings.extend(idle_backend(&loaded.config));
        Ok(loaded)
    }

    /// Reads everything, whether its benchmark is one of this release or not.
    ///
    /// # Errors
    /// All that is wrong.
    pub(crate) fn load_any(&self) -> Result<Loaded, Failure> {
        let env = |name: &str| std::env::var(name).ok();
        let context = Context {
            benchmarks: None,
            env: &env,
        };
        let (config, warnings) = RunConfig::resolve(&self.read()?, &context)?;
        Ok(Loaded { config, warnings })
    }

    fn read(&self) -> Result<Flat, Failure> {
        let path = self.path().ok_or_else(|| {
            Failure::usage("no configuration was named")
                .hint("name a YAML file, as in `skillopt train configs/searchqa/mini.yaml`")
        })?;
        let mut flat = skillopt_config::load(path).map_err(|e| unreadable(e, path))?;
        self.apply(&mut flat, path)?;
        Ok(flat)
    }

    fn apply(&self, flat: &mut Flat, path: &Path) -> Result<(), Failure> {
        for set in self.set.iter().filter(|s| Path::new(s) != path) {
            flat.set(set)?;
        }
        for (flag, value) in &self.flags.0 {
            flat.set_flag(flag, value)?;
        }
        Ok(())
    }
}

/// Turns settings into a configuration.
///
/// # Errors
/// All that is wrong with them.
pub(crate) fn resolve(
    flat: &Flat,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Failure> {
    let names = skillopt_benchmarks::registry::names();
    let context = Context {
        benchmarks: Some(&names),
        env,
    };
    let (config, warnings) = RunConfig::resolve(flat, &context)?;
    Ok(Loaded { config, warnings })
}

/// Refuses backends that are known but cannot be called, before anything is spent.
///
/// # Errors
/// One problem for each role.
pub(crate) fn check_backends(config: &RunConfig, roles: &[Role]) -> Result<(), Failure> {
    let chosen = |role: &Role| match role {
        Role::Optimizer => ("optimizer_backend", &config.optimizer_backend),
        Role::Target => ("target_backend", &config.target_backend),
    };
    let problems: Vec<Problem> = roles
        .iter()
        .filter_map(|role| {
            let (key, backend) = chosen(role);
            let available = models::available(*role);
            if available.contains(&backend.as_str()) {
                return None;
            }
            let origin = match config.origin(key) {
                Origin::Derived | Origin::Default => config.origin("model_backend"),
                own => own,
            };
            let mut problem = Problem::at(
                format!("model.{key}"),
                origin,
                "cannot be called by this release",
            );
            problem.value = Some(format!("{backend:?}"));
            problem.allowed = Some(format!("one of `{}`", available.join("`, `")));
            problem.nearest =
                suggest::nearest(backend, available.iter().copied()).map(str::to_owned);
            Some(problem)
        })
        .collect();
    if problems.is_empty() {
        if roles.iter().any(|role| chosen(role).1 == "simulated") {
            models::simulated_settings(&config.sim)
                .map_err(|e| Failure::usage(format!("`model.sim`: {e}")))?;
        }
        return Ok(());
    }
    Err(Failure::from(Errors(problems)).hint(
        "`--backend openai_compatible` calls any server that speaks Chat Completions; \
         `--backend simulated` needs none",
    ))
}

/// Warns of a `--backend` that changes nothing, since the file names one for each role.
fn idle_backend(config: &RunConfig) -> Option<Warning> {
    let origin = config.origin("model_backend");
    let by_file = |key: &str, backend: &str| {
        matches!(config.origin(key), Origin::File { .. }) && backend != config.model_backend
    };
    let is_idle = origin.is_command_line()
        && by_file("optimizer_backend", &config.optimizer_backend)
        && by_file("target_backend", &config.target_backend);
    is_idle.then(|| {
        Problem::at(
            "model.backend",
            origin,
            format!(
                "changes neither role: the configuration sets `model.optimizer_backend` to `{}` and \
                 `model.target_backend` to `{}`; use `--optimizer_backend` and `--target_backend`",
                config.optimizer_backend, config.target_backend
            ),
        )
    })
}

/// Names a file that was probably meant.
fn unreadable(error: LoadError, path: &Path) -> Failure {
    let missing = matches!(&error, LoadError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound);
    let failure = Failure::usage(error);
    match near(path).filter(|_| missing) {
        Some(near) => failure.hint(format!("did you mean `{}`?", near.display())),
        None => failure,
    }
}

fn near(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let listed = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let mut names: Vec<String> = std::fs::read_dir(listed)
        .ok()?
        .take(1_000)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".yaml") || name.ends_with(".yml"))
        .collect();
    names.sort();
    let wanted = path.file_name()?.to_str()?;
    let name = suggest::nearest(wanted, names.iter().map(String::as_str))?;
    Some(folder.join(name))
}

/// The flags that were given, in the order of the table.
#[derive(Clone, Debug, Default)]
struct KeyFlags(Vec<(&'static Flag, String)>);

/// A flag and its other spelling.
struct Spelled {
    flag: Flag,
    dashed: String,
}

fn table() -> &'static [Spelled] {
    static TABLE: OnceLock<Vec<Spelled>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let spell = |flag: Flag| Spelled {
            dashed: flag.name.replace('_', "-"),
            flag,
        };
        flags().into_iter().map(spell).collect()
    })
}

fn arg(spelled: &'static Spelled) -> Arg {
    let flag = &spelled.flag;
    let name: &'static str = &flag.name;
    let is_out = name == "out_root";
    let mut arg = Arg::new(name)
        .long(if is_out { "out" } else { name })
        .action(ArgAction::Set)
        .overrides_with(name)
        .allow_negative_numbers(true)
        .value_name(match flag.kind {
            Kind::Bool => "BOOL",
            Kind::Int { .. } | Kind::Float { .. } | Kind::FloatOrNone { .. } => "N",
            Kind::Path if is_out => "DIR",
            Kind::Path => "PATH",
            Kind::Choice(_) => "WORD",
            _ => "TEXT",
        })
        .help(flag.help.as_str())
        .help_heading("Keys of the configuration")
        .hide(flag.hidden)
        .hide_short_help(!DAILY.contains(&name));
    if is_out {
        arg = arg.alias(name);
    }
    if spelled.dashed != *name {
        arg = arg.alias(spelled.dashed.as_str());
    }
    arg
}

impl Args for KeyFlags {
    fn augment_args(command: Command) -> Command {
        command.args(table().iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = table().iter().filter_map(|spelled| {
            let value = matches.get_one::<String>(&spelled.flag.name)?;
            Some((&spelled.flag, value.clone()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
