//! Waiting for something to be so, with a deadline.

use std::time::Duration;

use skillopt_runtime::clock::Stopwatch;

/// How long anything may take before a test gives up. Far above what is needed, since the machine
/// may be busy with other tests.
pub const LONG: Duration = Duration::from_secs(240);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Looks again and again until `look` finds something, or the deadline is over.
pub fn for_some<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Stopwatch::start();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.seconds() > limit.as_secs_f64() {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Looks again and again until `look` is true.
///
/// # Panics
/// It did not become true within [`LONG`]; `what` says what was waited for.
#[track_caller]
pub fn until(what: &str, mut look: impl FnMut() -> bool) {
    let found = for_some(LONG, || look().then_some(()));
    assert!(found.is_some(), "waited {LONG:?} in vain: {what}");
}
