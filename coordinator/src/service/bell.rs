//! Wakes those of this process who wait for news.

use tokio::sync::watch;

/// Rung when something changes; whoever listens wakes at the next ring, and none is missed.
#[derive(Debug)]
pub struct Bell(watch::Sender<u64>);

impl Default for Bell {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Bell {
    /// Wakes all listeners.
    pub fn ring(&self) {
        self.0.send_modify(|rings| *rings = rings.wrapping_add(1));
    }

    /// Starts to listen.
    #[must_use]
    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

/// Somebody who listens.
#[derive(Debug)]
pub struct Listener(watch::Receiver<u64>);

impl Listener {
    /// Waits for a ring since the last call; for ever if the bell is gone.
    ///
    /// # Cancel safety
    /// A dropped call misses nothing.
    pub async fn rung(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
