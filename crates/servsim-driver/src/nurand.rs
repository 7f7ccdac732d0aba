//! `NURand`, the non-uniform random distribution of TPC-C clause 2.1.6, and of TPC-W with a constant C of 0.
//!
//! `NURand(A, x, y) = (((random(0, A) | random(x, y)) + C) mod (y - x + 1)) + x`. The value is drawn in
//! the client, never inside an SQL predicate, where it would be drawn again for every row.

use crate::rng::Stream;

/// A non-uniform number in `low..=high` with the constants `a` and `c`.
pub fn nurand(stream: &mut Stream, a: i32, c: i32, low: i32, high: i32) -> i32 {
    let bits = stream.between(0, a) | stream.between(low, high);
    (bits + c) % (high - low + 1) + low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    /// The exact probability of each value, by enumerating both uniform draws.
    fn exact(a: i32, c: i32, low: i32, high: i32) -> Vec<f64> {
        let range = high - low + 1;
        let mut ways = vec![0u64; range as usize];
        for first in 0..=a {
            for second in low..=high {
                ways[(((first | second) + c) % range) as usize] += 1;
            }
        }
        let all = f64::from(a + 1) * f64::from(range);
        ways.iter().map(|&n| n as f64 / all).collect()
    }

    /// By how many standard deviations the frequencies of draws are off a law, by chi-square; infinitely where
    /// a value occurs that cannot.
    fn off(law: &[f64], low: i32, mut draw: impl FnMut(&mut Stream) -> i32) -> f64 {
        let draws = 2_000_000u32;
        let mut stream = Stream::new(11, Purpose::Measured, 0);
        let mut counts = vec![0u32; law.len()];
        for _ in 0..draws {
            counts[(draw(&mut stream) - low) as usize] += 1;
        }
        let mut chi = 0.0;
        let mut cells = 0.0f64;
        for (&count, p) in counts.iter().zip(law) {
            if *p == 0.0 {
                chi += if count == 0 { 0.0 } else { f64::INFINITY };
                continue;
            }
            let expected = p * f64::from(draws);
            chi += (f64::from(count) - expected).powi(2) / expected;
            cells += 1.0;
        }
        // Wilson-Hilferty: the cube root of chi-square over its degrees is nearly normal.
        let degrees = cells - 1.0;
        let spread = 2.0 / (9.0 * degrees);
        ((chi / degrees).cbrt() - (1.0 - spread)).abs() / spread.sqrt()
    }

    #[test]
    fn frequencies_fit_the_exact_enumeration_and_no_other() {
        // Item, customer and name at the scaled size; customer and name at the specification's.
        for (a, c, low, high) in
            [(7, 5, 1, 100), (7, 2, 1, 30), (3, 1, 0, 9), (1023, 259, 1, 3000), (255, 123, 0, 999)]
        {
            let law = exact(a, c, low, high);
            let right = off(&law, low, |stream| nurand(stream, a, c, low, high));
            assert!(right < 3.5, "A={a} C={c} {low}..{high}: {right:.2} standard deviations");
            let other_constant = off(&law, low, |stream| nurand(stream, a, c + 1, low, high));
            let even = off(&law, low, |stream| stream.between(low, high));
            assert!(other_constant.min(even) > 10.0, "another constant {other_constant}, even draws {even}");
        }
    }

    #[test]
    fn scaling_the_constant_keeps_some_skew() {
        // Share of draws that hit the most frequent tenth of the values.
        let top = |a, high| {
            let mut p = exact(a, 0, 1, high);
            p.sort_by(f64::total_cmp);
            p.iter().rev().take(high as usize / 10).sum::<f64>()
        };
        assert!((top(1023, 3000) - 0.62).abs() < 0.01);
        assert!((top(7, 100) - 0.34).abs() < 0.01);
        assert!((top(7, 30) - 0.33).abs() < 0.01);
        assert!((top(8191, 100) - 0.23).abs() < 0.01, "an unscaled constant loses the skew");
    }
}
