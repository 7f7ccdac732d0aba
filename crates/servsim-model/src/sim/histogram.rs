//! Response times counted in logarithmic bins of 0.5 %, from a nanosecond to 10^9 s: percentiles to
//! 0.25 % from a few kilobytes, and replications can be merged.

/// Ratio of successive bin edges.
const GROWTH: f64 = 1.005;
/// Lower edge of bin 0, seconds.
const SMALLEST: f64 = 1e-9;

/// Counts per logarithmic bin, from the lowest bin that was needed to the highest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    first: usize,
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: f64) {
        self.count(((value / SMALLEST).max(1.0).ln() / GROWTH.ln()) as usize, 1);
    }

    fn count(&mut self, bin: usize, times: u64) {
        self.total += times;
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
        self.counts[index] += times;
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        let used = other.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.for_each(|(index, &count)| self.count(other.first + index, count));
    }

    /// The value below which this share (0..1) of the counts lies; `None` when empty.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let target = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= target {
                return Some(SMALLEST * GROWTH.powf((self.first + index) as f64 + 0.5));
            }
        }
        None
    }
}
