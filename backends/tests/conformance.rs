//! Every backend that speaks HTTP keeps the promises of the contract.

use skillopt_backends::conformance;
use skillopt_backends::conformance::kits;

conformance!(openai_compatible, kits::OPENAI_COMPATIBLE);
conformance!(
    openai_compatible_in_pieces,
    kits::OPENAI_COMPATIBLE.streamed()
);
conformance!(openai_chat, kits::OPENAI_CHAT);
conformance!(openai_chat_in_pieces, kits::OPENAI_CHAT.streamed());
conformance!(openai_responses, kits::OPENAI_RESPONSES);
conformance!(
    openai_responses_in_pieces,
    kits::OPENAI_RESPONSES.streamed()
);
conformance!(azure_key, kits::AZURE_KEY);
conformance!(azure_key_in_pieces, kits::AZURE_KEY.streamed());
conformance!(claude_chat, kits::CLAUDE_CHAT);
conformance!(claude_chat_in_pieces, kits::CLAUDE_CHAT.streamed());
conformance!(gemini_chat, kits::GEMINI_CHAT);
conformance!(gemini_chat_in_pieces, kits::GEMINI_CHAT.streamed());
conformance!(qwen_chat, kits::QWEN_CHAT);
conformance!(qwen_chat_in_pieces, kits::QWEN_CHAT.streamed());
conformance!(minimax_chat, kits::MINIMAX_CHAT);
conformance!(minimax_chat_in_pieces, kits::MINIMAX_CHAT.streamed());
