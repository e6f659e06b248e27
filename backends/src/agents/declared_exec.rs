//! `declared_exec`: an agent that the user declares in a file.

use skillopt_core::job::Profile;
use skillopt_core::kind::Kind;

use super::Effort;
use super::declared::Declared;
use crate::declare::{BackendKey, Declaration, Label, Options, Work, checked, document, key};

/// What the program knows of `declared_exec`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "declared_exec",
    about: "an agent of your own, declared in a file",
    labels: &[Label {
        name: "declared_exec",
        aliases: &[],
        optimizer: "openai_chat",
        target: "declared_exec",
    }],
    optimizer: false,
    target: Some(Work::Agent),
    default_model: super::no_model,
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe,
    connect: None,
};

const KEYS: &[BackendKey] = &[
    checked(
        document(key(
            "agent_cli",
            Kind::Path,
            "none",
            "File that declares an agent's program for the backend `declared_exec`: command, prompt, \
             folder of skills, interface, environment, events. Its text travels with the run \
             (`docs/new-agent-cli.md`).",
        )),
        |options| match options.get("agent_cli") {
            Some(value) => Declared::read(&value).map(|_| None),
            None => Ok(None),
        },
    ),
    key(
        "declared_exec_path",
        Kind::Path,
        "as declared",
        "Where the declared program lies on this machine.",
    ),
];

fn describe(options: Options<'_>, profile: &mut Profile) {
    let declared = options.get("agent_cli");
    let read = declared
        .as_ref()
        .and_then(|value| Declared::read(value).ok());
    let traits = super::Traits {
        provider: read
            .as_ref()
            .map_or("openai_compatible", Declared::provider),
        version: read.as_ref().map_or("", |cli| cli.version.as_str()),
        effort: match &declared {
            Some(value) if value.to_string().contains("{effort}") => Effort::Shared,
            _ => Effort::Never,
        },
        max_tokens: false,
        own: &[],
    };
    super::describe(options, profile, &traits);
    if let Some(value) = declared {
        // The whole declaration is part of every job's key, and reaches workers in the profile.
        profile.settings.insert("cli".to_owned(), value);
    }
}
