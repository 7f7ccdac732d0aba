//! Response times of clients: how they are kept, and what reports say of them.

use hdrhistogram::Histogram;
use serde_json::{json, Value};

/// A histogram of microseconds, from one to ten minutes' worth, with three significant digits.
///
/// # Panics
/// Never: the bounds are valid.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("constant bounds are valid")
}

/// Mean, percentiles and maximum in milliseconds; null of nothing.
pub fn milliseconds(microseconds: &Histogram<u64>) -> Value {
    if microseconds.is_empty() {
        return Value::Null;
    }
    let at = |quantile| microseconds.value_at_quantile(quantile) as f64 / 1000.0;
    json!({
        "mean": microseconds.mean() / 1000.0,
        "p50": at(0.50),
        "p90": at(0.90),
        "p95": at(0.95),
        "p99": at(0.99),
        "max": microseconds.max() as f64 / 1000.0,
    })
}
