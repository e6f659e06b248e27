//! What several providers speak: bodies and answers of an interface, apart from who serves it.

pub(crate) mod chat_completions;
pub(crate) mod events;
pub(crate) mod responses;
