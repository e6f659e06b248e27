//! `opencode_chat`: opencode as a text model.
//!
//! Settings of the machine may bring servers of tools along. They are looked for, switched off, and
//! only when the program itself says that they are off is it asked ([`quiet`]).

mod events;
mod program;
mod quiet;

use std::sync::Arc;

use skillopt_core::job::Profile;
use skillopt_core::kind::Kind;

use crate::cli::environment;
use crate::contract::ChatModel;
use crate::declare::{
    BackendKey, Declaration, Label, Local, Options, SECONDS, Work, checked, key, ops,
};
use crate::error::CallError;

/// What the program knows of `opencode_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "opencode_chat",
    about: "opencode as a text model",
    labels: &[Label {
        name: "opencode_chat",
        aliases: &["opencode", "opencode-cli", "opencode_cli"],
        optimizer: "opencode_chat",
        target: "opencode_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some(""),
    timeout_seconds: Some(180.0),
    keys: KEYS,
    describe,
    connect: Some(connect),
};

const KEYS: &[BackendKey] = &[
    key(
        "opencode_chat_base_url",
        Kind::Text,
        "none",
        "Address of a server that speaks Chat Completions, up to and without `/chat/completions`, which the \
         program asks for the model that is named. Without it, models are named as `provider/model`, or \
         the program chooses.",
    ),
    ops(key(
        "opencode_chat_api_key",
        Kind::Secret,
        "none",
        "Key for that server.",
    )),
    checked(
        ops(key(
            "opencode_chat_keys",
            Kind::Words,
            "none",
            "Variables of the environment with keys of providers that the program may see, beside \
         `OPENCODE_API_KEY`. Without any key, the login of the machine's user counts.",
        )),
        |options| environment::names_variables(options, "opencode_chat_keys").map(|()| None),
    ),
    ops(key(
        "opencode_chat_timeout_seconds",
        SECONDS,
        "180",
        "Seconds for one exchange, in which the program is started two or three times. It is \
         `opencode_exec_path`.",
    )),
];

fn describe(options: Options<'_>, profile: &mut Profile) {
    let base = options.text("opencode_chat_base_url").unwrap_or_default();
    base.trim_end_matches('/').clone_into(&mut profile.endpoint);
    // Its models do not all take one.
    profile.reasoning_effort.clear();
}

fn connect(profile: &Profile, local: &Local<'_>) -> Result<Arc<dyn ChatModel>, CallError> {
    if profile.model.is_empty() && !profile.endpoint.is_empty() {
        return Err(CallError::Misconfigured {
            endpoint: profile.endpoint.clone(),
            status: 0,
            detail: format!(
                "name the model of this server in `model.{}`: opencode cannot choose one there",
                profile.role
            ),
        });
    }
    Ok(Arc::new(program::Client::new(profile, local)))
}
