//! `skillopt`: what users type. Arguments, output and exit codes; the work is done elsewhere.

mod local;
mod models;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_default();
    let sets: Vec<String> = args.collect();
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
