//! The stream of a run's events, taken up again where it broke.

use skillopt_coordinator::events::Event;
use skillopt_proto::v1::watch_run_response::News as Wire;
use skillopt_proto::v1::{Progress, Run, WatchRunRequest};

use super::link::Remote;
use crate::exit::Exit;
use crate::failure::Failure;

/// What a watcher hears.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The run as it is now.
    Run(Box<Run>),
    /// The next commit event; each is told once, in order.
    Event(Event),
    /// How far a stage is.
    Progress(Progress),
}

/// Follows the run `id` from its first event until `hear` has heard enough (`false`) or the stream
/// ends for good.
///
/// # Errors
/// Nobody answers for too long, or the stream makes no sense. *Cancel safety*: may be dropped.
pub(crate) async fn watch(
    remote: &Remote,
    id: &str,
    mut hear: impl FnMut(News) -> bool,
) -> Result<(), Failure> {
    let mut next = 0;
    let mut tries = remote.tries();
    loop {
        let request = WatchRunRequest {
            id: id.to_owned(),
            from: next,
        };
        let opened = remote.clients().runs().watch_run(request).await;
        let mut stream = match opened {
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
                    let Some(news) = message.news else { continue };
                    let Some(news) = told(news, &mut next)? else {
                        continue;
                    };
                    if !hear(news) {
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

/// Turns what was sent into news; nothing for an event that was told before.
fn told(news: Wire, next: &mut u64) -> Result<Option<News>, Failure> {
    Ok(match news {
        Wire::Run(run) => Some(News::Run(Box::new(run))),
        Wire::Progress(progress) => Some(News::Progress(progress)),
        Wire::Event(event) if event.seq < *next => None,
        Wire::Event(event) if event.seq > *next => {
            return Err(Failure::new(
                Exit::Unexpected,
                format!("the coordinator left out event {next} of the run"),
            ));
        }
        Wire::Event(event) => {
            let facts = serde_json::from_str(&event.facts_json).map_err(|e| {
                Failure::new(
                    Exit::Unexpected,
                    format!("event {next} of the run cannot be read: {e}"),
                )
            })?;
            *next += 1;
            Some(News::Event(Event {
                kind: event.kind,
                facts,
            }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64) -> Wire {
        Wire::Event(skillopt_proto::v1::Event {
            seq,
            kind: "step".to_owned(),
            facts_json: format!("{{\"step\": {seq}}}"),
        })
    }

    #[test]
    fn each_event_is_told_once_and_none_is_left_out() {
        let mut next = 0;
        for (seq, is_told) in [(0, true), (1, true), (0, false), (1, false), (2, true)] {
            assert_eq!(told(event(seq), &mut next).unwrap().is_some(), is_told);
        }
        assert!(told(event(4), &mut next).is_err());
        assert_eq!(next, 3);
    }
}
