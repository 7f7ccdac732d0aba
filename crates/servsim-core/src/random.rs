//! Seeded random streams: the generator is `SplitMix64` (Steele, Lea & Flood, OOPSLA 2014), small
//! and of sufficient quality for delays and scheduling choices. Streams with the same seed and
//! name are equal on every host and with any number of threads; different names are independent.

/// A random stream, identified by a seed and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomStream {
    state: u64,
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl RandomStream {
    /// The stream `name` of `seed`; `name` says what the numbers are for.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a spreads the name; the mixer decorrelates it from the seed.
        let hash = name
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
        Self { state: mix(seed.wrapping_add(GOLDEN)) ^ mix(hash) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A whole number from 0 up to, not including, `bound`; 0 when `bound` is 0.
    ///
    /// Multiply-shift: the bias is below `bound` / 2^64, immeasurable for the bounds in use.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_name_give_the_same_stream_and_others_do_not() {
        let take = |seed, name| {
            let mut stream = RandomStream::new(seed, name);
            (0..4).map(|_| stream.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(take(1, "delay"), take(1, "delay"));
        assert_ne!(take(1, "delay"), take(2, "delay"));
        assert_ne!(take(1, "delay"), take(1, "schedule"));
    }

    #[test]
    fn bounded_numbers_are_uniform_within_their_bound() {
        let mut stream = RandomStream::new(7, "test");
        let mut seen = [0_u32; 5];
        for _ in 0..50_000 {
            seen[stream.below(5) as usize] += 1;
        }
        // Five standard deviations of a binomial with n = 50,000 and p = 1/5 are 447.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 447), "{seen:?}");
    }
}
