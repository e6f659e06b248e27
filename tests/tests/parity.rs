//! Every golden vector, file by file.

use skillopt_tests::parity::{AREAS, file_names, run_area, vectors_dir};

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

/// A file that nobody runs must say why.
#[test]
fn no_file_of_the_backends_is_passed_over() {
    let files = std::fs::read_dir(vectors_dir().join("backends")).unwrap();
    let files = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = files.filter(|name| name.ends_with(".json"));
    let reports = file_names("backends").unwrap();
    for file in files {
        assert!(reports.contains(&format!("backends/{file}")), "{file}");
    }
}
