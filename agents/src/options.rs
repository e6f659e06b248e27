//! Settings that an agent cannot have: told before anything is spent, with what replaces them.

use serde_json::Value;
use skillopt_core::job::Profile;

/// What a setting asks for and cannot have.
struct Never {
    key: &'static str,
    /// Its value; empty: any.
    value: &'static str,
    why: &'static str,
}

/// Values that stand in a profile only if they are not the usual ones.
const NEVER: &[Never] = &[
    Never {
        key: "codex_exec_sandbox",
        value: "read-only",
        why: "the program's own sandbox does not run inside that of skillopt, which takes its place: a \
              task may write in its own folder and nowhere else, and what it writes there goes with \
              it; use `workspace-write`",
    },
    Never {
        key: "codex_exec_network_access",
        value: "true",
        why: "an agent reaches its model and nothing else; put what it needs into its folder",
    },
    Never {
        key: "codex_exec_web_search",
        value: "true",
        why: "an agent reaches its model and nothing else, and a search that the provider makes for it \
              would be a way around that; put what it needs into its folder",
    },
    Never {
        key: "codex_exec_profile",
        value: "",
        why: "an agent has a home of its own, in which there are no profiles; set what the profile \
              sets (`model.target`, `codex_exec_reasoning_effort`, …), or declare the agent with \
              `agent_cli`, which can bring files",
    },
];

/// Checks the settings of a profile.
///
/// # Errors
/// What an agent cannot have, all of it, in words.
pub(crate) fn check(profile: &Profile, is_direct: bool) -> Result<(), String> {
    let mut wrong: Vec<String> = NEVER
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
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
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

    fn refused(model: &str, settings: &Value, is_direct: bool) -> String {
        let profile = Profile {
            role: "target".to_owned(),
            backend: "codex_exec".to_owned(),
            model: model.to_owned(),
            endpoint: String::new(),
            temperature: None,
            max_tokens: 0,
            reasoning_effort: String::new(),
            settings: serde_json::from_value(settings.clone()).unwrap(),
        };
        check(&profile, is_direct).err().unwrap_or_default()
    }

    #[test]
    fn what_cannot_be_had_is_told_with_what_replaces_it() {
        let all = json!({
            "codex_exec_sandbox": "read-only", "codex_exec_network_access": "true",
            "codex_exec_web_search": "true", "codex_exec_profile": "prof",
        });
        let words = refused("m", &all, false);
        for never in NEVER {
            assert!(words.contains(never.key), "{words}");
        }
        for (model, settings, is_direct, want) in [
            ("m", json!({}), false, ""),
            (
                "m",
                json!({"codex_exec_sandbox": "danger-full-access"}),
                false,
                "",
            ),
            ("", json!({}), false, "model.target"),
            ("", json!({}), true, ""),
            ("m", json!({"agent_max_tokens": 9}), false, ""),
            (
                "m",
                json!({"agent_max_tokens": 9}),
                true,
                "agent_max_tokens",
            ),
        ] {
            let words = refused(model, &settings, is_direct);
            assert_eq!(words.is_empty(), want.is_empty(), "{settings}: {words}");
            assert!(words.contains(want), "{settings}: {words}");
        }
    }
}
