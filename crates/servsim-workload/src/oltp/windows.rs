//! How many transactions ended in each window of a measurement, for the variability over time.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{json, Value};

use super::user::lock;

/// Counts of successive windows of equal width, from the start of the measurement.
#[derive(Debug)]
pub struct Windows {
    width: Duration,
    counts: Mutex<Vec<u64>>,
}

impl Windows {
    /// Windows of `width`, which is not zero.
    pub fn new(width: Duration) -> Self {
        Windows { width, counts: Mutex::default() }
    }

    /// A transaction ended `elapsed` after the start.
    pub fn count(&self, elapsed: Duration) {
        let index = (elapsed.as_nanos() / self.width.as_nanos()) as usize;
        let mut counts = lock(&self.counts);
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] += 1;
    }

    /// Width in seconds, and the counts of the windows that were over when the measurement of `total` ended.
    pub fn report(&self, total: Duration) -> Value {
        let whole = (total.as_nanos() / self.width.as_nanos()) as usize;
        let mut counts = lock(&self.counts).clone();
        counts.resize(whole, 0);
        json!({"seconds": self.width.as_secs_f64(), "transactions": counts})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_windows_that_were_over_are_reported() {
        let windows = Windows::new(Duration::from_millis(100));
        for milliseconds in [0, 99, 100, 310, 405] {
            windows.count(Duration::from_millis(milliseconds));
        }
        let report = windows.report(Duration::from_millis(404));
        assert_eq!(report["transactions"], json!([2, 1, 0, 1]));
        let longer = windows.report(Duration::from_millis(700));
        assert_eq!(longer["transactions"], json!([2, 1, 0, 1, 1, 0, 0]), "windows without any count too");
    }
}
