//! Runs golden vectors and lists the ids that fail: `cargo xtask parity [AREA[/FILE]]`.
//!
//! Exit code 0 if every case passed, 1 if one failed or none was found, 2 if the vectors cannot be
//! read.

use std::process::ExitCode;

use skillopt_tests::parity::{AREAS, Report, run_area};

/// Longest text shown of what a case saw, in characters.
const SHOWN_MAX: usize = 600;

fn main() -> ExitCode {
    let filter = std::env::args().nth(1);
    match run(filter.as_deref()) {
        Ok((passed, failed)) => {
            println!("{passed} passed, {failed} failed");
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

/// Runs an area, or those of its files whose name contains what follows the slash.
fn run(filter: Option<&str>) -> anyhow::Result<(usize, usize)> {
    let (area, file) = match filter {
        Some(filter) => filter.split_once('/').unwrap_or((filter, "")),
        None => ("", ""),
    };
    if !area.is_empty() && !AREAS.contains(&area) {
        anyhow::bail!("area `{area}` is unknown; known: {}", AREAS.join(", "));
    }
    let (mut passed, mut failed) = (0, 0);
    for name in AREAS
        .iter()
        .filter(|name| area.is_empty() || **name == area)
    {
        for report in run_area(name)?.iter().filter(|r| r.file.contains(file)) {
            show(report);
            passed += report.passed;
            failed += report.failed.len();
        }
    }
    Ok((passed, failed))
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
