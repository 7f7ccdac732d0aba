//! The demerit figure of Ruemmler & Wilkes (1994): root mean square horizontal distance between two
//! distribution functions, here at 10,000 probabilities with type-7 quantiles, as Thornock et al. use it.

use super::{mean, quantile, sorted};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Probabilities at which the distributions are compared.
pub const POINTS: usize = 10_000;

/// Bootstrap resamples for a floor.
pub const RESAMPLES: usize = 40;

/// Root mean square distance between the quantiles of two non-empty samples, at `p_k = (k-0.5)/K`
/// for all `p_k <= limit` (1 for D, 0.99 for D99). In the samples' unit.
pub fn demerit(simulated: &[f64], real: &[f64], limit: f64) -> f64 {
    demerit_sorted(&sorted(simulated), &sorted(real), limit)
}

fn demerit_sorted(simulated: &[f64], real: &[f64], limit: f64) -> f64 {
    let mut sum = 0.0;
    let mut points = 0;
    for k in 0..POINTS {
        let p = (k as f64 + 0.5) / POINTS as f64;
        if p > limit {
            break;
        }
        let distance = quantile(simulated, p) - quantile(real, p);
        sum += distance * distance;
        points += 1;
    }
    (sum / f64::from(points.max(1))).sqrt()
}

/// The demerit as a percentage of the mean of `real`.
pub fn demerit_percent(simulated: &[f64], real: &[f64], limit: f64) -> f64 {
    100.0 * demerit(simulated, real, limit) / mean(real)
}

/// What chance alone does: the mean demerit, in percent, of bootstrap resamples of `real` against it.
pub fn floor_percent(real: &[f64], limit: f64, seed: u64) -> f64 {
    let real = sorted(real);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut sum = 0.0;
    for _ in 0..RESAMPLES {
        sum += demerit_sorted(&resample(&real, &mut rng), &real, limit);
    }
    100.0 * sum / RESAMPLES as f64 / mean(&real)
}

/// A bootstrap resample of a sorted sample, itself sorted: counts first, so no sort is needed.
fn resample(sorted: &[f64], rng: &mut Pcg64Mcg) -> Vec<f64> {
    let mut counts = vec![0_u32; sorted.len()];
    for _ in 0..sorted.len() {
        counts[rng.random_range(0..sorted.len())] += 1;
    }
    let copies = sorted.iter().zip(counts);
    copies.flat_map(|(value, count)| std::iter::repeat_n(*value, count as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_by_three_is_a_demerit_of_three() {
        let real: Vec<f64> = (0..500).map(f64::from).collect();
        let shifted: Vec<f64> = real.iter().map(|x| x + 3.0).collect();
        assert!((demerit(&shifted, &real, 1.0) - 3.0).abs() < 1e-9);
        assert!((demerit_percent(&shifted, &real, 1.0) - 300.0 / 249.5).abs() < 1e-9);
    }

    #[test]
    fn d99_does_not_see_the_last_percent() {
        let real: Vec<f64> = (0..1000).map(f64::from).collect();
        let mut wild = real.clone();
        wild[999] = 1e9;
        assert!(demerit(&wild, &real, 0.99) < 1e-9);
        assert!(demerit(&wild, &real, 1.0) > 1e6);
    }

    #[test]
    fn the_floor_falls_as_the_sample_grows() {
        let sample = |n: u32| (0..n).map(|k| f64::from(k) / f64::from(n)).collect::<Vec<_>>();
        assert!(floor_percent(&sample(10_000), 1.0, 1) < 0.5 * floor_percent(&sample(400), 1.0, 1));
    }
}
