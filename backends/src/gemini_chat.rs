//! `gemini_chat`: Google's Gemini API.

use crate::declare::{BackendKey, Declaration, Label, Work, describes_nothing};

/// What the program knows of `gemini_chat`.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "gemini_chat",
    about: "Google's Gemini API",
    labels: &[Label {
        name: "gemini_chat",
        aliases: &["gemini", "google"],
        optimizer: "gemini_chat",
        target: "gemini_chat",
    }],
    optimizer: true,
    target: Some(Work::Chat),
    default_model: |_| Some("gemini-3-flash"),
    timeout_seconds: Some(300.0),
    keys: KEYS,
    describe: describes_nothing,
    connect: None,
};

const KEYS: &[BackendKey] = &[];
