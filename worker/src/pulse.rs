//! The pulse of a worker: renewals, signs of life and health pages, on a thread of its own.
//!
//! Scoring may keep every thread of the worker's pool busy for longer than a lease. So what others
//! judge the worker by runs on another thread, with a small scheduler and connections of its own.

use std::fmt::Display;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use skillopt_queue::{Ticket, queue, store};
use skillopt_runtime::clock::Stopwatch;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::beat::Beat;
use crate::lifeline::Lifeline;
use crate::ops;
use crate::patience::Patience;
use crate::shift::{Shift, Way};

/// How long requests under way may still take at the end.
const LAST_REQUESTS_MAX: Duration = Duration::from_millis(200);

/// The thread; dropping it ends and joins it.
pub(crate) struct Pulse {
    stop: CancellationToken,
    ended: Option<oneshot::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left, or the health pages cannot be served.
    pub(crate) fn start(shift: &Arc<Shift>) -> Result<Self, queue::Error> {
        let stop = CancellationToken::new();
        let (built, is_built) = mpsc::sync_channel(1);
        let (told, ended) = oneshot::channel();
        let (shift, until) = (Arc::clone(shift), stop.clone());
        let run = move || {
            // Made and dropped here: no runtime may end inside another one.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(e) => return built.send(Err(e)).unwrap_or_default(),
            };
            // The worker waits for this.
            built.send(Ok(())).unwrap_or_default();
            let _stop_all = OnPanic(&shift);
            runtime.block_on(pulse(&shift, &until));
            runtime.shutdown_timeout(LAST_REQUESTS_MAX);
            // Nobody listens if the worker was dropped.
            told.send(()).unwrap_or_default();
        };
        let thread = std::thread::Builder::new().name("pulse".to_owned());
        let thread = thread.spawn(run).map_err(|e| no_thread(&e))?;
        let built = is_built.recv().map_err(|e| no_thread(&e))?;
        built.map_err(|e| no_thread(&e))?;
        Ok(Self {
            stop,
            ended: Some(ended),
            thread: Some(thread),
        })
    }

    /// Takes the worker off the list and ends the thread.
    ///
    /// # Errors
    /// The thread ended by itself, which it does by a fault only.
    pub(crate) async fn end(mut self) -> Result<(), queue::Error> {
        self.stop.cancel();
        match self.ended.take() {
            Some(ended) => ended.await.map_err(|_| no_thread(&FAULT)),
            None => Ok(()),
        }
    }
}

/// What is said of a thread that met a fault.
const FAULT: &str = "it met a fault in this program; please report it with the lines above";

/// Without renewals there is no work: everything stops if the thread meets a fault.
struct OnPanic<'a>(&'a Shift);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.drain.cancel();
            self.0.stop.now.cancel();
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told where it happened.
            drop(thread.join());
        }
    }
}

fn no_thread(error: &dyn Display) -> queue::Error {
    queue::Error::Store(store::Error::Io {
        place: "the thread that renews leases".to_owned(),
        detail: error.to_string(),
    })
}

async fn pulse(shift: &Arc<Shift>, stop: &CancellationToken) {
    let serve = ops::serve(shift, stop);
    let live = async {
        let connected = stop.run_until_cancelled(connect(shift)).await;
        if let Some(lifeline) = connected {
            let beat = Beat::new(shift, lifeline.board.clone());
            let lively = async { tokio::join!(renew(shift, &lifeline), beat.go_on()) };
            stop.run_until_cancelled(lively).await;
            beat.leave().await;
        }
    };
    tokio::join!(serve, live);
}

async fn connect(shift: &Shift) -> Lifeline {
    let mut patience = Patience::default();
    loop {
        match (shift.worker.connect)().await {
            Ok(lifeline) => {
                shift.reached(Way::Pulse);
                return lifeline;
            }
            Err(e) => {
                shift.unreached(Way::Pulse, &e);
                patience.wait().await;
            }
        }
    }
}

/// Renews all leases in one request, three times per lease time. Goes on until dropped.
async fn renew(shift: &Shift, lifeline: &Lifeline) {
    let ttl = shift.worker.settings.lease_ttl;
    let mut wait = ttl / 3;
    loop {
        tokio::time::sleep(wait).await;
        let held = shift.held.all();
        wait = ttl / 3;
        if held.is_empty() {
            continue;
        }
        let tickets: Vec<Ticket> = held.iter().map(|(ticket, _)| *ticket).collect();
        let asked = Stopwatch::start();
        // An answer that takes longer than this is late for the leases.
        let renewal = lifeline.queue.renew(&tickets, ttl);
        match tokio::time::timeout(ttl / 3, renewal).await {
            Ok(Ok(answers)) => {
                shift.reached(Way::Pulse);
                for ((_, job), answer) in held.iter().zip(answers) {
                    shift.worker.metrics.renewed(job.renewed(answer, asked));
                }
            }
            Ok(Err(e)) => {
                shift.unreached(Way::Pulse, &e);
                wait = ttl / 30;
            }
            Err(_) => {
                shift.unreached(Way::Pulse, &"no answer to a renewal of leases");
                wait = ttl / 30;
            }
        }
    }
}
