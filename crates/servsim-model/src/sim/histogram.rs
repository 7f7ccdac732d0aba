//! Response times counted in logarithmic bins of 0.5 %, from a nanosecond to 10^9 s: percentiles to
//! 0.25 % from a few kilobytes.

use std::ops::Range;

/// Ratio of successive bin edges.
const GROWTH: f64 = 1.005;
/// Lower edge of bin 0, seconds.
const SMALLEST: f64 = 1e-9;

/// Counts per logarithmic bin, from the lowest bin that was needed to the highest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    first: usize,
    counts: Vec<u64>,
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: f64) {
        let bin = ((value / SMALLEST).max(1.0).ln() / GROWTH.ln()) as usize;
        if self.counts.is_empty() {
            self.first = bin;
        }
        if bin < self.first {
            let below = self.first - bin;
            self.counts.splice(0..0, std::iter::repeat_n(0, below));
            self.first = bin;
        }
        let index = bin - self.first;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// Bins from the lowest that was needed to the highest; none of an empty one.
    pub fn bins(&self) -> Option<Range<usize>> {
        (!self.counts.is_empty()).then_some(self.first..self.first + self.counts.len())
    }

    /// Counts in a bin.
    pub fn at(&self, bin: usize) -> u64 {
        bin.checked_sub(self.first).and_then(|index| self.counts.get(index)).copied().unwrap_or(0)
    }

    /// All counts.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Between which values a bin lies, seconds.
    pub fn borders(bin: usize) -> (f64, f64) {
        let border = |bin: usize| SMALLEST * GROWTH.powf(bin as f64);
        (border(bin), border(bin + 1))
    }
}
