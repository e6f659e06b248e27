//! The flags of the command line that set one key each (training spec 7.4, column "CLI").

use crate::backend_keys::backend_keys;
use crate::flat::BENCHMARK_KEYS;
use crate::key::Kind;
use crate::retired::RETIRED;
use crate::run_config::KEYS;

/// One flag.
#[derive(Clone, Debug)]
pub struct Flag {
    /// Name without dashes.
    pub name: String,
    /// The key that it sets, with its section.
    pub path: String,
    /// What values it takes.
    pub kind: Kind,
    /// One line of help.
    pub help: String,
    /// Accepted, but not shown in the help: credentials and retired flags.
    pub hidden: bool,
}

/// Returns all flags, in the order of the help.
#[must_use]
pub fn flags() -> Vec<Flag> {
    let own = KEYS.iter().filter(|key| key.usage.flag).map(|key| Flag {
        name: match key.name {
            "model_backend" => "backend",
            name => name,
        }
        .to_owned(),
        path: key.path.to_owned(),
        kind: key.kind,
        help: one_line(key.help),
        hidden: false,
    });
    let benchmarks = BENCHMARK_KEYS.iter().map(|(name, help)| Flag {
        name: (*name).to_owned(),
        path: format!("env.{name}"),
        kind: match *name {
            "shuffle_choices" | "use_theorem" | "use_sketch" => Kind::Bool,
            _ => Kind::Text,
        },
        help: one_line(help),
        hidden: false,
    });
    let backends = backend_keys().flat_map(|key| {
        key.names().map(|name| Flag {
            path: format!("model.{name}"),
            name,
            kind: key.kind,
            help: one_line(key.help),
            hidden: key.kind == Kind::Secret,
        })
    });
    let retired = RETIRED
        .iter()
        .filter(|(_, name, _)| matches!(*name, "max_analyst_rounds" | "codex_exec_full_auto"))
        .map(|(path, name, why)| Flag {
            name: (*name).to_owned(),
            path: (*path).to_owned(),
            kind: Kind::Text,
            help: format!("Retired: {why}"),
            hidden: true,
        });
    own.chain(benchmarks)
        .chain(backends)
        .chain(retired)
        .collect()
}

/// Returns the first line, trimmed, without its full stop.
fn one_line(help: &str) -> String {
    help.lines()
        .next()
        .unwrap_or_default()
        .trim()
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let flags = flags();
        let names: BTreeSet<&str> = flags.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names.len(), flags.len());
        for name in [
            "edit_budget",
            "backend",
            "env",
            "optimizer_model",
            "judge_model",
            "qwen_chat_base_url",
        ] {
            assert!(names.contains(name), "{name}");
        }
    }
}
