//! What is said before a run whose target is an agent: what its programs can get at that they should not.

use std::path::{Path, PathBuf};

use skillopt_config::RunConfig;
use skillopt_sandbox::{Level, Policy, shows};

use crate::models;
use crate::output::Out;

/// Says it, once for a run.
pub(crate) fn say(config: &RunConfig, out: &Out) {
    if !models::has_agent(config) {
        return;
    }
    // A wrong word was refused when the agent was looked for.
    if models::sandbox_policy() == Ok(Policy::None)
        && let Some(lost) = models::sandbox_remark(Level::None)
    {
        out.warn(lost);
    }
    if let Some(shown) = in_the_open(config) {
        out.warn(&shown);
    }
    if let Some(doubt) = models::doubt(config) {
        out.warn(&doubt);
    }
}

/// Names what of a run agents can read because it lies where the system's programs do.
pub(crate) fn in_the_open(config: &RunConfig) -> Option<String> {
    let out = match config.out_root.trim() {
        "" => "outputs",
        path => path,
    };
    let all = [
        ("env.data_path", config.data_path.as_str()),
        ("env.split_dir", config.split_dir.as_str()),
        ("--out", out),
        ("--store", config.store.as_str()),
    ];
    let shown = all
        .iter()
        .filter(|(_, path)| !path.trim().is_empty() && shows(&real(Path::new(path.trim()))));
    let names: Vec<String> = shown
        .map(|(name, path)| format!("`{path}` ({name})"))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "agents can read {}, expected answers included: every sandbox shows the programs of the \
             system, and this lies among them; keep it elsewhere",
            names.join(" and ")
        )
    })
}

/// Returns where something lies, or will lie once it is made.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let found = path.ancestors().find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    found.unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_among_the_programs_of_the_system_is_named() {
        let config = RunConfig {
            split_dir: "/usr/share/data".to_owned(),
            out_root: "/tmp/out".to_owned(),
            store: "/usr/local/answers.sqlite".to_owned(),
            ..RunConfig::default()
        };
        let words = in_the_open(&config).unwrap();
        assert!(
            words.contains("`/usr/share/data` (env.split_dir)"),
            "{words}"
        );
        assert!(words.contains("/usr/local/answers.sqlite"), "{words}");
        assert!(!words.contains("/tmp/out"), "{words}");
        let config = RunConfig {
            split_dir: "/srv/usr".to_owned(),
            out_root: "/usrx".to_owned(),
            ..RunConfig::default()
        };
        assert_eq!(in_the_open(&config), None);
    }

    #[test]
    fn a_link_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("data");
        std::os::unix::fs::symlink("/usr/share", &link).unwrap();
        assert!(shows(&real(&link.join("not/yet/made"))));
        assert!(!shows(&real(dir.path())));
    }
}
