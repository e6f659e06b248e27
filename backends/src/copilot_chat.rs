//! `copilot_chat`: the Copilot CLI as a text model.

mod events;
mod program;

use std::sync::Arc;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};

use crate::contract::ChatModel;
use crate::declare::{BackendKey, Declaration, Label, Local, Options, Work, key, ops};
use crate::error::CallError;

/// What the program knows of `copilot_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "copilot_chat",
    about: "the Copilot CLI as a text model",
    labels: &[Label {
        name: "copilot_chat",
        aliases: &["copilot", "copilot_cli", "github_copilot"],
        optimizer: "copilot_chat",
        target: "copilot_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| None,
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    key(
        "copilot_chat_optimizer_model",
        Kind::Text,
        "none",
        "Model of the optimizer; without one the program chooses. `model.optimizer` is not \
         looked at.",
    ),
    key(
        "copilot_chat_target_model",
        Kind::Text,
        "none",
        "Model of the target; without one the program chooses. `model.target` is not looked at.",
    ),
    ops(key(
        "copilot_chat_timeout",
        int(1),
        "600",
        "Seconds for one exchange.",
    )),
];

fn describe(options: Options<'_>, profile: &mut Profile) {
    let own = options.text(&format!("copilot_chat_{}_model", profile.role));
    profile.model = own.unwrap_or_default();
    // The program has no word for it that all its models take.
    profile.reasoning_effort.clear();
}

fn connect(_: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    Ok(Arc::new(program::Client::new(local)))
}
