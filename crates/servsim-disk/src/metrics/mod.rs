//! Measures of how well simulated times agree with real ones. All times are in one unit, the
//! caller's; samples are slices of `f64`.

pub mod autocorrelation;
pub mod crps;
pub mod demerit;
pub mod percentiles;
pub mod slices;

use std::cmp::Ordering;

/// Arithmetic mean; 0 for an empty sample.
pub fn mean(sample: &[f64]) -> f64 {
    if sample.is_empty() {
        return 0.0;
    }
    sample.iter().sum::<f64>() / sample.len() as f64
}

/// Type-7 (linear) quantile of a sorted, non-empty sample.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (at - low as f64) * (sorted[high] - sorted[low])
}

/// What a sample is made of: numbers in order.
pub trait Sampled: Copy {
    /// The order of two.
    fn order(&self, other: &Self) -> Ordering;
    /// What it stands for.
    fn value(self) -> f64;
}

impl Sampled for f64 {
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }

    fn value(self) -> f64 {
        self
    }
}

/// [`quantile`]s of a non-empty sample, which is reordered, at ascending probabilities: quicker than sorting it.
pub fn quantiles<T: Sampled, const N: usize>(sample: &mut [T], probabilities: [f64; N]) -> [f64; N] {
    let last = (sample.len() - 1) as f64;
    let mut found = [0.0; N];
    // Beyond `end` lies nothing less than before it; `above` is the least of what lies there.
    let (mut end, mut above) = (sample.len(), f64::INFINITY);
    for (found, p) in found.iter_mut().zip(probabilities).rev() {
        let at = p * last;
        let low = at.floor() as usize;
        if low < end {
            let (_, _, right) = sample[..end].select_nth_unstable_by(low, T::order);
            let least = right.iter().copied().min_by(T::order).map(T::value);
            above = least.unwrap_or(above);
        }
        end = low + 1;
        let (value, part) = (sample[low].value(), at - low as f64);
        *found = if part > 0.0 { value + part * (above - value) } else { value };
    }
    found
}

/// The sample in ascending order.
pub fn sorted(sample: &[f64]) -> Vec<f64> {
    let mut sample = sample.to_vec();
    sample.sort_unstable_by(f64::total_cmp);
    sample
}

/// The median; 0 for an empty sample.
pub fn median(sample: &[f64]) -> f64 {
    if sample.is_empty() {
        return 0.0;
    }
    quantile(&sorted(sample), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_without_sorting_are_those_of_the_sorted_sample() {
        for n in [1_u32, 2, 3, 7, 100, 1001] {
            let sample: Vec<f64> = (0..n).map(|k| f64::from(k * 7919 % 541 % 90)).collect();
            let p = [0.0, 0.3, 0.5, 0.5, 0.95, 0.99, 0.999, 1.0];
            let ordered = sorted(&sample);
            assert_eq!(quantiles(&mut sample.clone(), p), p.map(|p| quantile(&ordered, p)), "{n}");
        }
    }
}
