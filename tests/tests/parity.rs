//! Every golden vector, file by file.

use skillopt_tests::parity::{AREAS, case_count, run_area};

/// How many cases each area of our own folder holds, and how many of them cannot be run yet.
const CASES: &[(&str, usize, usize)] = &[
    ("training", 1_206, 0),
    ("benchmarks", 162, 0),
    ("exec-streams", 44, 0),
    ("backends", 417, 0),
];

#[test]
fn every_golden_vector_passes() {
    let mut failed = Vec::new();
    for area in AREAS {
        let (mut passed, mut missed, mut left_out) = (0, 0, 0);
        for report in run_area(area).unwrap() {
            passed += report.passed;
            missed += report.failed.len();
            left_out += report.left_out.len();
            failed.extend(
                report
                    .failed
                    .into_iter()
                    .map(|(id, why)| format!("{} {id}: {why}", report.file)),
            );
        }
        // Nothing is lost between the folder and the sum.
        let cases = case_count(area).unwrap();
        assert_eq!(passed + missed + left_out, cases, "{area}");
        if std::env::var_os("SKILLOPT_VECTORS").is_none() {
            let known = CASES.contains(&(*area, cases, left_out));
            assert!(known, "{area}: {cases} cases, {left_out} of them left out");
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
