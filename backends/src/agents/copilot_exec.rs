//! `copilot_exec`: the Copilot CLI as an agent.

use skillopt_core::kind::Kind;

use crate::declare::{BackendKey, Declaration, Label, SWITCH, Work, checked, key};

/// What the program knows of `copilot_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "copilot_exec",
    about: "the Copilot CLI as an agent",
    labels: &[
        Label {
            name: "copilot_exec",
            aliases: &[],
            optimizer: "openai_chat",
            target: "copilot_exec",
        },
    ],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: // Blank lets the program choose.
    |_| Some(""),
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: |options, profile| {
        let traits = super::Traits {
            provider: "openai_compatible",
            version: "1.0.102",
            effort: super::Effort::Chosen,
            max_tokens: true,
            own: &[("copilot_exec_allow_all_tools", "true")],
        };
        super::describe(options, profile, &traits);
    },
    connect: None,
};

const KEYS: &[BackendKey] = &[
    key(
        "copilot_exec_path",
        Kind::Path,
        "copilot",
        "The Copilot program.",
    ),
    checked(
        key(
            "copilot_exec_home",
            Kind::Path,
            "none",
            "Home folder of the program as a chat model; an agent has one of its own for each task.",
        ),
        |options| {
            let is_set = options.text("copilot_exec_home").is_some();
            Ok(is_set.then(|| {
                "`copilot_exec_home` has no effect for an agent: each task has a home of its own, and \
                 the login is the provider's"
                    .to_owned()
            }))
        },
    ),
    key(
        "copilot_exec_allow_all_tools",
        SWITCH,
        "true",
        "Whether the agent may use every tool; the sandbox bounds what they can do.",
    ),
];
