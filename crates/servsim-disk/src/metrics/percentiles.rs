//! Mean and percentiles of responses, of all requests and of reads and writes apart.

use super::{mean, quantiles};
use crate::request::{Op, Request};
use serde::Serialize;

/// Mean and percentiles, ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Requests they are of.
    pub requests: usize,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
}

impl Percentiles {
    /// Those of times in us; `None` of no times.
    pub fn of(times_us: &[f64]) -> Option<Percentiles> {
        Percentiles::reordering(&mut times_us.to_vec())
    }

    /// The same of times whose order nobody needs any more.
    fn reordering(times_us: &mut [f64]) -> Option<Percentiles> {
        if times_us.is_empty() {
            return None;
        }
        let mean_ms = mean(times_us) * 1e-3;
        let [p50_ms, p95_ms, p99_ms, p999_ms] =
            quantiles(times_us, [0.5, 0.95, 0.99, 0.999]).map(|us| us * 1e-3);
        Some(Percentiles { requests: times_us.len(), mean_ms, p50_ms, p95_ms, p99_ms, p999_ms })
    }
}

/// The same for reads and for writes; `None` where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ByOperation {
    /// Reads.
    pub read: Option<Percentiles>,
    /// Writes.
    pub write: Option<Percentiles>,
}

impl ByOperation {
    /// Those of times in us, one for each request, over and over if there are more times than requests.
    pub fn of(requests: &[Request], times_us: &[f64]) -> ByOperation {
        let of = |op: Op| {
            let of_op = requests.iter().cycle().zip(times_us).filter(|(request, _)| request.op == op);
            let mut times = Vec::with_capacity(times_us.len());
            times.extend(of_op.map(|(_, us)| *us));
            Percentiles::reordering(&mut times)
        };
        ByOperation { read: of(Op::Read), write: of(Op::Write) }
    }

    /// Those of the times of reads and of writes, us, and the 99th percentile of all, ms.
    pub fn of_parts([mut reads, mut writes]: [Vec<f64>; 2]) -> (ByOperation, f64) {
        let found = ByOperation {
            read: Percentiles::reordering(&mut reads),
            write: Percentiles::reordering(&mut writes),
        };
        reads.append(&mut writes);
        let p99_ms = if reads.is_empty() { 0.0 } else { quantiles(&mut reads, [0.99])[0] * 1e-3 };
        (found, p99_ms)
    }
}
