//! The two roles of models in a training.

/// Who a model works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Writes edits.
    Optimizer,
    /// Does the tasks.
    Target,
}

impl Role {
    /// Returns the name, as in `optimizer_backend`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Optimizer => "optimizer",
            Self::Target => "target",
        }
    }
}
