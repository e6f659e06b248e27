//! `skillopt top`: all that a cluster, or this machine, is at.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use skillopt_coordinator::read_model::{
    Headline, Overview, RunLine, is_over, number, plural, time_of_day,
};
use skillopt_proto::v1::OverviewRequest;
use skillopt_runtime::Shutdown;
use skillopt_runtime::clock::{Stopwatch, unix_ms};

use super::runs::collect;
use crate::args::TopArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::found::Found;
use crate::output::Out;
use crate::process;
use crate::remote::{Address, Away, Patience, Remote};
use crate::tui::{Key, Look, Size, Terminal, frame_overview, print};

/// How often the cluster is asked.
const LOOK: Duration = Duration::from_secs(1);
/// How often keys are looked for.
const TICK: Duration = Duration::from_millis(40);
/// Folders below folders that are looked into.
const DEPTH_MAX: usize = 4;

/// Where the rows come from.
#[allow(clippy::large_enum_variant, reason = "there is one of it")]
enum Source {
    Local(PathBuf),
    Cluster {
        remote: Remote,
        away: Option<Away>,
        /// Asks for the first time, and says when nobody answers.
        first: Remote,
    },
}

/// What is shown.
#[derive(Default)]
struct Seen {
    overview: Overview,
    link: Option<String>,
}

pub(crate) fn run(args: &TopArgs, out: &Out) -> Result<Exit, Failure> {
    let shutdown = Shutdown::new();
    let work = async {
        let mut source = match (&args.dir, &args.remote.coordinator) {
            (None, Some(_)) => {
                let mut quiet = out.clone();
                quiet.quiet = true;
                let address = Address::of(&args.remote)?;
                Source::Cluster {
                    remote: Remote::new(&address, Patience::ONE_CALL, &quiet),
                    away: None,
                    first: Remote::new(&address, Patience::ONE_CALL, out),
                }
            }
            (dir, _) => {
                let dir = dir.clone().unwrap_or_else(|| PathBuf::from("outputs"));
                if !dir.is_dir() {
                    return Err(Failure::usage(format!("`{}` is no folder", dir.display()))
                        .hint("name a coordinator with --coordinator, or a folder of runs"));
                }
                Source::Local(dir)
            }
        };
        let mut seen = Seen::default();
        let first = source.first(&mut seen);
        match shutdown.drain.run_until_cancelled(first).await {
            Some(looked) => looked?,
            None => return Ok(Exit::Interrupted),
        }
        let terminals = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
        if args.how.once {
            if out.json {
                out.object("overview", json!(seen.overview));
            } else {
                let look = Look::of(out.paint.0, args.how.ascii);
                drop(print(
                    &frame(&source, &seen, Size::now(), look),
                    look.has_colour,
                ));
            }
            Ok(Exit::Done)
        } else if out.json || !terminals {
            lines(&mut source, seen, out, &shutdown).await
        } else {
            keys(
                &mut source,
                seen,
                Look::of(out.paint.0, args.how.ascii),
                &shutdown,
            )
            .await
        }
    };
    process::block_on(&shutdown, |_| {}, work)?
}

impl Source {
    const fn title(&self) -> &'static str {
        match self {
            Self::Local(_) => "runs",
            Self::Cluster { .. } => "cluster",
        }
    }

    /// Looks for the first time: somebody has to answer.
    async fn first(&mut self, seen: &mut Seen) -> Result<(), Failure> {
        if let Self::Cluster { first, .. } = self {
            let answer = first
                .call(async |clients| clients.cluster().overview(OverviewRequest {}).await)
                .await?;
            seen.overview = decode(&answer.overview_json)?;
            return Ok(());
        }
        self.look(seen).await
    }

    /// Looks again; a coordinator that does not answer leaves the numbers as they were.
    async fn look(&mut self, seen: &mut Seen) -> Result<(), Failure> {
        match self {
            Self::Local(dir) => seen.overview = local(dir),
            Self::Cluster { remote, away, .. } => {
                let answer = remote
                    .call_once(async |clients| clients.cluster().overview(OverviewRequest {}).await)
                    .await;
                let heard_ms = seen.overview.at_unix_ms;
                *away = Away::after(away.take(), answer.as_ref().err(), heard_ms);
                match answer {
                    Ok(answer) => seen.overview = decode(&answer.overview_json)?,
                    Err(failure) if away.is_none() => return Err(failure),
                    Err(_) => {}
                }
            }
        }
        self.say(seen);
        Ok(())
    }

    /// Says what is wrong with the connection now.
    fn say(&self, seen: &mut Seen) {
        seen.link = match self {
            Self::Cluster {
                away: Some(away), ..
            } => Some(away.words(unix_ms())),
            _ => None,
        };
    }

    fn pause(&self) -> Duration {
        match self {
            Self::Cluster {
                away: Some(away), ..
            } => away.pause(),
            _ => LOOK,
        }
    }
}

