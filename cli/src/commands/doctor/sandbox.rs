//! What this machine offers to shut programs in.

use super::{Check, State};

const NAME: &str = "sandbox";

/// Tries it out, as a worker would. A run with chat models alone needs none.
#[cfg(target_os = "linux")]
pub(super) fn check() -> Check {
    use skillopt_sandbox::{Host, Level, Policy, Settings};

    let tried = || -> Result<_, String> {
        let scratch = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        let settings = Settings {
            folder: scratch.path().to_path_buf(),
            init: std::env::current_exe().map_err(|e| format!("this program is gone: {e}"))?,
            init_args: vec!["sandbox-init".to_owned()],
            policy: Policy::Auto,
            bubblewrap: None,
            cgroup: None,
        };
        let probe = Host::probe(settings).map_err(|e| e.to_string())?;
        let level = probe.level(Policy::Auto).map_err(|e| e.to_string())?;
        Ok((level, probe.words(level)))
    };
    match tried() {
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
