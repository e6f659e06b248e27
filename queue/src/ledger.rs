//! What runs, sweeps and tenants may use, and what they have used.
//!
//! Before a call its price at most is reserved in every purse that pays for it, or in none; after
//! the call it is settled at what it was. A reservation whose worker died is given back when its
//! time is over. So a cap is never exceeded, however many workers spend from it, and nothing leaks.

mod machine;
mod memory;
mod tally;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::store;

pub use self::memory::MemoryLedger;
pub use self::tally::{Counts, KINDS_MAX, Tally, Use};

/// Names of settlements and of lapsed reservations that are remembered, of each at most.
pub const REMEMBERED_MAX: usize = 200_000;

/// Requests, tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Calls.
    pub requests: u64,
    /// Tokens sent.
    pub prompt_tokens: u64,
    /// Tokens received.
    pub completion_tokens: u64,
    /// Millionths of a US dollar.
    pub micro_usd: u64,
}

impl Amount {
    /// Returns tokens sent and received.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Returns both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self
                .completion_tokens
                .saturating_add(other.completion_tokens),
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
        }
    }

    /// Returns what is left without `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            prompt_tokens: self.prompt_tokens.saturating_sub(other.prompt_tokens),
            completion_tokens: self
                .completion_tokens
                .saturating_sub(other.completion_tokens),
            micro_usd: self.micro_usd.saturating_sub(other.micro_usd),
        }
    }
}

/// Most that a purse may use; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Calls.
    pub requests: Option<u64>,
    /// Tokens sent and received.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

impl Caps {
    /// Returns whether nothing is limited.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.requests.is_none() && self.tokens.is_none() && self.micro_usd.is_none()
    }
}

/// What a purse holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Used for good.
    pub spent: Amount,
    /// Held for calls under way.
    pub reserved: Amount,
    /// Most that `spent` and `reserved` may come to.
    pub caps: Caps,
    /// Whether a call was made whose price is unknown, so that `spent.micro_usd` is too little.
    pub has_unpriced: bool,
}

/// A reservation. Its name is made by whoever reserves, so that a repeated call is one reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Unique, e.g. ticket and turn.
    pub id: String,
    /// The purses that pay, e.g. `run/ab12`, `sweep/cd34`, `tenant/lab`; at most 8.
    pub purses: Vec<String>,
    /// Most that the call can come to.
    pub most: Amount,
    /// Whether its price is unknown: a purse with a cap in dollars refuses it.
    pub is_unpriced: bool,
    /// Given back after this time unless settled: longer than the call can take.
    pub lifetime: Duration,
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The reservation, or the name of a call that needed none.
    pub id: String,
    /// The purses that pay; needed if the reservation was given back meanwhile, or never made.
    pub purses: Vec<String>,
    /// Whether it was reserved. Then it counts once: as the end of its reservation, or after that
    /// was given back.
    pub is_reserved: bool,
    /// What was used; nothing if the call was not made.
    pub used: Amount,
    /// Whether the price is unknown.
    pub is_unpriced: bool,
    /// What is told of calls beside: no cap looks at it.
    pub tally: Tally,
}

/// The answer to a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// The call may be made.
    Held,
    /// A cap does not allow it, whatever is given back.
    Refused {
        /// The purse whose cap it is.
        purse: String,
        /// `requests`, `tokens`, `dollars`, or that the price is unknown.
        what: &'static str,
    },
    /// A cap does not allow it now, but calls under way hold more than they may need: ask again.
    Wait {
        /// The purse whose cap it is.
        purse: String,
    },
}

/// Keeps purses. All methods are atomic, and repeating one changes nothing.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Sets the caps of a purse.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    async fn set_caps(&self, purse: &str, caps: Caps) -> Result<(), store::Error>;

    /// Reserves; answers in order.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    async fn reserve(&self, asked: &[Reservation]) -> Result<Vec<Reserved>, store::Error>;

    /// Settles. A settlement counts even if its reservation was given back meanwhile, up to a day
    /// ago. A second one of the same name counts nothing; without a reservation that is known for a
    /// day, or until [`REMEMBERED_MAX`] further ones.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    async fn settle(&self, done: &[Settlement]) -> Result<(), store::Error>;

    /// Returns balances, in order; an unknown purse is empty. What outlived its time has been
    /// given back.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    async fn balances(&self, purses: &[String]) -> Result<Vec<Balance>, store::Error>;

    /// Returns what the calls of purses were for, in order; an unknown purse has none.
    ///
    /// # Errors
    /// If the ledger cannot be reached.
    async fn tallies(&self, purses: &[String]) -> Result<Vec<Tally>, store::Error>;
}
