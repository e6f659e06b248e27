//! Every backend that speaks HTTP keeps the promises of the contract.

use skillopt_backends::conformance::{kits, programs};
use skillopt_backends::{conformance, registry};

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

#[test]
fn every_backend_that_can_be_called_has_a_kit() {
    let kits = kits::ALL.iter().map(|(_, kit)| kit.backend);
    let kits: Vec<&str> = kits
        .chain(programs::ALL.iter().map(|(_, kit)| kit.backend))
        .collect();
    for backend in registry::callable() {
        assert!(kits.contains(&backend), "`{backend}` keeps no promise yet");
    }
}
