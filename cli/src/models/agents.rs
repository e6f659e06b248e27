//! Agents: CLIs in sandboxes of this machine, which is tried out when the first one is wanted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use skillopt_agents::Agent;
use skillopt_agents::cli::Version;
use skillopt_agents::installed::Installed;
use skillopt_backends::declare::Local;
use skillopt_backends::{CallError, ChatModel};
use skillopt_core::job::Profile;
use skillopt_sandbox::{Error, Host, Level, Policy, Settings};

use super::way_out::Out;

/// Names how strong a sandbox has to be: `auto`, `bubblewrap`, `landlock`, or `none`, which is none.
const POLICY: &str = "SKILLOPT_SANDBOX";

/// What is lost at a level, for whoever starts programs at it; `None` if they are shut in.
pub(crate) const fn remark(level: Level) -> Option<&'static str> {
    match level {
        Level::Bubblewrap | Level::Landlock => None,
        Level::None => Some(
            "SKILLOPT_SANDBOX=none: agents are not shut in: each can read the provider's key out of \
             this process (/proc/*/environ), read and change every file that this user can, and reach \
             every network",
        ),
    }
}

/// Reads which sandbox this process asks for.
///
/// # Errors
/// There is no such one; the text says which there are.
pub(crate) fn policy() -> Result<Policy, String> {
    let policy = std::env::var(POLICY).unwrap_or_else(|_| "auto".to_owned());
    Policy::parse(&policy).map_err(|e| format!("{POLICY}: {e}"))
}

/// The sandboxes of this process.
#[derive(Default)]
pub(super) struct Agents {
    host: OnceLock<Result<Host, String>>,
    /// What programs said of their releases, by where they lie.
    told: Mutex<BTreeMap<PathBuf, Option<Version>>>,
}

impl Agents {
    /// Returns whether a profile wants an agent.
    pub(super) fn is_for(profile: &Profile) -> bool {
        profile.role == "target" && Agent::is_known(&profile.backend)
    }

    /// Returns the sandboxes, which are tried out when they are asked for first.
    ///
    /// # Errors
    /// None can be had, and why.
    pub(super) fn host(&self) -> Result<&Host, &String> {
        self.host.get_or_init(host).as_ref()
    }

    /// Returns what a program says of its release, which is asked once; `None` if it does not say, or
    /// there is no sandbox to ask it in: then its first task tells.
    pub(super) fn told(&self, installed: &Installed) -> Option<Version> {
        let said = || self.said().get(&installed.program).copied();
        said().unwrap_or_else(|| {
            let told = installed.told(self.host().ok()?).ok()?;
            self.said().insert(installed.program.clone(), told);
            told
        })
    }

    /// Returns what a program said when it was asked.
    pub(super) fn has_told(&self, installed: &Installed) -> Option<Version> {
        self.said().get(&installed.program).copied().flatten()
    }

    fn said(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Version>>> {
        // No section under this lock can panic half-way.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an agent.
    ///
    /// # Errors
    /// It cannot be run here.
    pub(super) fn model(
        &self,
        profile: &Profile,
        local: &Local<'_>,
    ) -> Result<Arc<dyn ChatModel>, CallError> {
        let host = self.host().map_err(|why| CallError::Misconfigured {
            endpoint: profile.backend.clone(),
            status: 0,
            detail: why.clone(),
        })?;
        let way_out = Arc::new(Out(Arc::clone(local.http)));
        Ok(Arc::new(Agent::new(profile, local, host.clone(), way_out)?))
    }
}

fn host() -> Result<Host, String> {
    let policy = policy()?;
    let open = || {
        Host::open(Settings {
            folder: Host::place(&std::env::temp_dir())?,
            init: std::env::current_exe()
                .map_err(|e| Error::Start(format!("this program is gone: {e}")))?,
            init_args: vec!["sandbox-init".to_owned()],
            policy,
            bubblewrap: None,
            cgroup: None,
        })
    };
    open().map_err(|e| e.to_string())
}
