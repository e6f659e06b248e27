//! Who must agree before a request of an agent leaves: the caps and rates that all workers share.
//!
//! An agent makes its model calls by itself, while it works. Each of them asks here first, as every
//! other call of a worker does, and is told how it ended.

use async_trait::async_trait;
use skillopt_core::job::Usage;

use crate::error::CallError;

/// Tokens that a provider may add to each message, and to a request.
pub const OVERHEAD_TOKENS: u64 = 64;
/// More tokens than any provider bills for one image, however large.
pub const IMAGE_TOKENS_MAX: u64 = 20_000;

/// What a request can come to at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtMost {
    /// Tokens that it sends.
    pub prompt_tokens: u64,
    /// Tokens of its answer; `None` if nothing limits it.
    pub completion_tokens: Option<u64>,
}

/// Lets requests out, one at a time and at a price.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Returns the limit of an answer to a request that names none; `None` if it needs none. Without
    /// a limit nobody could keep a cap.
    fn answer_limit(&self) -> Option<u64>;

    /// Waits until a request may leave.
    ///
    /// # Errors
    /// Why it may not, in words: the task is over, without a result.
    ///
    /// # Cancel safety
    /// What was held for it is given back.
    async fn enter(&self, at_most: AtMost) -> Result<Box<dyn Permit>, String>;
}

/// A request on its way. Dropped without a word, it counts as sent and answered as long as allowed.
pub trait Permit: Send + Sync {
    /// Says how the request ended.
    fn close(self: Box<Self>, passed: Passed);
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It was answered to the end, and came to this as the provider counts.
    Answered(Usage),
    /// Nobody waited for the end of its answer, which says nothing about the provider.
    Abandoned,
    /// The provider failed, or could not be reached.
    Failed(CallError),
}

/// Lets everything out; for tasks that nobody counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

#[async_trait]
impl Gate for Open {
    fn answer_limit(&self) -> Option<u64> {
        None
    }

    async fn enter(&self, _: AtMost) -> Result<Box<dyn Permit>, String> {
        Ok(Box::new(Self))
    }
}

impl Permit for Open {
    fn close(self: Box<Self>, _: Passed) {}
}
