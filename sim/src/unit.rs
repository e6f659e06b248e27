//! Chance without chance: numbers that follow from what they are drawn for (chapter 2).

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Byte between the parts of a draw.
const SEPARATOR: [u8; 1] = [0x1f];

/// Returns a number in [0, 1) that depends on `seed` and `parts` alone.
///
/// SHA-256 over the decimal seed and, for each part, byte 0x1f and its UTF-8; the first eight
/// bytes as a big-endian number, shifted right by 11, over 2^53.
#[must_use]
pub fn unit(seed: u64, parts: &[&str]) -> f64 {
    let mut digest = Sha256::new();
    digest.update(Decimal::new(seed).as_bytes());
    for part in parts {
        digest.update(SEPARATOR);
        digest.update(part.as_bytes());
    }
    let bits = first_word(&digest.finalize()) >> 11;
    // Both are exact: 53 bits fit a double's mantissa.
    bits as f64 / (1u64 << 53) as f64
}

/// Returns `floor(unit · n)`, an index below `n`; 0 if `n` is 0.
#[must_use]
pub fn pick(seed: u64, parts: &[&str], n: usize) -> usize {
    // Truncation is the floor here, and the product is below `n`.
    ((unit(seed, parts) * n as f64) as usize).min(n.saturating_sub(1))
}

/// Returns `h(x)`: the first 16 hex digits of the SHA-256 of `text` (chapter 6).
#[must_use]
pub fn short_hash(text: &str) -> String {
    let mut hex = String::with_capacity(16);
    // Writing to a string cannot fail.
    _ = write!(hex, "{:016x}", hash_word(text));
    hex
}

/// Returns `h(x)` as a number: the first eight bytes of the SHA-256 of `text`.
#[must_use]
pub(crate) fn hash_word(text: &str) -> u64 {
    first_word(&Sha256::digest(text.as_bytes()))
}

fn first_word(digest: &[u8]) -> u64 {
    digest
        .iter()
        .take(8)
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A number's decimal digits, without an allocation: this runs several times in every call.
struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    fn new(mut n: u64) -> Self {
        let mut decimal = Self {
            digits: [b'0'; 20],
            start: 20,
        };
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                return decimal;
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "the values are exact by definition")]
    fn the_golden_values_hold() {
        let check = |parts: &[&str], expected: f64| assert_eq!(unit(42, parts), expected);
        check(&["u", "sim-target", "val-00000"], 0.020_938_886_383_112_365);
        check(
            &["stick", "sim-target", "val-00000", ""],
            0.483_804_697_879_814_3,
        );
        check(
            &["u", "sim-target", "val-00000", "RULE:K00"],
            0.828_869_352_409_563_4,
        );
    }

    #[test]
    fn seeds_are_written_in_decimal() {
        for n in [0, 7, 42, 1_000_000_007, u64::MAX] {
            assert_eq!(Decimal::new(n).as_bytes(), n.to_string().as_bytes());
        }
    }

    #[test]
    fn short_hashes_are_the_start_of_sha_256() {
        assert_eq!(short_hash(""), "e3b0c44298fc1c14");
        assert_eq!(format!("{:016x}", hash_word("")), short_hash(""));
    }
}
