//! The keys of single backends (section `model`), beside those with a field of their own.
//!
//! Each is also read from the environment, under its name in capitals, where the configuration
//! leaves it unset. Source: training spec 7.4, backends spec 1.7.

use crate::choices::Word;
use crate::key::{HUGE, Kind, float, int};

/// One key, or three: itself, `optimizer_…` and `target_…`.
#[derive(Clone, Copy, Debug)]
pub struct BackendKey {
    /// The name without a role.
    pub base: &'static str,
    /// Whether each role has one of its own, which wins over the shared one.
    pub roles: bool,
    /// What values it takes.
    pub kind: Kind,
    /// The value if nobody sets it, in words.
    pub default: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Whether it changes what a run computes.
    pub result: bool,
}

const SWITCH: &[Word] = &[
    ("true", &["yes", "on", "1"]),
    ("false", &["no", "off", "0"]),
    ("", &[]),
];
const SDK: &[Word] = &[
    ("auto", &[""]),
    ("true", &["yes", "on", "1"]),
    ("false", &["no", "off", "0"]),
];
const SANDBOX: &[Word] = &[
    ("workspace-write", &[""]),
    ("read-only", &[]),
    ("danger-full-access", &[]),
];
const CURSOR_SANDBOX: &[Word] = &[("enabled", &["", "true"]), ("disabled", &["false"])];
const THINKING: &[Word] = &[
    (
        "server_default",
        &["", "unset", "auto", "none", "null", "server-default"],
    ),
    ("enabled", &["1", "true", "yes", "on", "enable"]),
    ("disabled", &["0", "false", "no", "off", "disable"]),
];

