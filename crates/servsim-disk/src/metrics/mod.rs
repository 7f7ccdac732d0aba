//! Measures of how well simulated times agree with real ones. All times are in one unit, the
//! caller's; samples are slices of `f64`.

pub mod autocorrelation;
pub mod crps;
pub mod demerit;
pub mod slices;

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
