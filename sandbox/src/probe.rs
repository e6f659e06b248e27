//! What this machine offers, found out by trying.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::bubblewrap::{self, Mounts};
use crate::cgroup::Cgroups;
use crate::facility::{Bubblewrap, Landlock, ProcMount};
use crate::level::{Level, Policy};
use crate::seccomp::{self, Network};
use crate::settings::Settings;
use crate::wire::Rules;
use crate::{Error, confine};

/// The first release that can forbid user namespaces and bound a temporary folder.
const OLDEST_BUBBLEWRAP: (u32, u32) = (0, 8);
/// The first Landlock ABI that keeps signals inside (Linux 6.12).
const SIGNALS: i32 = 6;

/// What this machine offers to this user; for what is missing, why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Namespaces through bubblewrap.
    pub bubblewrap: Result<Bubblewrap, String>,
    /// Rules of the kernel for ordinary users.
    pub landlock: Result<Landlock, String>,
    /// Limits on whole trees of processes.
    pub cgroups: Result<Cgroups, String>,
    /// The user that was asked for.
    pub uid: u32,
}

impl Probe {
    /// Tries everything; takes some tens of milliseconds.
    pub(crate) fn run(settings: &Settings, etc: &Path) -> Self {
        let uid = nix::unistd::geteuid().as_raw();
        let cgroups = Cgroups::find(settings.cgroup.as_deref());
        Self {
            bubblewrap: find_bubblewrap(settings, etc),
            landlock: find_landlock(uid, cgroups.is_ok()),
            cgroups,
            uid,
        }
    }

    /// Returns the level for a policy.
    ///
    /// # Errors
    /// The machine does not offer it; nothing weaker is chosen instead.
    pub fn level(&self, policy: Policy) -> Result<Level, Error> {
        let refuse = |text: String| Err(Error::NoLevel(text));
        match (policy, &self.bubblewrap, &self.landlock) {
            (Policy::None, ..) => Ok(Level::None),
            (Policy::Auto | Policy::Bubblewrap, Ok(_), _) => Ok(Level::Bubblewrap),
            (Policy::Auto | Policy::Landlock, _, Ok(_)) => Ok(Level::Landlock),
            (Policy::Bubblewrap, Err(why), _) => refuse(format!("bubblewrap: {why}")),
            (Policy::Landlock, _, Err(why)) => refuse(format!("landlock: {why}")),
            (Policy::Auto, Err(first), Err(second)) => refuse(format!(
                "bubblewrap: {first}; landlock: {second}. Programs of others are not run without \
                 one; `none` switches all protection off"
            )),
        }
    }

    /// Says in one line what a worker with this policy would use.
    #[must_use]
    pub fn words(&self, level: Level) -> String {
        let mut words = match (level, &self.bubblewrap, &self.landlock) {
            (Level::Bubblewrap, Ok(found), _) => {
                let shared = match found.proc {
                    ProcMount::New => "",
                    ProcMount::Shared => " (processes of the machine can be seen)",
                };
                format!("bubblewrap {}{shared}", found.version)
            }
            (Level::Landlock, _, Ok(found)) => format!(
                "Landlock ABI {} (processes of the machine can be seen)",
                found.abi
            ),
            _ => "none: programs can read and change whatever the worker can".to_owned(),
        };
        match &self.cgroups {
            Ok(found) => {
                let names = found.controllers.join(", ");
                words += &format!(", cgroup v{} ({names})", found.version);
            }
            Err(_) => words += ", no cgroups: memory and processes are watched",
        }
        words
    }
}

