//! Agents: coding CLIs that do a task in a workspace. What they are called with is declared here; the
//! crate `agents` runs them.
//!
//! An agent's model calls go through a relay to a *provider*: one of the chat backends, with its
//! address and its credential (`agent_provider`).

pub(crate) mod claude_code_exec;
pub(crate) mod copilot_exec;
pub(crate) mod cursor_exec;
pub mod declared;
pub(crate) mod declared_exec;
pub(crate) mod gemini_exec;
pub(crate) mod opencode_exec;
pub(crate) mod qwen_code_exec;

use skillopt_core::job::Profile;
use skillopt_core::kind::{Kind, int};
use skillopt_core::role::Role;

pub use crate::gemini_chat::reasoning::thinking as gemini_thinking;

use crate::declare::{BackendKey, Declaration, Options, also, key};
use crate::{claude_chat, gemini_chat, minimax_chat, openai_chat, openai_compatible, qwen_chat};

/// How hard a model thinks where nobody says.
pub const USUAL_EFFORT: &str = "medium";

/// The chat backends that an agent's model calls may go to.
const PROVIDERS: &[Declaration] = &[
    openai_chat::DECLARATION,
    openai_compatible::DECLARATION,
    qwen_chat::DECLARATION,
    minimax_chat::DECLARATION,
    claude_chat::DECLARATION,
    gemini_chat::DECLARATION,
];

/// Whose address and credential an agent takes.
pub(crate) const PROVIDER: BackendKey = key(
    "agent_provider",
    Kind::Text,
    "by agent",
    "Chat backend whose address and credential an agent's model calls take: `openai_chat`, \
     `openai_compatible`, `qwen_chat`, `minimax_chat`, `claude_chat` or `gemini_chat`.",
);
/// Most model calls of a task.
pub(crate) const MAX_REQUESTS: BackendKey = key(
    "agent_max_requests",
    int(0),
    "0",
    "Most model calls of one task of an agent; 0 is no limit.",
);
/// Most tokens of a task.
pub(crate) const MAX_TOKENS: BackendKey = key(
    "agent_max_tokens",
    int(0),
    "0",
    "Most tokens of one task of an agent, sent and received; 0 is no limit.",
);

/// Most memory of a task.
pub(crate) const MAX_MEMORY: BackendKey = key(
    "agent_max_memory_mib",
    Kind::Int {
        min: 64,
        max: 1 << 20,
    },
    "2048",
    "Most memory of one task of an agent and of all that it starts, in MiB; more ends the task, which has \
     failed then.",
);
/// Most disk of a task.
pub(crate) const MAX_DISK: BackendKey = key(
    "agent_max_disk_mib",
    Kind::Int {
        min: 16,
        max: 1 << 20,
    },
    "1024",
    "Most that may lie in the folders of one task of an agent, its home included, in MiB; more ends the \
     task, which has failed then.",
);
/// Most processes of a task.
pub(crate) const MAX_PROCESSES: BackendKey = key(
    "agent_max_processes",
    // Programs of agents use some forty threads, and hang without a word where they get none.
    Kind::Int {
        min: 64,
        max: 1 << 15,
    },
    "512",
    "Most processes and threads of one task of an agent at the same time; more end the task, which has \
     failed then.",
);

/// The release of the program, where it is not the one that was tried.
pub(crate) const RELEASE: BackendKey = key(
    "agent_version",
    Kind::Text,
    "the tested one",
    "Release of the agent's program, e.g. `0.172.0`, to be used although this release of skillopt was \
     not tried with it: flags and events may have changed.",
);

/// How often an agent that says nothing is asked again.
pub(crate) const EMPTY_RETRIES: BackendKey = also(
    key(
        "agent_empty_retries",
        Kind::Int { min: 0, max: 5 },
        "1",
        "How often an agent that ended well without a word does its task once more.",
    ),
    &["EXEC_EMPTY_RESPONSE_RETRIES"],
);

