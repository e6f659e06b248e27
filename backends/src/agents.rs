//! Agents that can be named in a configuration; this release runs none of them.

pub(crate) mod claude_code_exec;
pub(crate) mod copilot_exec;
pub(crate) mod cursor_exec;
