//! Chat models behind one contract, a file each; retries and usage are the callers' business.
//!
//! Must not know queues, benchmarks or runs. Start at [`contract`] for what a backend does, at
//! [`declare`] for what it says of itself, at [`registry`] for the list.

mod address;
pub mod agents;
mod auth;
mod claude_chat;
pub mod clean;
mod cli;
mod codex_exec;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod contract;
mod copilot_chat;
mod cursor_chat;
pub mod declare;
mod dialect;
pub mod error;
mod exchange;
mod failure;
pub mod gate;
mod gemini_chat;
pub mod http;
mod minimax_chat;
mod openai_chat;
mod openai_compatible;
mod opencode_chat;
pub mod outcome;
mod pi_chat;
mod picture;
pub mod policy;
mod qwen_chat;
pub mod registry;
mod simulated;
#[cfg(test)]
mod test_clients;
#[cfg(test)]
mod test_servers;
mod tokens;

pub use contract::{
    ChatModel, ChatReply, ChatRequest, Content, Finish, Image, Message, Part, Role, Tool, ToolCall,
    ToolChoice, Worked, Workspace,
};
pub use error::{CallError, Disposition};
pub use failure::{Refused, out_of_quota, refused, retry_after};
pub use gate::{AtMost, Gate, Open, Passed, Permit};
pub use http::Http;
pub use openai_chat::needs_responses;
pub use outcome::Outcome;
