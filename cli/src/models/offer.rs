//! Which agents' jobs a worker of a cluster takes: what this machine cannot run is left to others.

use std::collections::BTreeSet;

use skillopt_agents::cli::{self, Cli, Version};
use skillopt_agents::installed::{Installed, NotInstalled};
use skillopt_config::{BackendSettings, Role};
use skillopt_core::capability::Kind;
use skillopt_queue::Lane;
use skillopt_sandbox::Host;

use super::agents::remark;
use super::{available, available_in_any};

/// Which agents' jobs a worker takes, and what it says of that when it starts.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    /// Backends whose tasks can be done.
    tasks: BTreeSet<&'static str>,
    /// Backends whose program answers as a text model.
    texts: BTreeSet<&'static str>,
    /// What is said at the start, a line each.
    pub(crate) words: Vec<String>,
}

impl Offer {
    /// Looks for the programs, and at the sandbox. `path` is where programs lie.
    /// `told` asks a program for its release that no package tells.
    pub(super) fn of(
        settings: &BackendSettings,
        path: &str,
        host: Result<&Host, &String>,
        told: &dyn Fn(&Installed) -> Option<Version>,
    ) -> Self {
        let mut offer = Self::default();
        let mut missing = Vec::new();
        let mut why = Vec::new();
        let texts = available(Role::Optimizer);
        for cli in cli::ALL {
            let find = |role| Installed::find(cli, at(settings, role, cli).as_deref(), path);
            if texts.contains(&cli.backend) && is_there(&find(Role::Optimizer)) {
                offer.texts.insert(cli.backend);
            }
            let found = find(Role::Target).and_then(|found| {
                let version = found.version.or_else(|| told(&found));
                found.is_of(version, cli, "").map(|()| found)
            });
            match found {
                Err(NotInstalled::Missing { .. }) => missing.push(cli.backend),
                Err(error @ NotInstalled::Unreadable(_)) => {
                    why.push(format!("{} is not offered: {error}", cli.backend));
                }
                Err(error @ NotInstalled::OtherRelease { .. }) => {
                    offer.tasks.insert(cli.backend);
                    why.push(format!("{} fits few runs: {error}", cli.backend));
                }
                Ok(_) => match shut_in(settings, cli) {
                    Some(hosts) => why.push(format!(
                        "{} is not offered: it asks its vendor's servers by itself, and no way out is \
                         named (`{hosts}`, docs/agents.md)",
                        cli.backend
                    )),
                    None => {
                        offer.tasks.insert(cli.backend);
                    }
                },
            }
        }
        // What a run declares is not known before it comes.
        let declared = |name: &&str| {
            Kind::of_backend(name) == Kind::Exec && !cli::ALL.iter().any(|cli| cli.backend == *name)
        };
        offer
            .tasks
            .extend(available(Role::Target).into_iter().filter(declared));
        match host {
            Ok(host) => {
                let names: Vec<&str> = offer.tasks.iter().copied().collect();
                let level = host.offers().words(host.level());
                offer.words = vec![format!("offers {}; sandbox: {level}", names.join(", "))];
                offer.words.extend(remark(host.level()).map(str::to_owned));
            }
            Err(error) => {
                offer.tasks.clear();
                offer.words = vec![format!(
                    "no agent is offered, for there is no sandbox: {error}"
                )];
            }
        }
        if !missing.is_empty() {
            let names = missing.join(", ");
            offer.words.push(format!(
                "not offered, for the programs are not installed: {names}"
            ));
        }
        offer.words.extend(why);
        offer
    }

