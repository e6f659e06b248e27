//! What this machine offers to shut programs in.

use super::{Check, State};
use crate::exit::Exit;
use crate::models;

const NAME: &str = "sandbox";

/// Tries it out, as a worker would. A run with chat models alone needs none.
#[cfg(target_os = "linux")]
pub(super) fn check() -> Check {
    use skillopt_sandbox::{Host, Level, Settings};

    let policy = match models::sandbox_policy() {
        Ok(policy) => policy,
        Err(why) => return Check::new(NAME, State::Broken(Exit::Usage), why),
    };
    let tried = || -> Result<_, String> {
        let settings = Settings {
            folder: Host::place(&std::env::temp_dir()).map_err(|e| e.to_string())?,
            init: std::env::current_exe().map_err(|e| format!("this program is gone: {e}"))?,
            init_args: vec!["sandbox-init".to_owned()],
            policy,
            bubblewrap: None,
            cgroup: None,
        };
        let probe = Host::probe(settings).map_err(|e| e.to_string())?;
        let level = probe.level(policy).map_err(|e| e.to_string())?;
        Ok((level, probe.words(level)))
    };
    match tried() {
        Ok((level @ Level::None, words)) => {
            let lost = models::sandbox_remark(level).unwrap_or(&words);
            Check::new(NAME, State::Weak, lost).hint(
                "unset it where the machine is not thrown away afterwards; `auto` takes the strongest \
                 that there is",
            )
        }
        Ok((Level::Bubblewrap, words)) => Check::new(NAME, State::Fine, words),
        Ok((_, words)) => Check::new(NAME, State::Weak, words)
            .hint("install bubblewrap, and let the worker make user namespaces"),
        Err(why) => Check::new(NAME, State::Weak, why)
            .hint("only agents need it; install bubblewrap to run them"),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn check() -> Check {
    Check::new(NAME, State::Weak, "there is none on this system")
        .hint("only agents need it; run their workers on Linux")
}
