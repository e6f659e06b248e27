//! How fast a case runs, and how often it is tried.

use serde_json::Value;

/// Returns what a second of the case lasts, in seconds: cases that are about a delay run faster.
pub(super) fn pace(case: &Value) -> f64 {
    let script = case["response"]["script"].as_array();
    let has_delay = |answer: &Value| answer["delay_s"].is_number();
    if script.into_iter().flatten().any(has_delay) {
        0.1
    } else {
        1.0
    }
}

/// Returns how many tries a call has. The library below the reference tries again by itself;
/// where that is no fault of the reference, its tries belong to the one budget that we have.
pub(super) fn budget(case: &Value, retries: u64) -> u32 {
    let sleeps = case["expected_request"]["sleeps"].as_array();
    let by_library = |sleep: &Value| sleep["by"] == "transport";
    let count = case["expected_request"]["request_count"].as_u64();
    let tries = match count {
        Some(count)
            if case["reference_bug"] != true && sleeps.into_iter().flatten().any(by_library) =>
        {
            count.max(retries)
        }
        _ => retries,
    };
    u32::try_from(tries).unwrap_or(u32::MAX)
}
