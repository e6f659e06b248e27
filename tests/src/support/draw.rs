//! Random numbers from a seed that is printed.

use skillopt_runtime::clock::unix_ms;

/// The variable that repeats a test with the seed it printed.
pub const SEED: &str = "SKILLOPT_TEST_SEED";

/// A row of random numbers (SplitMix64).
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    /// Starts a row with the seed of the environment, or a new one, and prints it.
    ///
    /// # Panics
    /// The variable is set and no number.
    #[must_use]
    pub fn new() -> Self {
        let seed = match std::env::var(SEED) {
            Ok(text) => text.parse().expect("the seed is a whole number"),
            Err(_) => unix_ms(),
        };
        println!("seed {seed}; repeat with {SEED}={seed}");
        Self(seed)
    }

    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns `n` letters, to the next ten, that cannot be compressed by much.
    #[must_use]
    pub fn letters(&mut self, n: usize) -> String {
        const ALL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut text = String::with_capacity(n + 10);
        while text.len() < n {
            let bits = self.next();
            text.extend((0..10).map(|at| char::from(ALL[(bits >> (6 * at)) as usize % 64])));
        }
        text
    }

    /// Returns a number below `n`, 0 if `n` is 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        let next = self.next();
        if n == 0 { 0 } else { next % n }
    }
}

impl Default for Draw {
    fn default() -> Self {
        Self::new()
    }
}
