//! `codex_exec`: the Codex CLI, as a text model for the optimizer.

mod events;
mod text;

use std::sync::Arc;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, Word};

use crate::agents;
use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SDK, SWITCH, Work, also, checked, key,
};
use crate::error::CallError;

/// What the program knows of `codex_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "codex_exec",
    about: "the Codex CLI: an agent, and a text model for the optimizer",
    labels: &[
        Label {
            name: "codex_exec",
            aliases: &[],
            optimizer: "codex_exec",
            target: "codex_exec",
        },
        Label {
            name: "codex",
            aliases: &["openai"],
            optimizer: "codex_exec",
            target: "codex_exec",
        },
    ],
    optimizer: true,
    target: Some(Work::Agent),
    default_model: |_| None,
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    also(
        key("codex_exec_path", Kind::Path, "codex", "The Codex program."),
        &["CODEX_CLI_BIN", "CODEX_PATH"],
    ),
    also(
        key(
            "codex_exec_sandbox",
            Kind::Choice(SANDBOX),
            "workspace-write",
            "What the program may touch.",
        ),
        &["CODEX_SANDBOX_MODE", "CODEX_SANDBOX"],
    ),
    also(
        key(
            "codex_exec_profile",
            Kind::Text,
            "none",
            "Profile of the program's own configuration.",
        ),
        &["CODEX_PROFILE"],
    ),
    key(
        "codex_exec_reasoning_effort",
        Kind::Text,
        "none",
        "How hard the model thinks.",
    ),
    key(
        "codex_exec_approval_policy",
        Kind::Text,
        "never",
        "When the program asks back.",
    ),
    checked(
        key(
            "codex_exec_use_sdk",
            SDK,
            "auto",
            "Without effect: the program itself is always run.",
        ),
        |options| {
            let key = "codex_exec_use_sdk";
            agents::no_sdk(options.text(key), key)
        },
    ),
    key(
        "codex_exec_network_access",
        SWITCH,
        "false",
        "Refused for an agent if it is on: an agent reaches its model and nothing else.",
    ),
    key(
        "codex_exec_web_search",
        SWITCH,
        "false",
        "Refused for an agent if it is on: an agent reaches its model and nothing else.",
    ),
    // All agents share these; they stand here because a key stands with one backend.
    agents::PROVIDER,
    agents::MAX_REQUESTS,
    agents::MAX_TOKENS,
    agents::MAX_MEMORY,
    agents::MAX_DISK,
    agents::MAX_PROCESSES,
    agents::RELEASE,
    agents::EMPTY_RETRIES,
];

const SANDBOX: &[Word] = &[
    ("workspace-write", &[""]),
    ("read-only", &[]),
    ("danger-full-access", &[]),
];

fn describe(options: Options<'_>, profile: &mut Profile) {
    if profile.role == "target" {
        let traits = agents::Traits {
            provider: "openai_chat",
            version: VERSION,
            effort: agents::Effort::Key("codex_exec_reasoning_effort"),
            max_tokens: false,
            own: &[
                ("codex_exec_sandbox", "workspace-write"),
                ("codex_exec_profile", ""),
                ("codex_exec_approval_policy", "never"),
                ("codex_exec_network_access", "false"),
                ("codex_exec_web_search", "false"),
            ],
        };
        agents::describe(options, profile, &traits);
    } else {
        if let Some(name) = options.text("codex_exec_profile") {
            let setting = ("profile".to_owned(), name.into());
            profile.settings.extend([setting]);
        }
        if profile.reasoning_effort.is_empty() {
            let effort = options.text("codex_exec_reasoning_effort");
            profile.reasoning_effort = effort.unwrap_or_default();
        }
    }
    if profile.reasoning_effort == "none" {
        profile.reasoning_effort.clear();
    }
}

/// The release whose flags and events are known.
const VERSION: &str = "0.171.0";

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    if profile.role != "optimizer" {
        return Err(CallError::Misconfigured {
            endpoint: text::NAME.to_owned(),
            status: 0,
            detail: "as a target it is an agent and answers no conversation; choose a chat \
                backend for this benchmark"
                .to_owned(),
        });
    }
    Ok(Arc::new(text::Client::new(profile, local)))
}
