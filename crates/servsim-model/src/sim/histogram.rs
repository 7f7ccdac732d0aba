//! Response times counted in logarithmic bins of 0.5 %, from a nanosecond to 10^9 s: percentiles to
//! 0.25 % from a few kilobytes, and replications can be merged.

use std::collections::BTreeMap;

/// Ratio of successive bin edges.
const GROWTH: f64 = 1.005;
/// Lower edge of bin 0, seconds.
const SMALLEST: f64 = 1e-9;

/// Counts per logarithmic bin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    counts: BTreeMap<i32, u64>,
    total: u64,
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: f64) {
        let bin = ((value / SMALLEST).max(1.0).ln() / GROWTH.ln()) as i32;
        *self.counts.entry(bin).or_default() += 1;
        self.total += 1;
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in &other.counts {
            *self.counts.entry(*bin).or_default() += count;
        }
        self.total += other.total;
    }

    /// The value below which this share (0..1) of the counts lies; `None` when empty.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let target = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bin, count) in &self.counts {
            seen += count;
            if seen >= target {
                return Some(SMALLEST * GROWTH.powf(f64::from(*bin) + 0.5));
            }
        }
        None
    }
}