/// What an agent's answers depend on beside the model.
pub(crate) struct Traits<'a> {
    /// The chat backend that its calls take without `agent_provider`; empty: it has none.
    pub(crate) provider: &'a str,
    /// The release whose flags and events are known.
    pub(crate) version: &'a str,
    /// What its program is told of how hard the model thinks.
    pub(crate) effort: Effort<'a>,
    /// Whether its program is told the most tokens of one answer.
    pub(crate) max_tokens: bool,
    /// Keys of its own, each with what it is if nobody sets it: that stands for nothing.
    pub(crate) own: &'a [(&'a str, &'a str)],
}

/// What an agent's program is told of how hard the model thinks.
#[derive(Clone, Copy)]
pub(crate) enum Effort<'a> {
    /// What this key of its own says, else `reasoning_effort`.
    Key(&'a str),
    /// `reasoning_effort`.
    Shared,
    /// `reasoning_effort` where it is not the usual one: many servers that the program may ask refuse
    /// whoever speaks of it, so that somebody must have chosen it.
    Chosen,
    /// Nothing: it has no setting for it.
    Never,
}

impl Effort<'_> {
    fn told(self, options: Options<'_>, shared: &str) -> String {
        match self {
            Self::Never => String::new(),
            Self::Chosen if shared == USUAL_EFFORT => String::new(),
            Self::Key(key) => options.text(key).unwrap_or_else(|| shared.to_owned()),
            Self::Shared | Self::Chosen => shared.to_owned(),
        }
    }
}

/// Fills in what may change the answers of an agent, and takes out what its program is not told.
pub(crate) fn describe(options: Options<'_>, profile: &mut Profile, traits: &Traits<'_>) {
    profile.reasoning_effort = traits.effort.told(options, &profile.reasoning_effort);
    if !traits.max_tokens {
        profile.max_tokens = 0;
    }
    let mut put = |name: &str, value: serde_json::Value| {
        profile.settings.insert(name.to_owned(), value);
    };
    // Flags and events change between releases: an answer of another one is another answer.
    let version = options.text("agent_version");
    let version = version.unwrap_or_else(|| traits.version.to_owned());
    put("version", version.into());
    for name in [
        "agent_max_requests",
        "agent_max_tokens",
        "agent_max_memory_mib",
        "agent_max_disk_mib",
        "agent_max_processes",
    ] {
        if let Some(value) = options.get(name) {
            put(name, value);
        }
    }
    let own = traits.own.iter().chain(&[("agent_empty_retries", "1")]);
    for (name, usual) in own {
        let is_usual = options.text(name).is_none_or(|text| text == *usual);
        if let Some(value) = options.get(name).filter(|_| !is_usual) {
            put(name, value);
        }
    }
    if traits.provider.is_empty() {
        return;
    }
    let provider = options
        .text("agent_provider")
        .unwrap_or_else(|| traits.provider.to_owned());
    let mut upstream = Profile {
        backend: provider.clone(),
        max_tokens: 0,
        reasoning_effort: String::new(),
        ..profile.clone()
    };
    if let Some(backend) = PROVIDERS.iter().find(|backend| backend.name == provider) {
        (backend.describe)(options, &mut upstream);
    }
    profile.endpoint = upstream.endpoint;
    let provider = ("provider".to_owned(), provider.into());
    profile.settings.extend([provider]);
}

/// Says that there is no SDK to use: a remark, for nothing is lost by that.
pub(crate) fn no_sdk(wanted: Option<String>, key: &str) -> Result<Option<String>, String> {
    let is_wanted = wanted.is_some_and(|word| word == "true");
    Ok(is_wanted.then(|| {
        format!(
            "`{key}` has no effect: the program itself is run, and the events that it prints tell what \
             an SDK would"
        )
    }))
}

/// Fills in nothing that depends on the role.
pub(crate) const fn no_model(_: Role) -> Option<&'static str> {
    None
}
