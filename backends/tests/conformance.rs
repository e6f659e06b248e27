//! Every backend that speaks HTTP keeps the promises of the contract.

use skillopt_backends::conformance;
use skillopt_backends::conformance::Kit;
use skillopt_backends::conformance::wire::{CHAT_COMPLETIONS, GENERATE_CONTENT, MESSAGES};

conformance!(
    openai_compatible,
    Kit {
        backend: "openai_compatible",
        address: "openai_compatible_base_url",
        base: "/v1",
        secret: "openai_compatible_api_key",
        settings: &[],
        wire: CHAT_COMPLETIONS,
    }
);

conformance!(
    claude_chat,
    Kit {
        backend: "claude_chat",
        address: "claude_base_url",
        base: "",
        secret: "claude_api_key",
        settings: &[],
        wire: MESSAGES,
    }
);

conformance!(
    gemini_chat,
    Kit {
        backend: "gemini_chat",
        address: "gemini_base_url",
        base: "/v1beta",
        secret: "gemini_api_key",
        settings: &[],
        wire: GENERATE_CONTENT,
    }
);

conformance!(
    openai_chat,
    Kit {
        backend: "openai_chat",
        address: "azure_openai_endpoint",
        base: "/v1",
        secret: "azure_openai_api_key",
        settings: &[("azure_openai_auth_mode", "openai_compatible")],
        wire: CHAT_COMPLETIONS,
    }
);

conformance!(
    qwen_chat,
    Kit {
        backend: "qwen_chat",
        address: "qwen_chat_base_url",
        base: "/v1",
        secret: "qwen_chat_api_key",
        settings: &[],
        wire: CHAT_COMPLETIONS,
    }
);

conformance!(
    minimax_chat,
    Kit {
        backend: "minimax_chat",
        address: "minimax_base_url",
        base: "/v1",
        secret: "minimax_api_key",
        settings: &[],
        wire: CHAT_COMPLETIONS,
    }
);
