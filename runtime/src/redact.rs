//! Keeps secrets out of what people and files get to see.

mod likely;

pub use likely::likely;

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Replaces every occurrence of a known secret in `text`.
///
/// Secrets under four characters are left alone: replacing them would shred ordinary words.
#[must_use]
pub fn redact(text: &str, secrets: &[&str]) -> String {
    let mut out = text.to_owned();
    for secret in secrets.iter().filter(|s| s.len() >= 4) {
        if out.contains(secret) {
            out = out.replace(secret, REDACTED);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_occurrence_goes_and_short_words_stay() {
        assert_eq!(
            redact("key sk-abc, again sk-abc, a", &["sk-abc", "a"]),
            "key [redacted], again [redacted], a"
        );
    }
}