const fn key(
    base: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> BackendKey {
    BackendKey {
        base,
        roles: false,
        kind,
        default,
        help,
        result: true,
    }
}

const fn both(
    base: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> BackendKey {
    BackendKey {
        roles: true,
        ..key(base, kind, default, help)
    }
}

const fn ops(key: BackendKey) -> BackendKey {
    BackendKey {
        result: false,
        ..key
    }
}

const TEMPERATURE: Kind = float(0.0, 100.0);
const SECONDS: Kind = float(0.001, HUGE as f64);

/// All of them.
pub const BACKEND_KEYS: &[BackendKey] = &[
    both(
        "openai_compatible_base_url",
        Kind::Text,
        "https://api.openai.com/v1",
        "Address up to and without `/chat/completions`.",
    ),
    both(
        "openai_compatible_api_key",
        Kind::Secret,
        "none",
        "Key sent as bearer token; better given in the environment.",
    ),
    both(
        "openai_compatible_temperature",
        TEMPERATURE,
        "what the provider does",
        "Sampling temperature.",
    ),
    both(
        "openai_compatible_max_tokens",
        int(1),
        "8000",
        "Upper limit of tokens per answer.",
    ),
    ops(both(
        "openai_compatible_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
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
    both(
        "qwen_chat_base_url",
        Kind::Text,
        "http://localhost:8000/v1",
        "Address of the server.",
    ),
    both(
        "qwen_chat_api_key",
        Kind::Secret,
        "none",
        "Key; better given in the environment.",
    ),
    both(
        "qwen_chat_temperature",
        Kind::Text,
        "0.7",
        "Sampling temperature; `none` leaves it to the server.",
    ),
    ops(both(
        "qwen_chat_timeout_seconds",
        SECONDS,
        "300",
        "Seconds for one exchange.",
    )),
    both(
        "qwen_chat_max_tokens",
        int(1),
        "8000",
        "Upper limit of tokens per answer.",
    ),
    both(
        "qwen_chat_enable_thinking",
        Kind::Choice(SWITCH),
        "unset",
        "Older form of `qwen_chat_thinking_mode`.",
    ),
    both(
        "qwen_chat_thinking_mode",
        Kind::Choice(THINKING),
        "server_default",
        "Whether the model thinks first.",
    ),
    key(
        "minimax_region",
        Kind::Choice(&[
            ("", &[]),
            ("global_en", &["global-en"]),
            ("cn_zh", &["cn-zh"]),
        ]),
        "global_en",
        "Region of the service.",
    ),
    key(
        "minimax_base_url",
        Kind::Text,
        "by region",
        "Address of the service.",
    ),
    key(
        "minimax_api_key",
        Kind::Secret,
        "none",
        "Key; better given in the environment.",
    ),
    key(
        "minimax_model",
        Kind::Text,
        "MiniMax-M3",
        "Model of the target.",
    ),
    key(
        "minimax_temperature",
        Kind::Text,
        "0.7",
        "Sampling temperature; blank leaves it to the service.",
    ),
    key(
        "minimax_max_tokens",
        Kind::Text,
        "8000",
        "Upper limit of tokens per answer.",
    ),
    key(
        "minimax_enable_thinking",
        Kind::Choice(SWITCH),
        "false",
        "Whether the model thinks first.",
    ),
    key("codex_exec_path", Kind::Path, "codex", "The Codex program."),
    key(
        "codex_exec_sandbox",
        Kind::Choice(SANDBOX),
        "workspace-write",
        "What the program may touch.",
    ),
    key(
        "codex_exec_profile",
        Kind::Text,
        "none",
        "Profile of the program's own configuration.",
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
    key(
        "codex_exec_use_sdk",
        Kind::Choice(SDK),
        "auto",
        "Use the SDK instead of the program.",
    ),
    key(
        "codex_exec_network_access",
        Kind::Choice(SWITCH),
        "false",
        "Whether the sandbox has a network.",
    ),
    key(
        "codex_exec_web_search",
        Kind::Choice(SWITCH),
        "false",
        "Whether the program may search the web.",
    ),
    key(
        "claude_code_exec_path",
        Kind::Path,
        "claude",
        "The Claude Code program.",
    ),
    key(
        "claude_code_exec_profile",
        Kind::Text,
        "none",
        "Profile of the program's own configuration.",
    ),
    key(
        "claude_code_exec_use_sdk",
        Kind::Choice(SDK),
        "auto",
        "Use the SDK instead of the program.",
    ),
    key(
        "claude_code_exec_effort",
        Kind::Text,
        "medium",
        "How hard the model thinks.",
    ),
    key(
        "claude_code_exec_max_thinking_tokens",
        int(0),
        "16384",
        "Most tokens of thinking.",
    ),
    key(
        "cursor_exec_path",
        Kind::Path,
        "cursor-agent",
        "The Cursor program.",
    ),
    key(
        "cursor_exec_sandbox",
        Kind::Choice(CURSOR_SANDBOX),
        "enabled",
        "Whether the program is confined.",
    ),
    key(
        "copilot_exec_path",
        Kind::Path,
        "copilot",
        "The Copilot program.",
    ),
    key(
        "copilot_exec_home",
        Kind::Path,
        "none",
        "Home folder of the program.",
    ),
    key(
        "copilot_exec_allow_all_tools",
        Kind::Choice(SWITCH),
        "false",
        "Whether the agent may use every tool.",
    ),
    key(
        "copilot_chat_optimizer_model",
        Kind::Text,
        "none",
        "Model of the optimizer.",
    ),
    key(
        "copilot_chat_target_model",
        Kind::Text,
        "none",
        "Model of the target.",
    ),
    ops(key(
        "copilot_chat_timeout",
        int(1),
        "600",
        "Seconds for one exchange.",
    )),
];

impl BackendKey {
    /// Returns the flat names: one, or three.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        let roles: &[&str] = if self.roles {
            &["", "optimizer_", "target_"]
        } else {
            &[""]
        };
        roles.iter().map(|role| format!("{role}{}", self.base))
    }

    /// Finds the key of a flat name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        let bare = name
            .strip_prefix("optimizer_")
            .or_else(|| name.strip_prefix("target_"));
        BACKEND_KEYS.iter().find(|key| {
            key.base == name || (key.roles && bare.is_some_and(|bare| bare == key.base))
        })
    }
}
