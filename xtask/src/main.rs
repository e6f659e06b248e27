//! Generators and checks in Rust instead of scripts: `cargo xtask help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("parity") => parity(args.get(1).map(String::as_str)),
        _ => {
            eprintln!("usage: cargo xtask parity [AREA | AREA/FILE]");
            ExitCode::from(2)
        }
    }
}

/// Runs the golden vectors of an area (or all), or only one file of it.
fn parity(filter: Option<&str>) -> ExitCode {
    let (area, file) = match filter.map(|f| f.split_once('/').unwrap_or((f, ""))) {
        Some((area, file)) => (Some(area), file),
        None => (None, ""),
    };
    let (mut passed, mut failed) = (0, 0);
    for name in skillopt_tests::parity::AREAS
        .iter()
        .filter(|a| area.is_none_or(|want| want == **a))
    {
        match skillopt_tests::parity::run_area(name) {
            Ok(reports) => {
                for report in reports.iter().filter(|r| r.file.contains(file)) {
                    passed += report.passed;
                    failed += report.failed.len();
                    println!(
                        "{}: {} passed, {} failed",
                        report.file,
                        report.passed,
                        report.failed.len()
                    );
                    for (id, why) in &report.failed {
                        println!("  {id}: {}", why.chars().take(600).collect::<String>());
                    }
                }
            }
            Err(error) => {
                eprintln!("error: {error:#}");
                return ExitCode::from(2);
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
