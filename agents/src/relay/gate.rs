//! Who must agree before a request leaves: the ledger and the rates that all workers share.

use async_trait::async_trait;

use super::record::Tokens;

/// Lets requests out, one at a time and at a price.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Waits until a request may leave; `bytes` is what it sends.
    ///
    /// # Errors
    /// Why it may not now, in words; the task ends and is tried again later.
    async fn enter(&self, bytes: u64) -> Result<Box<dyn Permit>, String>;
}

/// A request on its way. Dropped without [`Permit::settle`], it is settled as sent and unanswered.
pub trait Permit: Send + Sync {
    /// Says what the request came to.
    fn settle(self: Box<Self>, tokens: Tokens);
}

/// Lets everything out; for tests and for tasks that nobody counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

#[async_trait]
impl Gate for Open {
    async fn enter(&self, _: u64) -> Result<Box<dyn Permit>, String> {
        Ok(Box::new(Self))
    }
}

impl Permit for Open {
    fn settle(self: Box<Self>, _: Tokens) {}
}
