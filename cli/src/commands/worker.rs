//! `skillopt worker`: runs jobs of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skillopt_core::capability::Kind;
use skillopt_runtime::Shutdown;
use skillopt_worker::{Connecting, Lifeline, Meter, Settings, Worker};

use crate::args::WorkerArgs;
use crate::cluster::{self, Parts};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::models;
use crate::output::Out;
use crate::process;

/// Version of this program, as others see it.
pub(crate) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(args: &WorkerArgs, out: &Out) -> Result<Exit, Failure> {
    let name = args.name.clone().unwrap_or_else(cluster::own_name);
    let place = cluster::Place::of(&args.redis)?;
    let models = models::Cluster::new(
        &|name| std::env::var(name).ok(),
        args.allow_endpoint.clone(),
    )?;
    let slots: BTreeMap<_, _> = args.slots.0.iter().copied().collect();
    // What this machine lacks is left to others: their jobs stay in the queue.
    let offer = match slots.get(&Kind::Exec) {
        Some(1..) => models.offer(),
        _ => models::Offer::default(),
    };
    let shutdown = Shutdown::new();
    let mut settings = Settings {
        program: PROGRAM.to_owned(),
        cache_bytes: (args.cache_mib as usize) << 20,
        drain: Duration::from_secs(args.drain_seconds),
        lease_ttl: Duration::from_secs(args.lease_seconds),
        ..Settings::cluster(&name, slots, &offer.backends())
    };
    settings.lanes.retain(|lane| offer.holds(lane));
    let say = {
        let out = out.clone();
        move |text: &str| out.note(format!("{name}: {text}"))
    };
    let told = {
        let say = say.clone();
        let drain = args.drain_seconds;
        move |count: u32| {
            if count == 1 {
                say(&format!(
                    "leaving: jobs under way have {drain} s; a second signal hands them back at once"
                ));
            }
        }
    };
    let work = async {
        let Some(parts) = Parts::open_unless(&shutdown, &place, &say).await? else {
            say("gone");
            return Ok(Exit::Done);
        };
        let server = parts.server.clone();
        let connect = {
            let place = Arc::new(place.clone());
            move || -> Connecting {
                let place = Arc::clone(&place);
                Box::pin(async move { lifeline(&place).await })
            }
        };
        let meter = Meter::new(&settings.name, parts.ledger, Some(parts.rates))
            .with_lease_ttl(settings.lease_ttl);
        let mut worker = Worker::new(settings, parts.queue, parts.store, models.factory())
            .with_meter(meter)
            .with_lifeline(Arc::new(connect))
            .with_teller(Arc::new({
                let say = say.clone();
                move |text: &str| say(text)
            }));
        if let Some(address) = args.http {
            let (listener, address) = cluster::listen(address)?;
            say(&format!("health on http://{address}"));
            worker = worker.with_ops(listener);
        }
        say(&format!("slots {}, {}", args.slots, server));
        for words in &offer.words {
            say(&format!("agents: {words}"));
        }
        say("ready");
        Arc::new(worker)
            .run(shutdown.clone())
            .await
            .map_err(Failure::from)?;
        say("gone");
        Ok(Exit::Done)
    };
    process::block_on(&shutdown, told, work)?
}

/// Opens the connections of a worker's renewals.
async fn lifeline(place: &cluster::Place) -> Result<Lifeline, skillopt_queue::store::Error> {
    let parts = Parts::open(place).await?;
    Ok(Lifeline {
        queue: parts.queue,
        board: Some(parts.board),
    })
}
