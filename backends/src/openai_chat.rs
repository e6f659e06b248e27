//! `openai_chat`: OpenAI and Azure OpenAI, by Chat Completions or the Responses API.

mod client;
mod hosts;
mod route;
mod sign_in;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, Word};

use crate::declare::{
    BackendKey, Declaration, Label, Options, SECONDS, SWITCH, Work, also, both, key, ops,
};

pub use route::needs_responses;

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
    describe,
    connect: Some(client::connect),
};

const KEYS: &[BackendKey] = &[
    also(
        both(
            "azure_openai_endpoint",
            Kind::Text,
            "none",
            "Resource address, or base address in compatible mode.",
        ),
        &["AZURE_OPENAI_{ROLE}_ENDPOINT"],
    ),
    also(
        both(
            "azure_openai_api_version",
            Kind::Text,
            API_VERSION,
            "Version of the Azure interface.",
        ),
        &["AZURE_OPENAI_{ROLE}_API_VERSION"],
    ),
    also(
        both(
            "azure_openai_api_key",
            Kind::Secret,
            "none",
            "Key; better given in the environment.",
        ),
        &["AZURE_OPENAI_{ROLE}_API_KEY"],
    ),
    also(
        both(
            "azure_openai_auth_mode",
            Kind::Choice(AUTH_MODES),
            "azure_cli",
            "How to sign in; `openai_compatible` means OpenAI itself and servers like it.",
        ),
        &["AZURE_OPENAI_{ROLE}_AUTH_MODE"],
    ),
    also(
        both(
            "azure_openai_ad_scope",
            Kind::Text,
            AD_SCOPE,
            "Scope of the sign-in.",
        ),
        &["AZURE_OPENAI_{ROLE}_AD_SCOPE"],
    ),
    also(
        both(
            "azure_openai_managed_identity_client_id",
            Kind::Text,
            "none",
            "Identity to sign in as.",
        ),
        &["AZURE_OPENAI_{ROLE}_MANAGED_IDENTITY_CLIENT_ID"],
    ),
    also(
        both(
            "azure_openai_tenant_id",
            Kind::Text,
            "none",
            "Tenant that `client_credentials` signs in to.",
        ),
        &["AZURE_TENANT_ID"],
    ),
    also(
        both(
            "azure_openai_client_id",
            Kind::Text,
            "none",
            "Application that `client_credentials` signs in as.",
        ),
        &["AZURE_CLIENT_ID"],
    ),
    also(
        both(
            "azure_openai_client_secret",
            Kind::Secret,
            "none",
            "Secret of that application; better given in the environment.",
        ),
        &["AZURE_CLIENT_SECRET"],
    ),
    ops(also(
        both(
            "azure_openai_authority",
            Kind::Text,
            AUTHORITY,
            "Where `client_credentials` signs in.",
        ),
        &["AZURE_AUTHORITY_HOST"],
    )),
    ops(both(
        "azure_openai_cli_path",
        Kind::Path,
        "az",
        "Program that signs in for `azure_cli`.",
    )),
    ops(both(
        "azure_openai_token_hosts",
        Kind::Text,
        "none",
        "Further hosts that a sign-in's token may be sent to: names with commas between, where \
         `.example.com` means every host below it. A host of this machine, for tests, is called \
         without TLS.",
    )),
    both(
        INTERFACE,
        Kind::Choice(INTERFACES),
        "auto",
        "Interface that models are asked by: `chat` is Chat Completions; `auto` takes it but for \
         the models that are known to have only the Responses API.",
    ),
    ops(both(
        "azure_openai_stream",
        SWITCH,
        "false",
        "Whether answers come in pieces, so that a stalled one is noticed early.",
    )),
    ops(both(
        "azure_openai_timeout_seconds",
        SECONDS,
        "600",
        "Seconds for one exchange.",
    )),
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

/// The key that chooses between the two interfaces.
const INTERFACE: &str = "azure_openai_interface";
const INTERFACES: &[Word] = &[
    ("auto", &[""]),
    ("chat", &["chat_completions"]),
    ("responses", &[]),
];
const API_VERSION: &str = "2024-12-01-preview";
const AD_SCOPE: &str = "https://cognitiveservices.azure.com/.default";
const AUTHORITY: &str = "https://login.microsoftonline.com";
const AUTH_MODES: &[Word] = &[
    ("azure_cli", &["az"]),
    ("api_key", &["key"]),
    ("managed_identity", &["aad", "azure_ad"]),
    (
        "client_credentials",
        &["client_secret", "service_principal"],
    ),
    ("openai_compatible", &["compat", "openai"]),
];

/// How calls are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthMode {
    ApiKey,
    AzureCli,
    ManagedIdentity,
    ClientCredentials,
    Plain,
}

impl AuthMode {
    fn of(options: Options<'_>) -> Self {
        match options.text("azure_openai_auth_mode").as_deref() {
            Some("api_key") => Self::ApiKey,
            Some("managed_identity") => Self::ManagedIdentity,
            Some("client_credentials") => Self::ClientCredentials,
            Some("openai_compatible") => Self::Plain,
            _ => Self::AzureCli,
        }
    }
}

fn describe(options: Options<'_>, profile: &mut Profile) {
    let text = |name: &str, older: &str| options.text(name).or_else(|| options.text(older));
    let endpoint = text("azure_openai_endpoint", "azure_endpoint").unwrap_or_default();
    endpoint
        .trim_end_matches('/')
        .clone_into(&mut profile.endpoint);
    if AuthMode::of(options) != AuthMode::Plain {
        let version = text("azure_openai_api_version", "azure_api_version");
        let version = version.unwrap_or_else(|| API_VERSION.to_owned());
        let settings = &mut profile.settings;
        settings.insert("azure_api_version".to_owned(), version.into());
    }
    // By itself it is what it always was, and names what it named.
    if let Some(interface) = options.text(INTERFACE).filter(|word| word != "auto") {
        profile
            .settings
            .insert(INTERFACE.to_owned(), interface.into());
    }
}
