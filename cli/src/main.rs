//! `skillopt`: what users type. Arguments, output and exit codes; the work is done elsewhere.

mod local;
mod models;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_default();
    let sets: Vec<String> = args.collect();
    if path == "simdata" {
        let sizes = skillopt_sim::Sizes { train: 200, val: 100, test: 100 };
        return match skillopt_sim::generate(std::path::Path::new(&sets[0]), 42, sizes) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    match go(&path, &sets) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn go(path: &str, sets: &[String]) -> anyhow::Result<()> {
    let mut flat = skillopt_config::load(path.as_ref())?;
    for set in sets {
        flat.set(set)?;
    }
    let names = skillopt_benchmarks::registry::names();
    let env = |name: &str| std::env::var(name).ok();
    let context = skillopt_config::Context {
        benchmarks: Some(&names),
        env: &env,
    };
    let (config, _) = skillopt_config::RunConfig::resolve(&flat, &context)?;
    let prepared = skillopt_coordinator::prepare::prepare(&config, skillopt_worker::CHAT_LANE)?;
    let local = local::Local::open(&config, &prepared)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let shutdown = skillopt_runtime::Shutdown::new();
    let watcher = skillopt_coordinator::progress::Watcher::silent();
    let ending = runtime.block_on(local::run_training(
        &local, &config, &prepared, &shutdown, &watcher,
    ))?;
    println!("{ending:?}");
    Ok(())
}
