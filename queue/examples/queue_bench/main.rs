//! Measures a queue.
//!
//! `queue_bench [JOBS] [DIR]` prints the figures of [`skillopt_queue::bench`], the queue in this
//! process. `queue_bench --redis URL [JOBS]` measures the queue on a server: this process submits
//! and gathers, two others work; the last line is JSON.

mod floor;
mod redis_bench;

use std::path::PathBuf;

use skillopt_queue::MemoryStore;
use skillopt_queue::bench::{self, Plan, Report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "--redis") {
        return redis_bench::main(&args[1..]);
    }
    let mut plan = Plan::default();
    if let Some(jobs) = args.first() {
        plan.jobs = jobs.parse()?;
    }
    let dir = args.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    print(
        "in memory",
        runtime.block_on(bench::rounds(MemoryStore::new().into(), plan))?,
    );
    let dir = tempfile::tempdir_in(dir)?;
    print(
        "on a file",
        runtime.block_on(bench::on_sqlite(dir.path(), plan))?,
    );
    Ok(())
}

fn print(name: &str, report: Report) {
    let cpu = report.cpu_us().unwrap_or(f64::NAN);
    println!(
        "{name}: {} jobs, {:.0} jobs/s, {cpu:.1} us CPU per job",
        report.jobs,
        report.rate()
    );
}
