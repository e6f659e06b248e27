//! The reasons.

/// Why a job waits. The order is that of precedence: of several the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// No coordinator holds the run.
    NoCoordinator,
    /// Somebody paused the run, or a cause did.
    Paused,
    /// A cap of the run, its sweep or its tenant is reached.
    Budget,
    /// The job failed too often and was set aside.
    SetAside,
    /// The job failed and is tried again later.
    RetryBackoff,
    /// The worker that had the job stopped answering.
    LeaseExpired,
    /// The account's provider is down.
    ProviderDown,
    /// The account's rate is used up.
    RateLimited,
    /// No live worker offers what the job needs.
    NoCapability,
    /// The store is above its limit, or the place of large values is away.
    StorePressure,
    /// The run's own share is full of earlier jobs.
    Barrier,
    /// Other runs go first.
    FairShare,
    /// All fitting workers are busy.
    SlotsBusy,
}

impl Code {
    /// All codes, in the order of precedence.
    pub const ALL: [Self; 13] = [
        Self::NoCoordinator,
        Self::Paused,
        Self::Budget,
        Self::SetAside,
        Self::RetryBackoff,
        Self::LeaseExpired,
        Self::ProviderDown,
        Self::RateLimited,
        Self::NoCapability,
        Self::StorePressure,
        Self::Barrier,
        Self::FairShare,
        Self::SlotsBusy,
    ];

    /// Returns the code's fixed name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCoordinator => "no_coordinator",
            Self::Paused => "paused",
            Self::Budget => "budget",
            Self::SetAside => "set_aside",
            Self::RetryBackoff => "retry_backoff",
            Self::LeaseExpired => "lease_expired",
            Self::ProviderDown => "provider_down",
            Self::RateLimited => "rate_limited",
            Self::NoCapability => "no_capability",
            Self::StorePressure => "store_pressure",
            Self::Barrier => "barrier",
            Self::FairShare => "fair_share",
            Self::SlotsBusy => "slots_busy",
        }
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
