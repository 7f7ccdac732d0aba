//! Continuous ranked probability score: how well each single request is predicted (Gneiting &
//! Raftery 2007), from draws for a model and exactly for an unconditional sample.

use super::{mean, sorted};

/// The score of at least two `draws` against the outcome `real`; `draws` are sorted in place.
/// Unbiased in the number of draws: `mean|x-y| - sum_j (2j-m-1) x_(j) / (m (m-1))`.
pub fn from_draws(draws: &mut [f64], real: f64) -> f64 {
    draws.sort_unstable_by(f64::total_cmp);
    let m = draws.len() as f64;
    let distance = draws.iter().map(|x| (x - real).abs()).sum::<f64>() / m;
    let spread: f64 = draws.iter().enumerate().map(|(at, x)| (2.0 * (at as f64 + 1.0) - m - 1.0) * x).sum();
    distance - spread / (m * (m - 1.0))
}

/// [`from_draws`] for two draws, which need no sorting: half the distances less half the spread, and never below zero but
/// by rounding.
#[inline]
pub(crate) fn of_pair([a, b]: [f64; 2], real: f64) -> f64 {
    0.5 * ((a - real).abs() + (b - real).abs()) - 0.5 * (a - b).abs()
}

/// Mean score over `reals` of one and the same distribution, that of `sample`.
pub fn unconditional(sample: &[f64], reals: &[f64]) -> f64 {
    let sample = sorted(sample);
    let n = sample.len() as f64;
    let mut prefix = vec![0.0];
    for x in &sample {
        prefix.push(prefix[prefix.len() - 1] + x);
    }
    let total = prefix[sample.len()];
    let spread: f64 = sample.iter().enumerate().map(|(at, x)| (2.0 * (at as f64 + 1.0) - n - 1.0) * x).sum();
    let half_spread = spread / (n * (n - 1.0).max(1.0));
    let scores: Vec<f64> = reals
        .iter()
        .map(|&y| {
            let below = sample.partition_point(|&x| x <= y);
            let distance = y * (2.0 * below as f64 - n) - 2.0 * prefix[below] + total;
            distance / n - half_spread
        })
        .collect();
    mean(&scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_and_the_exact_sum_agree_on_the_same_sample() {
        let sample: Vec<f64> = (0..200).map(|k| f64::from(k * k % 97)).collect();
        let by_draws = from_draws(&mut sample.clone(), 40.0);
        assert!((by_draws - unconditional(&sample, &[40.0])).abs() < 1e-9);
    }

    #[test]
    fn a_pair_scores_as_two_draws_do_to_the_last_bit() {
        for (a, b, real) in
            [(1.1, 2.3, 1.7), (2.3, 1.1, 0.2), (0.1, 0.3, 7.9), (4.2, 4.2, 4.2), (1e-3, 9e7, 12.0)]
        {
            assert_eq!(of_pair([a, b], real).to_bits(), from_draws(&mut [a, b], real).to_bits());
        }
    }

    #[test]
    fn a_certain_and_right_prediction_scores_zero() {
        assert_eq!(from_draws(&mut [5.0; 16], 5.0), 0.0);
    }
}