fn find_bubblewrap(settings: &Settings, etc: &Path) -> Result<Bubblewrap, String> {
    let program = match &settings.bubblewrap {
        Some(path) => path.clone(),
        None => on_path("bwrap").ok_or("there is no `bwrap` on the PATH; install bubblewrap")?,
    };
    let said = run(Command::new(&program).arg("--version"))?;
    let version = said
        .split_whitespace()
        .last()
        .unwrap_or_default()
        .to_owned();
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    let pair = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    let (major, minor) = OLDEST_BUBBLEWRAP;
    if pair < OLDEST_BUBBLEWRAP {
        return Err(format!(
            "`{}` is version {version}; {major}.{minor} or newer is needed",
            program.display()
        ));
    }
    // From strong to weak; containers often forbid the first, and some the second.
    let mut whys = Vec::new();
    for (proc, forbids_user_namespaces) in [
        (ProcMount::New, true),
        (ProcMount::Shared, true),
        (ProcMount::Shared, false),
    ] {
        let found = Bubblewrap {
            program: program.clone(),
            version: version.clone(),
            proc,
            forbids_user_namespaces,
        };
        match try_out(&found, settings, etc) {
            Ok(()) => return Ok(found),
            Err(why) if whys.contains(&why) => {}
            Err(why) => whys.push(why),
        }
    }
    Err(whys.join("; "))
}

fn try_out(bwrap: &Bubblewrap, settings: &Settings, etc: &Path) -> Result<(), String> {
    let mounts = Mounts {
        etc,
        init: &settings.init,
        tmp_bytes: 0,
        folders: None,
        read_only: &[],
        sockets: Vec::new(),
    };
    let args: Vec<OsString> = settings
        .init_args
        .iter()
        .map(OsString::from)
        .chain(["check".into()])
        .collect();
    let line = bubblewrap::command(bwrap, &mounts, &args);
    run(Command::new(&line[0]).args(&line[1..])).map(drop)
}

fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).env_clear().output();
    let output = output.map_err(|e| format!("`{program}` cannot be started: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = text(&output.stderr);
    Err(match said.lines().next() {
        Some(line) => line.to_owned(),
        None => format!("`{program}` ended with {}", output.status),
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A service may be started with less than a shell has.
    let usual = ["/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&path).chain(usual);
    places.find_map(|folder| Some(folder.join(name)).filter(|place| place.is_file()))
}

/// Tries it on a thread of its own, which is then bound, and over.
fn find_landlock(uid: u32, has_cgroups: bool) -> Result<Landlock, String> {
    if uid == 0 {
        return Err(
            "it does not hold the superuser; run the worker as an ordinary user".to_owned(),
        );
    }
    let tried = std::thread::spawn(|| {
        let abi = confine::restrict(&Rules::default())?;
        seccomp::apply(Network::Shared)?;
        Ok(abi)
    });
    let tried = tried.join();
    let abi = tried.unwrap_or_else(|_| Err("trying it broke".to_owned()))?;
    if abi < SIGNALS && !has_cgroups {
        return Err(format!(
            "ABI {abi} does not keep signals inside, so that a program could outlive its run; \
             Linux 6.12 or control groups are needed"
        ));
    }
    Ok(Landlock { abi })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_weaker_is_chosen_than_was_asked_for() {
        let bwrap = || Bubblewrap {
            program: "bwrap".into(),
            version: "0.8.0".to_owned(),
            proc: ProcMount::New,
            forbids_user_namespaces: true,
        };
        let no = || Err::<(), _>("no".to_owned());
        for (has_bwrap, has_landlock, policy, wanted) in [
            (true, true, Policy::Auto, Some(Level::Bubblewrap)),
            (false, true, Policy::Auto, Some(Level::Landlock)),
            (false, false, Policy::Auto, None),
            (false, true, Policy::Bubblewrap, None),
            (true, false, Policy::Landlock, None),
            (true, true, Policy::Landlock, Some(Level::Landlock)),
            (false, false, Policy::None, Some(Level::None)),
        ] {
            let probe = Probe {
                bubblewrap: if has_bwrap {
                    Ok(bwrap())
                } else {
                    no().map(|()| bwrap())
                },
                landlock: if has_landlock {
                    Ok(Landlock { abi: 7 })
                } else {
                    Err("no".to_owned())
                },
                cgroups: Err("no".to_owned()),
                uid: 1,
            };
            assert_eq!(probe.level(policy).ok(), wanted, "{policy:?}");
        }
    }
}
