//! How far apart the clocks of a server and of this machine are.
//!
//! Certificates and tokens are refused at a wrong time, with words that blame everything else.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;

use http::HeaderMap;
use skillopt_runtime::clock::unix_ms;

/// By how many seconds the clock of the last server that told the time is ahead.
pub(super) struct Offset(AtomicI64);

/// No answer told the time.
const UNKNOWN: i64 = i64::MIN;

impl Default for Offset {
    fn default() -> Self {
        Self(AtomicI64::new(UNKNOWN))
    }
}

impl Offset {
    /// Reads the time that an answer tells.
    pub(super) fn note(&self, headers: &HeaderMap) {
        let date = headers.get(http::header::DATE);
        let theirs = date.and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        let since = theirs.and_then(|theirs| theirs.duration_since(UNIX_EPOCH).ok());
        let Some(theirs) = since.and_then(|since| i64::try_from(since.as_secs()).ok()) else {
            return;
        };
        let ours = i64::try_from(unix_ms() / 1_000).unwrap_or(i64::MAX);
        self.0.store(theirs - ours, Ordering::Relaxed);
    }

    pub(super) fn seconds(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|seconds| *seconds != UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_last_time_that_was_told_counts() {
        let offset = Offset::default();
        assert_eq!(offset.seconds(), None);
        let mut headers = HeaderMap::new();
        offset.note(&headers);
        headers.insert("date", HeaderValue::from_static("yesterday"));
        offset.note(&headers);
        assert_eq!(offset.seconds(), None);
        let ours = UNIX_EPOCH + Duration::from_millis(unix_ms());
        for (theirs, want) in [
            (ours + Duration::from_secs(3_600), 3_600),
            (ours - Duration::from_secs(3_600), -3_600),
        ] {
            headers.insert("date", date(theirs));
            offset.note(&headers);
            let seen = offset.seconds().unwrap();
            assert!((seen - want).abs() <= 2, "{seen} {want}");
        }
    }

    fn date(time: SystemTime) -> HeaderValue {
        HeaderValue::from_str(&httpdate::fmt_http_date(time)).unwrap()
    }
}
