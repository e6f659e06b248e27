//! Measures sandboxes on this machine and prints one JSON object; `cargo xtask bench sandbox` runs it.
//!
//! With an argument, that program's `sandbox-init` is used as init, as the product does; without one,
//! this program is its own.

use std::error::Error;

use serde_json::json;
use skillopt_runtime::clock::Stopwatch;
use skillopt_sandbox::{Ending, Host, Limits, Policy, Settings, Task};

const RUNS: usize = 60;
const AT_ONCE: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if args.first().is_some_and(|mode| mode == "init") {
        // Its own words go to the sandbox's error output.
        let code = skillopt_sandbox::init::main(&args[1..]);
        return if code == 0 {
            Ok(())
        } else {
            Err("init".into())
        };
    }
    let folder = tempfile::tempdir()?;
    let (init, mode) = match args.first() {
        Some(program) => (program.into(), "sandbox-init"),
        None => (std::env::current_exe()?, "init"),
    };
    let host = Host::open(Settings {
        folder: folder.path().to_path_buf(),
        init,
        init_args: vec![mode.to_owned()],
        policy: Policy::Auto,
        bubblewrap: None,
        cgroup: None,
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let mut times = runtime.block_on(one_after_another(&host))?;
    times.sort_by(f64::total_cmp);
    let at_once_s = runtime.block_on(at_once(&host))?;
    let figures = json!({
        "level": host.offers().words(host.level()),
        "median_ms": times[RUNS / 2],
        "p90_ms": times[RUNS * 9 / 10],
        "min_ms": times[0],
        "at_once_s": at_once_s,
    });
    #[expect(clippy::print_stdout, reason = "what the program is for")]
    {
        println!("{figures}");
    }
    Ok(())
}

/// The whole life of a room around a program that does nothing.
async fn one(host: Host) -> Result<(), skillopt_sandbox::Error> {
    let task = Task {
        program: "/usr/bin/true".to_owned(),
        ..Task::default()
    };
    let mut room = host.room(Vec::new(), Limits::default())?;
    let report = room.run(&task, &mut |_| {}).await?;
    assert_eq!(report.ending, Ending::Exited(0), "{report:?}");
    Ok(())
}

async fn one_after_another(host: &Host) -> Result<Vec<f64>, skillopt_sandbox::Error> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let since = Stopwatch::start();
        one(host.clone()).await?;
        times.push(since.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

async fn at_once(host: &Host) -> Result<f64, Box<dyn Error>> {
    let since = Stopwatch::start();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        all.spawn(one(host.clone()));
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    Ok(since.elapsed().as_secs_f64())
}
