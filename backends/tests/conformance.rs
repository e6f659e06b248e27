//! Every backend that speaks HTTP keeps the promises of the contract.

use skillopt_backends::conformance;
use skillopt_backends::conformance::kits;

conformance!(openai_compatible, kits::OPENAI_COMPATIBLE);
conformance!(openai_chat, kits::OPENAI_CHAT);
conformance!(openai_responses, kits::OPENAI_RESPONSES);
conformance!(azure_key, kits::AZURE_KEY);
conformance!(claude_chat, kits::CLAUDE_CHAT);
conformance!(gemini_chat, kits::GEMINI_CHAT);
conformance!(qwen_chat, kits::QWEN_CHAT);
conformance!(minimax_chat, kits::MINIMAX_CHAT);
