//! Chat models behind one contract, a file each; retries and usage are the callers' business.
//!
//! Must not know queues, benchmarks or runs. Start at [`contract`].

pub mod contract;
mod http;
pub mod openai_compatible;

pub use contract::{
    CallError, ChatModel, ChatReply, ChatRequest, Disposition, Finish, Message, Role,
};
