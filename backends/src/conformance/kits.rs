//! The backends that speak HTTP, each in every interface and way of signing that it has.

use super::Kit;
use super::wire::{CHAT_COMPLETIONS, GENERATE_CONTENT, MESSAGES, RESPONSES};

/// Servers like OpenAI's.
pub const OPENAI_COMPATIBLE: Kit = Kit {
    backend: "openai_compatible",
    model: "model-1",
    address: "openai_compatible_base_url",
    base: "/v1",
    secret: "openai_compatible_api_key",
    settings: &[],
    stream: "openai_compatible_stream",
    streams: false,
    wire: CHAT_COMPLETIONS,
};

/// OpenAI, by Chat Completions.
pub const OPENAI_CHAT: Kit = Kit {
    backend: "openai_chat",
    model: "model-1",
    address: "azure_openai_endpoint",
    base: "/v1",
    secret: "azure_openai_api_key",
    settings: &[("azure_openai_auth_mode", "openai_compatible")],
    stream: "azure_openai_stream",
    streams: false,
    wire: CHAT_COMPLETIONS,
};

/// OpenAI, by the Responses API.
pub const OPENAI_RESPONSES: Kit = Kit {
    model: "gpt-5-codex",
    wire: RESPONSES,
    ..OPENAI_CHAT
};

/// Azure OpenAI with a key.
pub const AZURE_KEY: Kit = Kit {
    base: "",
    settings: &[("azure_openai_auth_mode", "api_key")],
    ..OPENAI_CHAT
};

/// Anthropic.
pub const CLAUDE_CHAT: Kit = Kit {
    backend: "claude_chat",
    model: "model-1",
    address: "claude_base_url",
    base: "",
    secret: "claude_api_key",
    settings: &[],
    stream: "claude_stream",
    streams: false,
    wire: MESSAGES,
};

/// Google.
pub const GEMINI_CHAT: Kit = Kit {
    backend: "gemini_chat",
    model: "model-1",
    address: "gemini_base_url",
    base: "/v1beta",
    secret: "gemini_api_key",
    settings: &[],
    stream: "gemini_stream",
    streams: false,
    wire: GENERATE_CONTENT,
};

/// Qwen.
pub const QWEN_CHAT: Kit = Kit {
    backend: "qwen_chat",
    model: "model-1",
    address: "qwen_chat_base_url",
    base: "/v1",
    secret: "qwen_chat_api_key",
    settings: &[],
    stream: "qwen_chat_stream",
    streams: false,
    wire: CHAT_COMPLETIONS,
};

/// MiniMax.
pub const MINIMAX_CHAT: Kit = Kit {
    backend: "minimax_chat",
    model: "model-1",
    address: "minimax_base_url",
    base: "/v1",
    secret: "minimax_api_key",
    settings: &[],
    stream: "minimax_stream",
    streams: false,
    wire: CHAT_COMPLETIONS,
};

/// All of them by name.
pub const ALL: &[(&str, Kit)] = &[
    ("openai_compatible", OPENAI_COMPATIBLE),
    ("openai_chat", OPENAI_CHAT),
    ("openai_chat, Responses", OPENAI_RESPONSES),
    ("openai_chat, Azure", AZURE_KEY),
    ("claude_chat", CLAUDE_CHAT),
    ("gemini_chat", GEMINI_CHAT),
    ("qwen_chat", QWEN_CHAT),
    ("minimax_chat", MINIMAX_CHAT),
];
