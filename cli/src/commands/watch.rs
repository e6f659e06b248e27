//! `skillopt watch`: follows a run, of a folder or of a cluster.

mod cluster;
mod keys;
mod lines;
mod local;
mod pace;

use std::io::IsTerminal as _;
use std::time::Duration;

use skillopt_coordinator::read_model::is_over;
use skillopt_runtime::Shutdown;

use crate::args::{ViewArgs, WatchArgs};
use crate::commands::sweep_watch;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::is_run;
use crate::output::Out;
use crate::process;
use crate::tui::{Look, Screen, Size, frame_run, print};

use cluster::Cluster;
use local::Local;

/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Where the rows come from.
enum Source {
    Local(Box<Local>),
    Cluster(Cluster),
}

impl Source {
    /// Brings the screen up to date.
    ///
    /// # Errors
    /// The run cannot be read, or its coordinator refuses or is gone for too long.
    async fn look(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        match self {
            Self::Local(local) => local.look(screen),
            Self::Cluster(cluster) => cluster.look(screen).await,
        }
    }

    /// Returns how long to wait before the next look: looking takes a tenth of the time at most.
    fn pause(&self) -> Duration {
        match self {
            Self::Local(local) => LOOK.max(local.cost() * 10),
            Self::Cluster(_) => LOOK,
        }
    }

    /// Returns whether nothing more comes, as far as a program is concerned: a run that waits for
    /// a person does not go on by itself.
    fn is_at_rest(screen: &Screen) -> bool {
        is_over(&screen.view.run.state) || screen.notice.is_some()
    }
}

pub(crate) fn run(args: &WatchArgs, out: &Out) -> Result<Exit, Failure> {
    let shutdown = Shutdown::new();
    let work = async {
        // A folder of this machine is meant even if the environment names a coordinator.
        let mut source = if args.remote.coordinator.is_none() || is_run(&args.run) {
            Source::Local(Box::new(Local::new(&args.run)))
        } else {
            let id = args.run.display().to_string();
            Source::Cluster(Cluster::start(&args.remote, &id, out)?)
        };
        let mut screen = Screen::default();
        let first = source.look(&mut screen);
        match shutdown.drain.run_until_cancelled(first).await {
            None => return Ok(Exit::Interrupted),
            Some(Ok(())) => {}
            Some(Err(failure)) => {
                // A sweep has an id of its own.
                if failure.exit == Exit::Usage && matches!(source, Source::Cluster(_)) {
                    let id = args.run.display().to_string();
                    if let Some(exit) = sweep_watch::watch(args, &id, out, &shutdown).await? {
                        return Ok(exit);
                    }
                }
                return Err(failure);
            }
        }
        let is_terminal = std::io::stdout().is_terminal();
        if args.how.once {
            once(&screen, args.how, out);
            let is_at_rest = Source::is_at_rest(&screen);
            Ok(if is_at_rest {
                ending(&screen)
            } else {
                Exit::Done
            })
        } else if out.json || !is_terminal || !std::io::stdin().is_terminal() {
            lines::follow(&mut source, screen, out, &shutdown).await
        } else {
            keys::follow(
                &mut source,
                screen,
                Look::of(out.paint.0, args.how.ascii),
                &shutdown,
            )
            .await
        }
    };
    process::block_on(&shutdown, |_| {}, work)?
}

fn once(screen: &Screen, how: ViewArgs, out: &Out) {
    if out.json {
        lines::tell_all(screen, out);
        return;
    }
    // A reader that went away has seen enough.
    let look = Look::of(out.paint.0, how.ascii);
    drop(print(
        &frame_run(screen, Size::now(), look),
        look.has_colour,
    ));
}

/// Returns the code for how the run stands.
fn ending(screen: &Screen) -> Exit {
    match screen.view.run.state.as_str() {
        "cannot judge" => Exit::NothingJudged,
        "cancelled" => Exit::Cancelled,
        "failed" => Exit::Usage,
        state if state.starts_with("paused") || state == "stopped" => Exit::Paused,
        _ => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_says_how_the_run_ended() {
        for (state, want) in [
            ("improved", Exit::Done),
            ("no improvement", Exit::Done),
            ("evaluated", Exit::Done),
            ("cannot judge", Exit::NothingJudged),
            ("cancelled", Exit::Cancelled),
            ("failed", Exit::Usage),
            ("paused (provider)", Exit::Paused),
            ("paused (by hand)", Exit::Paused),
            ("stopped", Exit::Paused),
        ] {
            let mut screen = Screen::default();
            screen.view.run.state = state.to_owned();
            assert_eq!(ending(&screen), want, "{state}");
        }
    }
}
