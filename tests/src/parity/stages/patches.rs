//! Patches, names of modes, stored objects.

use serde_json::{Value, json};
use skillopt_core::pairs::Policy;
use skillopt_core::patch;
use skillopt_core::rate::Control;
use skillopt_core::update_mode::UpdateMode;

use super::super::Outcome;
use super::{list, mode, object};

pub(super) fn normalise(input: &Value) -> Outcome {
    let sides = patch::normalise(list(&input["raw_patches"]), mode(input)?);
    Ok(json!({"failure": sides.failure, "success": sides.success}))
}

pub(super) fn truncate(input: &Value) -> Outcome {
    let mode = mode(input)?;
    let n = input["n_items"].as_u64().unwrap_or(0);
    let mut patch = patch::from_items("", (0..n).map(|i| json!({"content": i})).collect(), mode);
    // The reference's spelling of "no limit" is a negative number.
    if let Some(max) = input["max_items"]
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
    {
        patch::truncate(&mut patch, mode, max);
    }
    Ok(json!({"kept": patch::items(&patch, mode).len()}))
}

pub(super) fn update_mode(input: &Value) -> Outcome {
    let name = input["mode"].as_str().unwrap_or_default();
    let mode = UpdateMode::parse(name).map_err(|e| e.to_string())?;
    Ok(json!({"mode": mode.name(), "payload_key": mode.payload_key()}))
}

pub(super) fn control(input: &Value) -> Outcome {
    let name = input["mode"].as_str().unwrap_or_default();
    let control = Control::parse(name).map_err(|e| e.to_string())?;
    Ok(json!({"mode": control.name()}))
}

pub(super) fn pair_policy(input: &Value) -> Outcome {
    let name = input["policy"].as_str().unwrap_or_default();
    let policy = Policy::parse(name).map_err(|e| e.to_string())?;
    Ok(json!({"policy": policy.name()}))
}

pub(super) fn summary(input: &Value) -> Outcome {
    Ok(json!({"summary": patch::summary(&input["item"], mode(input)?)}))
}

pub(super) fn round_trip(name: &str, input: &Value) -> Outcome {
    let from = &input["from"];
    let to = match name {
        "Edit.round_trip" => Some(patch::edit(&object(from))),
        "Patch.round_trip" => Some(patch::patch(&object(from))),
        "RolloutResult.round_trip" => Some(patch::rollout_result(&object(from))),
        "RawPatch.round_trip" => patch::raw_patch(from),
        "SlowUpdateResult.round_trip" => Some(patch::slow_update_result(&object(from))),
        _ => return Err(format!("no counterpart for `{name}`")),
    };
    Ok(json!({"to": to}))
}
