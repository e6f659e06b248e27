//! Stopping in two stages: first finish what is under way, then stop at once.

use tokio_util::sync::CancellationToken;

/// The two stop signals of a process, cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    /// Take no new work; finish and keep what is under way.
    pub drain: CancellationToken,
    /// Stop at once.
    pub now: CancellationToken,
}

impl Shutdown {
    /// Returns signals that have not been given.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the interrupt signals of the process: the first one drains, the second stops at
    /// once. Runs until the process ends; `told` is called after each signal, with its number.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub async fn listen(self, told: impl Fn(u32) + Send) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        for count in 1u32.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            self.drain.cancel();
            if count > 1 {
                self.now.cancel();
            }
            told(count);
        }
        Ok(())
    }
}
