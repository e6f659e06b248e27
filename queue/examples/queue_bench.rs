//! Prints the figures of [`skillopt_queue::bench`]: `queue_bench [JOBS] [DIR]`.

use std::path::PathBuf;

use skillopt_queue::MemoryStore;
use skillopt_queue::bench::{self, Plan, Report};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut plan = Plan::default();
    if let Some(jobs) = args.next() {
        plan.jobs = jobs.parse()?;
    }
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
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
