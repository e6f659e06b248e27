//! The Mersenne Twister MT19937, so that ratio splits and option orders equal published ones bit by
//! bit (benchmarks spec 1.1).

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// A generator seeded the way published splits were.
#[derive(Clone, Debug)]
pub struct Mersenne {
    state: Vec<u32>,
    next: usize,
}

impl Mersenne {
    /// Seeds by array with the 32-bit little-endian words of |seed|; the sign is ignored.
    #[must_use]
    pub fn new(seed: i64) -> Self {
        let seed = seed.unsigned_abs();
        // The casts keep the low and the high word, as meant.
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key: &[u32] = if high == 0 { &[low] } else { &[low, high] };
        Self::from_key(key)
    }

    fn from_key(key: &[u32]) -> Self {
        let mut state = vec![0u32; WORDS];
        let mut last = 19_650_218u32;
        for (i, word) in state.iter_mut().enumerate() {
            if i > 0 {
                last = 1_812_433_253u32
                    .wrapping_mul(last ^ (last >> 30))
                    .wrapping_add(i as u32);
            }
            *word = last;
        }
        let mut i = 1;
        for j in 0..WORDS.max(key.len()) {
            let j = j % key.len();
            let mixed = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_664_525);
            state[i] = (state[i] ^ mixed)
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i = Self::advance(&mut state, i);
        }
        for _ in 1..WORDS {
            let mixed = (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_566_083_941);
            state[i] = (state[i] ^ mixed).wrapping_sub(i as u32);
            i = Self::advance(&mut state, i);
        }
        state[0] = 0x8000_0000;
        Self { state, next: WORDS }
    }

    /// Steps to the next word of seeding; the first word takes the last one's value on a wrap.
    fn advance(state: &mut [u32], i: usize) -> usize {
        if i + 1 < WORDS {
            return i + 1;
        }
        state[0] = state[WORDS - 1];
        1
    }

    /// Returns the next 32 bits.
    pub fn next_word(&mut self) -> u32 {
        if self.next >= WORDS {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..WORDS {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % WORDS] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + SHIFT) % WORDS] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// Returns a number below `bound`, every one equally likely. `bound` is at least 1.
    fn below(&mut self, bound: u32) -> u32 {
        let shift = bound.leading_zeros();
        loop {
            let draw = self.next_word() >> shift;
            if draw < bound {
                return draw;
            }
        }
    }

    /// Shuffles in place. More than 2^32 - 1 elements keep their tail in order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        for i in (1..count).rev() {
            let j = self.below(i + 1);
            items.swap(i as usize, j as usize);
        }
    }
}

/// Returns the numbers 0 … `count` - 1 in the order the seed gives.
#[must_use]
pub fn shuffled(count: usize, seed: i64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    Mersenne::new(seed).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_are_permutations_and_pure() {
        for (count, seed) in [(0, 0), (1, 1), (2, -5), (1000, i64::MIN), (1000, i64::MAX)] {
            let order = shuffled(count, seed);
            assert_eq!(order, shuffled(count, seed));
            let mut sorted = order;
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
        }
    }
}
