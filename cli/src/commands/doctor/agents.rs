//! Which agents can be run here.

use skillopt_agents::cli;
use skillopt_agents::installed::{Installed, NotInstalled};

use super::{Check, State};

const NAME: &str = "agents";

/// Looks for every CLI that is built in, as a worker would.
pub(super) fn check() -> Check {
    let path = std::env::var("PATH").unwrap_or_default();
    let variable = |backend: &str| {
        let name = format!("{}_PATH", backend.to_uppercase());
        std::env::var(name).ok().filter(|at| !at.trim().is_empty())
    };
    let mut found = Vec::new();
    let mut wrong = Vec::new();
    let mut hints = Vec::new();
    for cli in cli::ALL {
        let at = variable(cli.backend);
        let installed = match Installed::find(cli, at.as_deref(), &path) {
            Ok(installed) => installed,
            Err(NotInstalled::Missing { .. }) if at.is_none() => continue,
            Err(why) => {
                wrong.push(format!("{}: {why}", cli.backend));
                continue;
            }
        };
        found.push(match installed.version {
            Some(version) => format!("{} {version}", cli.backend),
            None => format!("{} (its release is not known)", cli.backend),
        });
        if cli.is_direct {
            hints.push(format!(
                "{} asks its vendor's servers by itself: no relay guards its key or counts its tokens, \
                 and it runs only where its way out is named in the environment (docs/agents.md)",
                cli.backend
            ));
        }
    }
    let words = match (found.is_empty(), wrong.is_empty()) {
        (true, true) => "none is installed; only a target that is an agent needs one".to_owned(),
        (true, false) => wrong.join("; "),
        (false, true) => format!("installed: {}", found.join(", ")),
        (false, false) => format!("installed: {}; {}", found.join(", "), wrong.join("; ")),
    };
    let state = if wrong.is_empty() {
        State::Fine
    } else {
        State::Weak
    };
    let check = Check::new(NAME, state, words);
    if hints.is_empty() {
        check
    } else {
        check.hint(hints.join("; "))
    }
}
