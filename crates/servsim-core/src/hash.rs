//! Numbers spread over a table of a power of two of places.

/// The golden ratio as a fraction of 2^64, odd: multiples of it lie as far apart as can be (Knuth, The Art of Computer Programming,
/// vol. 3, section 6.4, "Fibonacci hashing").
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// `bits` bits, 1 to 64, that depend on all of `number`.
///
/// # Panics
/// With overflow checks, without any bits.
#[inline(always)]
#[allow(clippy::inline_always)] // part of loops over references
pub fn spread(number: u64, bits: u32) -> u64 {
    number.wrapping_mul(GOLDEN) >> (u64::BITS - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_and_round_numbers_are_spread_evenly() {
        for step in [1, 64, 4096, 1 << 40, 1 << 52] {
            let mut places = [0; 256];
            (0..1024).for_each(|n| places[spread(n * step, 8) as usize] += 1);
            assert!(places.iter().all(|&numbers| numbers <= 16), "steps of {step}: {places:?}");
        }
    }
}