fn decode(text: &str) -> Result<Overview, Failure> {
    serde_json::from_str(text).map_err(|e| {
        Failure::new(
            Exit::Unexpected,
            format!("the coordinator's overview cannot be read: {e}"),
        )
    })
}

/// Looks at the runs below a folder. Nobody counts slots and jobs there, so these are absent.
fn local(dir: &Path) -> Overview {
    let mut dirs = Vec::new();
    collect(dir, DEPTH_MAX, &mut dirs);
    let mut unreadable = 0;
    let found = dirs.iter().filter_map(|dir| {
        // One damaged run must not hide the others.
        let Ok(found) = Found::read(dir, None) else {
            unreadable += 1;
            return None;
        };
        let run = &found.view.run;
        let state = match &found.notice {
            Some(notice) => notice.state.clone(),
            None => run.state.clone(),
        };
        Some(RunLine {
            run: run.run.clone(),
            name: dir.display().to_string(),
            state,
            steps_done: run.steps_done,
            steps_total: run.steps_total,
            lift_points: run
                .best
                .zip(run.baseline)
                .filter(|_| run.accepted > 0)
                .map(|(best, start)| (best - start) * 100.0),
        })
    });
    let mut runs: Vec<RunLine> = found.collect();
    // What moves comes first, what is over last.
    let order = |state: &str| match state {
        "running" => 0,
        state if is_over(state) => 2,
        _ => 1,
    };
    runs.sort_by_key(|run| order(&run.state));
    let n = |wanted| {
        runs.iter()
            .filter(|run| order(&run.state) == wanted)
            .count() as u64
    };
    let first = match n(0) {
        0 => "Nothing is going on.".to_owned(),
        running => format!("{} going on.", plural(running, "run")),
    };
    let mut second = Vec::new();
    match n(1) {
        0 => {}
        1 => second.push("1 run waits for a person.".to_owned()),
        n => second.push(format!("{n} runs wait for a person.")),
    }
    if unreadable > 0 {
        let runs = plural(unreadable, "run");
        second.push(format!("{runs} cannot be read; `skillopt runs` says why."));
    }
    let second = second.join(" ");
    Overview {
        at_unix_ms: unix_ms(),
        headline: Headline { first, second },
        runs,
        ..Overview::default()
    }
}

fn frame(
    source: &Source,
    seen: &Seen,
    size: Size,
    look: Look,
) -> Vec<ratatui::text::Line<'static>> {
    frame_overview(
        &seen.overview,
        source.title(),
        seen.link.as_deref(),
        size,
        look,
    )
}

/// One line, or object, whenever something changed.
async fn lines(
    source: &mut Source,
    mut seen: Seen,
    out: &Out,
    shutdown: &Shutdown,
) -> Result<Exit, Failure> {
    let mut told = String::new();
    loop {
        let overview = &seen.overview;
        if out.json {
            out.object("overview", json!(overview));
        } else {
            let line = format!(
                "{} a minute, {} of {} slots, {} waiting. {} {}",
                number(overview.finished_a_minute),
                number(overview.running),
                number(overview.slots),
                number(overview.waiting),
                overview.headline.first,
                seen.link.as_deref().unwrap_or(&overview.headline.second),
            );
            if line != told {
                out.line(format!("{} {line}", time_of_day(overview.at_unix_ms)));
                told = line;
            }
        }
        if out.is_broken() {
            return Ok(Exit::Done);
        }
        let next = async {
            tokio::time::sleep(source.pause()).await;
            source.look(&mut seen).await
        };
        match shutdown.drain.run_until_cancelled(next).await {
            Some(looked) => looked?,
            None => return Ok(Exit::Done),
        }
    }
}

/// Shows it on the terminal until the person leaves; that is how it ends, so with code 0.
async fn keys(
    source: &mut Source,
    mut seen: Seen,
    look: Look,
    shutdown: &Shutdown,
) -> Result<Exit, Failure> {
    let mut terminal = Terminal::take(look)?;
    let mut looked = Stopwatch::start();
    let mut is_held = false;
    let mut is_new = true;
    loop {
        if !is_held && looked.elapsed() >= source.pause() {
            let next = source.look(&mut seen);
            match shutdown.drain.run_until_cancelled(next).await {
                Some(seen) => seen?,
                None => return Ok(Exit::Done),
            }
            looked = Stopwatch::start();
            is_new = true;
        }
        while let Some(key) = terminal.key()? {
            is_new = true;
            match key {
                Key::Char('q') | Key::Interrupt => return Ok(Exit::Done),
                Key::Char('.') => is_held = !is_held,
                _ => {}
            }
        }
        if is_new || seen.link.is_some() {
            source.say(&mut seen);
            if is_held {
                seen.link = Some("held by you".to_owned());
            }
            terminal.draw(frame(source, &seen, terminal.size()?, look))?;
            is_new = false;
        }
        tokio::select! {
            () = shutdown.drain.cancelled() => return Ok(Exit::Done),
            () = tokio::time::sleep(TICK) => {}
        }
    }
}
