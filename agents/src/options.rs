//! Settings that an agent cannot have, told before anything is spent with what replaces them, and those
//! that bound its tasks.

use serde_json::{Map, Value};
use skillopt_core::job::Profile;
use skillopt_sandbox::Limits;

use crate::cli::{Cli, Version};

const MIB: u64 = 1 << 20;

/// Returns what one task may use by the settings of its backend, apart from its time.
pub(crate) fn limits(settings: &Map<String, Value>) -> Limits {
    let count = |key: &str| settings.get(key).and_then(Value::as_u64);
    let usual = Limits::default();
    Limits {
        memory_bytes: count(MEMORY).map_or(usual.memory_bytes, |mib| mib * MIB),
        disk_bytes: count(DISK).map_or(usual.disk_bytes, |mib| mib * MIB),
        processes: count("agent_max_processes").unwrap_or(usual.processes),
        ..usual
    }
}

const MEMORY: &str = "agent_max_memory_mib";
const DISK: &str = "agent_max_disk_mib";

/// Checks the settings of a profile; `cli` is none where a user declared one.
///
/// # Errors
/// What an agent cannot have, all of it, in words.
pub(crate) fn check(profile: &Profile, cli: Option<&Cli>) -> Result<(), String> {
    let is_direct = cli.is_some_and(Cli::is_direct);
    let never = cli.map_or(&[][..], |cli| cli.never);
    let mut wrong: Vec<String> = never
        .iter()
        .filter_map(|never| {
            let value = profile.settings.get(never.key)?;
            let value = text(value);
            let is_it = never.value.is_empty() || value == never.value;
            is_it.then(|| format!("`{}: {value}` cannot be had: {}", never.key, never.why))
        })
        .collect();
    for key in ["agent_max_requests", "agent_max_tokens"] {
        let is_set = profile.settings.get(key).and_then(Value::as_u64) > Some(0);
        if is_direct && is_set {
            wrong.push(format!(
                "`{key}` cannot be kept: the program asks its vendor by itself, and nothing else counts \
                 what it uses; choose another agent, or leave the limit out"
            ));
        }
    }
    if profile.model.is_empty() && !is_direct {
        wrong.push(
            "`model.target` names no model, and an agent may ask none but the one that is named"
                .to_owned(),
        );
    }
    wrong.extend(cli.into_iter().flat_map(|cli| unfit(profile, cli)));
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

/// Returns what does not go with a CLI: with less than it takes for itself every task would fail, and one
/// that asks for another model than it is told of would be let out to none.
fn unfit(profile: &Profile, cli: &Cli) -> Vec<String> {
    let count = |key: &str| profile.settings.get(key).and_then(Value::as_u64);
    let needs = [
        (MEMORY, "memory", cli.needs.memory_mib),
        (DISK, "disk", cli.needs.disk_mib),
    ];
    let short = needs.into_iter().filter_map(|(key, what, need)| {
        let most = count(key).filter(|most| *most < need)?;
        Some(format!(
            "`{key}: {most}` is less than the program takes for itself: it needs about {need} MiB of \
             {what}, and room for what its commands need"
        ))
    });
    let release = profile.settings.get("version").map(text);
    let release = release.unwrap_or_default();
    let is_tested = cli.is_tried(&release);
    let is_old = |version: &Version| *version < cli.tested.first;
    let old = Version::find(&release).filter(is_old).map(|version| {
        format!(
            "`agent_version: {version}` is older than what this release of skillopt knows how to call \
             ({}); use one of those",
            cli.tested
        )
    });
    let mut replaced = cli.replaces.iter();
    let replaced = replaced
        .find(|(name, _)| is_tested && *name == profile.model)
        .map(|(name, other)| {
            format!(
                "the program asks `{other}` where it is told of `{name}`, and an agent may ask none but \
                 the model that is named; set `model.target: {other}`, or one that it leaves as it is"
            )
        });
    short.chain(replaced).chain(old).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli;

    fn refused(model: &str, settings: &Value, backend: &str) -> String {
        let profile = Profile {
            role: "target".to_owned(),
            backend: backend.to_owned(),
            model: model.to_owned(),
            endpoint: String::new(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: serde_json::from_value(settings.clone()).unwrap(),
        };
        let cli = cli::find(backend);
        check(&profile, cli).err().unwrap_or_default()
    }

    #[test]
    fn what_cannot_be_had_is_told_with_what_replaces_it() {
        let all = json!({
            "codex_exec_sandbox": "read-only", "codex_exec_network_access": "true",
            "codex_exec_web_search": "true", "codex_exec_profile": "prof",
        });
        let words = refused("m", &all, "codex_exec");
        for never in cli::find("codex_exec").unwrap().never {
            assert!(words.contains(never.key), "{words}");
        }
        let (codex, cursor) = ("codex_exec", "cursor_exec");
        for (model, settings, backend, want) in [
            ("m", json!({}), codex, ""),
            (
                "m",
                json!({"codex_exec_sandbox": "danger-full-access"}),
                codex,
                "",
            ),
            ("", json!({}), codex, "model.target"),
            ("", json!({}), cursor, ""),
            ("", json!({}), "declared_exec", "model.target"),
            ("m", json!({"agent_max_tokens": 9}), codex, ""),
            (
                "m",
                json!({"agent_max_tokens": 9}),
                cursor,
                "agent_max_tokens",
            ),
            // Nobody has measured what a declared one needs.
            (
                "m",
                json!({"agent_max_memory_mib": 64}),
                "declared_exec",
                "",
            ),
            (
                "gemini-3-flash",
                json!({"version": "0.61.0"}),
                "gemini_exec",
                "model.target: gemini-3.8-flash",
            ),
            (
                "gemini-3-flash",
                json!({"version": "0.62.0"}),
                "gemini_exec",
                "",
            ),
            ("gemini-2.5-pro", json!({}), "gemini_exec", ""),
            ("m", json!({"version": "0.170.9"}), codex, "older"),
            ("m", json!({"version": "0.172.0"}), codex, ""),
        ] {
            let words = refused(model, &settings, backend);
            assert_eq!(words.is_empty(), want.is_empty(), "{settings}: {words}");
            assert!(words.contains(want), "{settings}: {words}");
        }
    }

    #[test]
    fn a_limit_below_what_a_program_takes_for_itself_is_refused() {
        for cli in cli::ALL {
            for (key, need) in [
                ("agent_max_memory_mib", cli.needs.memory_mib),
                ("agent_max_disk_mib", cli.needs.disk_mib),
            ] {
                let words = refused("m", &json!({key: need - 1}), cli.backend);
                assert!(words.contains(key), "{cli:?}: {words}");
                assert!(words.contains(&need.to_string()), "{cli:?}: {words}");
                assert_eq!(refused("m", &json!({key: need}), cli.backend), "");
            }
            // Whoever sets nothing has enough of both.
            let (usual, needs) = (limits(&Map::new()), cli.needs);
            assert!(usual.memory_bytes >= 2 * needs.memory_mib * MIB, "{cli:?}");
            assert!(usual.disk_bytes >= 2 * needs.disk_mib * MIB, "{cli:?}");
        }
    }

    #[test]
    fn what_is_set_bounds_a_task_and_the_rest_is_as_usual() {
        let usual = Limits::default();
        assert_eq!(limits(&Map::new()), usual);
        let set = json!({
            "agent_max_memory_mib": 700, "agent_max_disk_mib": 80, "agent_max_processes": 90,
        });
        let bounds = limits(set.as_object().unwrap());
        let wanted = Limits {
            memory_bytes: 700 * MIB,
            disk_bytes: 80 * MIB,
            processes: 90,
            ..usual
        };
        assert_eq!(bounds, wanted);
    }
}
