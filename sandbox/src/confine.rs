//! Binds the thread that starts the program: Landlock rules, and the filter of system calls.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope,
};

use crate::seccomp::{self, Network};
use crate::wire::{Confinement, Rules};

/// The newest rules that this release knows; older kernels get those they have.
const NEWEST: ABI = ABI::V7;
/// Without rules for TCP (Linux 6.7) the program would reach every address.
const OLDEST: ABI = ABI::V4;

/// Binds the calling thread and everything it will start; the rest of the process stays free.
///
/// # Errors
/// What the kernel refused. The program must not be started then.
pub(crate) fn apply(confinement: &Confinement) -> Result<(), String> {
    match confinement {
        Confinement::Namespaces => seccomp::apply(Network::Own),
        Confinement::Rules(rules) => {
            restrict(rules)?;
            seccomp::apply(Network::Shared)
        }
        Confinement::Nothing => Ok(()),
    }
}

/// Applies Landlock rules to the calling thread and returns the ABI of the kernel.
///
/// # Errors
/// The kernel has no Landlock, or an older one than is needed.
pub(crate) fn restrict(rules: &Rules) -> Result<i32, String> {
    let status = ruleset(rules).map_err(|e| format!("Landlock: {e}"))?;
    match status {
        LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        } => Ok(kernel_abi.unwrap_or(effective_abi as i32)),
        LandlockStatus::NotEnabled => Err("Landlock is not switched on in this kernel".to_owned()),
        LandlockStatus::NotImplemented => Err("this kernel has no Landlock".to_owned()),
    }
}

fn ruleset(rules: &Rules) -> Result<LandlockStatus, RulesetError> {
    let (all, read) = (AccessFs::from_all(NEWEST), AccessFs::from_read(NEWEST));
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let open = |path: &std::path::PathBuf| PathFd::new(path).ok();
    let mut set = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(OLDEST))?
        .handle_access(AccessNet::from_all(OLDEST))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    // What is not there cannot be read either.
    for (paths, access) in [
        (&rules.read, read),
        (&rules.devices, device),
        (&rules.write, all),
    ] {
        for path in paths {
            let Some(fd) = open(path) else { continue };
            let access = match path.is_dir() {
                true => access,
                false => access & AccessFs::from_file(NEWEST),
            };
            set = set.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    for port in &rules.ports {
        set = set.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(set.restrict_self()?.landlock)
}
