//! Runs golden vectors and lists the ids that fail: `cargo xtask parity [AREA[/FILE]]`.
//!
//! Exit code 0 if every case passed, 1 if one failed or none was found, 2 if the vectors cannot be
//! read.

use std::collections::BTreeMap;
use std::process::ExitCode;

use skillopt_tests::parity::{AREAS, Report, run_area};

/// Longest text shown of what a case saw, in characters.
const SHOWN_MAX: usize = 600;

fn main() -> ExitCode {
    let filter = std::env::args().nth(1);
    match run(filter.as_deref()) {
        Ok(Total {
            passed,
            failed,
            left_out,
        }) => {
            let count: usize = left_out.values().sum();
            println!("{passed} passed, {failed} failed, {count} left out");
            for (why, count) in left_out {
                println!("  {count} left out: {why}");
            }
            if failed == 0 && passed > 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// What all files came to.
#[derive(Default)]
struct Total {
    passed: usize,
    failed: usize,
    /// Cases that were not run, by the reason.
    left_out: BTreeMap<String, usize>,
}

/// Runs an area, or those of its files whose name contains what follows the slash.
fn run(filter: Option<&str>) -> anyhow::Result<Total> {
    let (area, file) = match filter {
        Some(filter) => filter.split_once('/').unwrap_or((filter, "")),
        None => ("", ""),
    };
    if !area.is_empty() && !AREAS.contains(&area) {
        anyhow::bail!("area `{area}` is unknown; known: {}", AREAS.join(", "));
    }
    let mut total = Total::default();
    for name in AREAS
        .iter()
        .filter(|name| area.is_empty() || **name == area)
    {
        for report in run_area(name)?.iter().filter(|r| r.file.contains(file)) {
            show(report);
            total.passed += report.passed;
            total.failed += report.failed.len();
            for (_, why) in &report.left_out {
                *total.left_out.entry(why.clone()).or_default() += 1;
            }
        }
    }
    Ok(total)
}

fn show(report: &Report) {
    let failed = report.failed.len();
    println!("{}: {} passed, {failed} failed", report.file, report.passed);
    for (id, why) in &report.left_out {
        println!("  {id} is left out: {why}");
    }
    for (id, why) in &report.failed {
        println!(
            "  {id}: {}",
            why.chars().take(SHOWN_MAX).collect::<String>()
        );
    }
}
