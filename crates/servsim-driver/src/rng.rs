//! Reproducible random streams, one per (seed, purpose, index).
//!
//! Generator: xoshiro256** 1.0 (Blackman and Vigna 2018), seeded through `SplitMix64`. The numbers are
//! part of the product's behaviour, so the generator lives here instead of following a library's
//! versions: the same seed must give the same database and the same requests in every release.

/// What a stream is used for; streams of different purposes never overlap in practice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Constants of the whole database or run (index: which).
    Constants = 1,
    /// Rows of a table while loading (index: table and warehouse).
    Load = 2,
    /// Requests of one user before the measurement.
    WarmUp = 3,
    /// Requests of one user inside the measurement.
    Measured = 4,
    /// Keying and think times of one user.
    Waiting = 5,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    state: [u64; 4],
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    /// The stream of `seed` for a purpose and an index (a user, or a table and warehouse).
    pub fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        let mut key = seed;
        let mixed = splitmix(&mut key) ^ (purpose as u64) << 56;
        key = mixed;
        key = splitmix(&mut key) ^ index;
        Stream { state: std::array::from_fn(|_| splitmix(&mut key)) }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform integer in `0..bound`, without bias (Lemire 2019).
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no random element");
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            let low = product as u64;
            if low >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A uniform integer in `low..=high`.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        debug_assert!(low <= high);
        low + self.below((i64::from(high) - i64::from(low) + 1) as u64) as i32
    }

    /// A uniform number in (0, 1], so that its logarithm is finite.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `percent` / 100.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Shuffles `items` uniformly (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_seed_purpose_and_index() {
        let first = |seed, purpose, index| Stream::new(seed, purpose, index).bits();
        let base = first(42, Purpose::Measured, 3);
        assert_eq!(base, first(42, Purpose::Measured, 3));
        for other in
            [first(43, Purpose::Measured, 3), first(42, Purpose::WarmUp, 3), first(42, Purpose::Measured, 4)]
        {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_generator_follows_its_published_recurrence() {
        // First output of xoshiro256** from the state 1, 2, 3, 4, as published with the algorithm.
        let mut stream = Stream { state: [1, 2, 3, 4] };
        assert_eq!([stream.bits(), stream.bits(), stream.bits()], [11520, 0, 1_509_978_240]);
    }

    #[test]
    fn bounded_numbers_are_uniform() {
        let mut stream = Stream::new(7, Purpose::Load, 0);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(7) as usize] += 1;
        }
        let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 22.46, "chi-square {chi} exceeds the 0.1 % point of 6 degrees of freedom");
    }
}
