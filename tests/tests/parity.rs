//! Every golden vector, file by file.

use skillopt_tests::parity::{AREAS, run_area};

#[test]
fn every_golden_vector_passes() {
    let mut failed = Vec::new();
    let mut passed = 0;
    for area in AREAS {
        for report in run_area(area).unwrap() {
            passed += report.passed;
            failed.extend(
                report
                    .failed
                    .into_iter()
                    .map(|(id, why)| format!("{} {id}: {why}", report.file)),
            );
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(passed > 1_000, "only {passed} cases were found");
}
