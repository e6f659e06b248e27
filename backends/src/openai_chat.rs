//! `openai_chat`: OpenAI and Azure OpenAI.

use skillopt_core::kind::Kind;

use crate::declare::{BackendKey, Declaration, Label, Work, both, describes_nothing, key};

/// What the program knows of `openai_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "openai_chat",
    about: "OpenAI and Azure OpenAI",
    labels: &[
        Label {
            name: "openai_chat",
            aliases: &[],
            optimizer: "openai_chat",
            target: "openai_chat",
        },
        Label {
            name: "azure_openai",
            aliases: &["azure", "azure-openai"],
            optimizer: "openai_chat",
            target: "openai_chat",
        },
    ],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| None,
    timeout_seconds: Some(600.0),
    keys: KEYS,
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[
    both(
        "azure_openai_endpoint",
        Kind::Text,
        "none",
        "Resource address, or base address in compatible mode.",
    ),
    both(
        "azure_openai_api_version",
        Kind::Text,
        "2024-12-01-preview",
        "Version of the Azure interface.",
    ),
    both(
        "azure_openai_api_key",
        Kind::Secret,
        "none",
        "Key; better given in the environment.",
    ),
    both(
        "azure_openai_auth_mode",
        Kind::Text,
        "azure_cli",
        "How to sign in.",
    ),
    both(
        "azure_openai_ad_scope",
        Kind::Text,
        "https://cognitiveservices.azure.com/.default",
        "Scope of the sign-in.",
    ),
    both(
        "azure_openai_managed_identity_client_id",
        Kind::Text,
        "none",
        "Identity to sign in as.",
    ),
    key(
        "azure_endpoint",
        Kind::Text,
        "none",
        "Older name of `azure_openai_endpoint`.",
    ),
    key(
        "azure_api_version",
        Kind::Text,
        "none",
        "Older name of `azure_openai_api_version`.",
    ),
    key(
        "azure_api_key",
        Kind::Secret,
        "none",
        "Older name of `azure_openai_api_key`.",
    ),
];
