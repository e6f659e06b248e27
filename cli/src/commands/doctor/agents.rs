//! Which agents can be run here.

use skillopt_agents::installed::{Installed, NotInstalled};
use skillopt_agents::{Agent, cli};
use skillopt_backends::agents::declared::Declared;
use skillopt_config::{BackendSettings, Role, RunConfig};
use skillopt_coordinator::prepare::profile;

use super::{Check, State};
use crate::exit::Exit;

const NAME: &str = "agents";
/// The backend whose CLI a configuration declares.
const DECLARED: &str = "declared_exec";

/// Looks for every CLI that is built in, and for one that `config` declares, as a worker with these
/// settings would. The one that is the target has to be there.
pub(super) fn check(config: Option<&RunConfig>) -> Check {
    let machine = || BackendSettings::from_env(&|name| std::env::var(name).ok()).ok();
    let machine = match config {
        Some(_) => None,
        // A wrong variable is told by whoever needs it.
        None => machine(),
    };
    let settings = config.map(|config| &config.backends).or(machine.as_ref());
    let target = config.map(|config| profile(config, Role::Target));
    let mut report = Report::default();
    for cli in cli::ALL {
        let at = settings.and_then(|all| configured(all, cli.backend));
        let target = target.as_ref().filter(|it| it.backend == cli.backend);
        let release = target.map_or("", Agent::release_of);
        let found = Installed::find_release(cli, at.as_deref(), &path(), release);
        let is_wanted = target.is_some() || at.is_some_and(|at| at != cli.program);
        report.add(cli.backend, found, is_wanted, target.is_some());
        if cli.is_direct() && report.has(cli.backend) {
            report.hints.push(format!(
                "{} asks its vendor's servers by itself: no relay guards its key or counts its tokens, \
                 and it runs only where its way out is named in the environment (docs/agents.md)",
                cli.backend
            ));
        }
    }
    if let Some(target) = target.filter(|it| it.backend == DECLARED)
        // What is wrong with a declaration is a fault of the configuration, and told there.
        && let Some(Ok(declared)) = target.settings.get("cli").map(Declared::read)
    {
        let at = settings.and_then(|all| configured(all, DECLARED));
        let release = Agent::release_of(&target);
        let found = Installed::find_declared(&declared, at.as_deref(), &path(), release);
        report.add(&declared.name, found, true, true);
    }
    report.check()
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Returns where a CLI lies by the settings.
fn configured(settings: &BackendSettings, backend: &str) -> Option<String> {
    let at = settings.get(Role::Target, &format!("{backend}_path"))?;
    let at = at.as_str()?.trim();
    (!at.is_empty()).then(|| at.to_owned())
}

/// What was found.
#[derive(Default)]
struct Report {
    found: Vec<(String, String)>,
    wrong: Vec<String>,
    hints: Vec<String>,
    /// The target's own is not usable.
    is_broken: bool,
}

impl Report {
    fn add(
        &mut self,
        name: &str,
        found: Result<Installed, NotInstalled>,
        is_wanted: bool,
        is_target: bool,
    ) {
        match found {
            Ok(installed) => {
                let words = match installed.version {
                    Some(version) => format!("{name} {version}"),
                    None => format!(
                        "{name} of a release that no package tells (it is asked before its first \
                         task; what does not say one is taken for one that was tried, and its tasks \
                         have `version: unknown`)"
                    ),
                };
                self.found.push((name.to_owned(), words));
            }
            Err(NotInstalled::Missing { .. }) if !is_wanted => {}
            Err(why) => {
                self.wrong.push(format!("{name}: {why}"));
                self.is_broken |= is_target;
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.found.iter().any(|(found, _)| found == name)
    }

    fn check(self) -> Check {
        let found: Vec<String> = self.found.into_iter().map(|(_, words)| words).collect();
        let words = match (found.is_empty(), self.wrong.is_empty()) {
            (true, true) => {
                "none is installed; only a target that is an agent needs one".to_owned()
            }
            (true, false) => self.wrong.join("; "),
            (false, true) => format!("installed: {}", found.join(", ")),
            (false, false) => {
                format!("{}; installed: {}", self.wrong.join("; "), found.join(", "))
            }
        };
        let state = match (self.is_broken, self.wrong.is_empty()) {
            (true, _) => State::Broken(Exit::Usage),
            (false, false) => State::Weak,
            (false, true) => State::Fine,
        };
        let check = Check::new(NAME, state, words);
        if self.hints.is_empty() {
            check
        } else {
            check.hint(self.hints.join("; "))
        }
    }
}
