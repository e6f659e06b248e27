//! Settings under which the program offers its model nothing: no tool, no server of tools, no
//! snapshot of its folder.

use serde_json::{Map, Value, json};

use crate::error::CallError;

/// The agent that answers: a name of ours, which no other settings know.
pub(super) const AGENT: &str = "skillopt";
/// The provider behind an address of one's own.
pub(super) const PROVIDER: &str = "skillopt";
/// The variable that holds the key of that provider.
pub(super) const KEY: &str = "SKILLOPT_OPENCODE_KEY";

/// A server of the user's own, and the model that is asked there.
pub(super) struct Own<'a> {
    pub(super) address: &'a str,
    pub(super) model: &'a str,
    pub(super) max_tokens: u32,
}

/// Returns the settings: `said` is the system's text.
pub(super) fn settings(said: &str, own: Option<&Own<'_>>) -> Value {
    let mut settings = json!({
        "snapshot": false,
        "share": "disabled",
        "autoupdate": false,
        "agent": {AGENT: {"mode": "primary", "prompt": said, "permission": {"*": "deny"}}},
    });
    if let Some(own) = own {
        let known = json!({"limit": {"context": 128_000, "output": own.max_tokens}});
        settings["provider"] = json!({PROVIDER: {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": own.address, "apiKey": format!("{{env:{KEY}}}")},
            "models": {own.model: known},
        }});
        settings["small_model"] = format!("{PROVIDER}/{}", own.model).into();
    }
    settings
}

/// What the program says that its settings are.
pub(super) struct Resolved(Map<String, Value>);

impl Resolved {
    /// Reads what `debug config` prints.
    pub(super) fn read(stdout: &[u8], endpoint: &str) -> Result<Self, CallError> {
        serde_json::from_slice(stdout).map(Self).map_err(|e| {
            let detail = format!("its settings cannot be read: {e}");
            CallError::Malformed {
                endpoint: endpoint.to_owned(),
                detail,
            }
        })
    }

    /// Returns what is on that must not be, in words; nothing if it is quiet.
    pub(super) fn noise(&self) -> Option<String> {
        let on = self
            .servers()
            .filter(|(_, server)| server["enabled"] != false);
        let on: Vec<String> = on.map(|(name, _)| format!("`{name}`")).collect();
        if !on.is_empty() {
            return Some(format!("the tool servers {} are on", on.join(", ")));
        }
        let is_off = self.0.get("snapshot") == Some(&Value::Bool(false));
        (!is_off).then(|| "snapshots are on".to_owned())
    }

    /// Switches the servers off in the settings.
    pub(super) fn silence(&self, settings: &mut Value) {
        // Settings are laid over each other: what else is known of a server stays where it is.
        let off = self.servers();
        let off = off.map(|(name, _)| (name.clone(), json!({"enabled": false})));
        settings["mcp"] = Value::Object(off.collect());
    }

    fn servers(&self) -> impl Iterator<Item = (&String, &Value)> {
        let servers = self.0.get("mcp").and_then(Value::as_object);
        servers.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resolved: Value, expected: Option<&str>) {
        let seen = Resolved::read(resolved.to_string().as_bytes(), "opencode").unwrap();
        assert_eq!(seen.noise().as_deref(), expected, "{resolved}");
    }

    #[test]
    fn whatever_is_not_said_to_be_off_is_on() {
        check(json!({"snapshot": false}), None);
        check(
            json!({"snapshot": false, "mcp": {"a": {"enabled": false}}}),
            None,
        );
        check(json!({}), Some("snapshots are on"));
        check(json!({"snapshot": "no"}), Some("snapshots are on"));
        for server in [json!({}), json!({"enabled": true}), json!(null)] {
            check(
                json!({"snapshot": false, "mcp": {"a": server}}),
                Some("the tool servers `a` are on"),
            );
        }
    }

    #[test]
    fn servers_are_switched_off_by_name() {
        let seen = json!({"mcp": {"a": {"type": "local", "command": ["x"]}, "b": null}});
        let seen = Resolved::read(seen.to_string().as_bytes(), "opencode").unwrap();
        let mut settings = settings("S", None);
        seen.silence(&mut settings);
        let off = json!({"a": {"enabled": false}, "b": {"enabled": false}});
        assert_eq!(settings["mcp"], off);
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        assert!(Resolved::read(b"Error: no", "opencode").is_err());
        assert!(Resolved::read(b"[]", "opencode").is_err());
    }
}