    /// Returns the backends of which some job may be taken.
    pub(crate) fn backends(&self) -> Vec<&'static str> {
        let is_offered = |name: &&str| {
            Kind::of_backend(name) == Kind::Chat
                || self.tasks.contains(name)
                || self.texts.contains(name)
        };
        available_in_any().into_iter().filter(is_offered).collect()
    }

    /// Returns whether jobs of a lane are taken.
    pub(crate) fn holds(&self, lane: &Lane) -> bool {
        // As `capability` names them: version, kind, backend, and the benchmark of a task.
        let mut words = lane.as_str().split(' ').skip(1);
        let (kind, backend) = (words.next(), words.next().unwrap_or_default());
        if kind.and_then(Kind::parse) != Some(Kind::Exec) {
            return true;
        }
        match words.next() {
            Some(_) => self.tasks.contains(backend),
            None => self.texts.contains(backend),
        }
    }
}

/// Returns where a CLI lies by the settings of this machine.
fn at(settings: &BackendSettings, role: Role, cli: &Cli) -> Option<String> {
    text(settings, role, &format!("{}_path", cli.backend))
}

/// Returns the setting that would let a CLI out to its vendor, if it needs that and it is not set.
fn shut_in(settings: &BackendSettings, cli: &Cli) -> Option<&'static str> {
    let hosts = cli.vendor.as_ref()?.hosts;
    text(settings, Role::Target, hosts)
        .is_none()
        .then_some(hosts)
}

fn text(settings: &BackendSettings, role: Role, key: &str) -> Option<String> {
    let text = settings.get(role, key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns whether a program is there, of whatever release: of text models none is asked for.
fn is_there(found: &Result<Installed, NotInstalled>) -> bool {
    matches!(found, Ok(_) | Err(NotInstalled::OtherRelease { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(sandbox: &str, programs: &[&str]) -> Offer {
        told(sandbox, programs, None)
    }

    fn told(sandbox: &str, programs: &[&str], release: Option<Version>) -> Offer {
        let dir = tempfile::tempdir().unwrap();
        for name in programs {
            std::fs::write(dir.path().join(name), "\u{7f}ELF").unwrap();
        }
        let settings = BackendSettings::default();
        Offer::of(
            &settings,
            dir.path().to_str().unwrap(),
            Err(&sandbox.to_owned()),
            &|_| release,
        )
    }

    fn holds(offer: &Offer, lane: &str) -> bool {
        offer.holds(&Lane::new(lane))
    }

    #[test]
    fn without_a_sandbox_programs_answer_as_text_models_at_most() {
        let offer = offer("bubblewrap: there is none", &["codex", "gemini"]);
        assert!(holds(&offer, "v1 chat openai_compatible searchqa@3"));
        assert!(holds(&offer, "v1 exec codex_exec"));
        for lane in [
            "v1 exec codex_exec searchqa@3",
            "v1 exec gemini_exec searchqa@3",
            "v1 exec gemini_exec",
            "v1 exec declared_exec searchqa@3",
        ] {
            assert!(!holds(&offer, lane), "{lane}");
        }
        let backends = offer.backends();
        assert!(backends.contains(&"codex_exec") && backends.contains(&"openai_compatible"));
        assert!(!backends.contains(&"gemini_exec"), "{backends:?}");
        let words = offer.words.join("\n");
        for part in ["no sandbox: bubblewrap: there is none", "claude_code_exec"] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }

    #[test]
    fn a_program_that_tells_another_release_is_found_when_the_worker_starts() {
        let words = |release| told("none", &["codex"], release).words.join("\n");
        for release in [Version(9, 9, 9), Version(0, 1, 0)] {
            let said = words(Some(release));
            assert!(said.contains("codex_exec fits few runs"), "{said}");
            assert!(said.contains(&release.to_string()), "{said}");
        }
        for release in [None, Some(cli::find("codex_exec").unwrap().tested.last)] {
            assert!(!words(release).contains("fits few runs"));
        }
    }

    #[test]
    fn every_agent_of_this_program_is_known_by_its_kind() {
        for name in available(Role::Target) {
            let is_agent = skillopt_agents::Agent::is_known(name);
            let is_exec = Kind::of_backend(name) == Kind::Exec;
            assert_eq!(is_agent, is_exec, "{name}");
        }
    }
}
