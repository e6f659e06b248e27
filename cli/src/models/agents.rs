//! Agents: CLIs in sandboxes of this machine, which is tried out when the first one is wanted.

use std::sync::{Arc, OnceLock};

use skillopt_agents::Agent;
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
pub(super) struct Agents(OnceLock<Result<Host, String>>);

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
        self.0.get_or_init(host).as_ref()
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
