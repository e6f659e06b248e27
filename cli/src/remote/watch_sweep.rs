//! The stream of a sweep, taken up again where it broke.

use skillopt_proto::v1::{Sweep, WatchSweepRequest};

use super::link::Remote;
use crate::failure::Failure;

/// Follows the sweep `id` until `hear` has heard enough (`false`) or all its cells have ended.
///
/// # Errors
/// Nobody answers for too long, or a refusal. *Cancel safety*: may be dropped.
pub(crate) async fn watch_sweep(
    remote: &Remote,
    id: &str,
    mut hear: impl FnMut(Sweep) -> bool,
) -> Result<(), Failure> {
    let mut tries = remote.tries();
    loop {
        let request = WatchSweepRequest { id: id.to_owned() };
        let mut stream = match remote.clients().sweeps().watch_sweep(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => {
                tries.again(&status).await?;
                continue;
            }
        };
        loop {
            match stream.message().await {
                Ok(Some(message)) => {
                    tries.reset();
                    if !hear(message.sweep.unwrap_or_default()) {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                Err(status) => {
                    tries.again(&status).await?;
                    break;
                }
            }
        }
    }
}
