//! Mean and percentiles of responses, of all requests and of reads and writes apart.

use super::{quantiles, Sampled};
use crate::request::{Op, Request};
use serde::Serialize;
use std::cmp::Ordering;

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
        Percentiles::reordering(&mut times_us.to_vec(), times_us.iter().sum())
    }

    /// The same of times whose order nobody needs any more, and their sum, us.
    fn reordering<T: Sampled>(times_us: &mut [T], sum_us: f64) -> Option<Percentiles> {
        if times_us.is_empty() {
            return None;
        }
        let mean_ms = sum_us / times_us.len() as f64 * 1e-3;
        let [p50_ms, p95_ms, p99_ms, p999_ms] =
            quantiles(times_us, [0.5, 0.95, 0.99, 0.999]).map(|us| us * 1e-3);
        Some(Percentiles { requests: times_us.len(), mean_ms, p50_ms, p95_ms, p99_ms, p999_ms })
    }
}

/// Times in ns, which stand for us.
impl Sampled for u32 {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }

    fn value(self) -> f64 {
        f64::from(self) * 1e-3
    }
}

impl Sampled for u64 {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }

    fn value(self) -> f64 {
        self as f64 * 1e-3
    }
}

/// Responses of many requests, in four bytes each where they are below 4.3 s, as nearly all are.
#[derive(Debug, Clone, Default)]
pub struct Responses {
    short_ns: Vec<u32>,
    long_ns: Vec<u64>,
    sum_us: f64,
}

impl Responses {
    /// One more.
    #[inline]
    pub fn push(&mut self, response_ns: u64) {
        match u32::try_from(response_ns) {
            Ok(short_ns) => self.short_ns.push(short_ns),
            Err(_) => self.long_ns.push(response_ns),
        }
        self.sum_us += response_ns as f64 * 1e-3;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.short_ns.len() + self.long_ns.len()
    }

    fn percentiles(&mut self) -> Option<Percentiles> {
        if self.long_ns.is_empty() {
            return Percentiles::reordering(&mut self.short_ns, self.sum_us);
        }
        Percentiles::reordering(&mut self.all_ns(), self.sum_us)
    }

    fn all_ns(&self) -> Vec<u64> {
        self.long_ns.iter().copied().chain(self.short_ns.iter().map(|&ns| u64::from(ns))).collect()
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
            let sum_us = times.iter().sum();
            Percentiles::reordering(&mut times, sum_us)
        };
        ByOperation { read: of(Op::Read), write: of(Op::Write) }
    }

    /// Those of the responses of reads and of writes, and the 99th percentile of all, ms.
    pub fn of_responses([mut reads, mut writes]: [Responses; 2]) -> (ByOperation, f64) {
        let found = ByOperation { read: reads.percentiles(), write: writes.percentiles() };
        reads.short_ns.append(&mut writes.short_ns);
        reads.long_ns.append(&mut writes.long_ns);
        let p99_us = if reads.count() == 0 {
            0.0
        } else if reads.long_ns.is_empty() {
            quantiles(&mut reads.short_ns, [0.99])[0]
        } else {
            quantiles(&mut reads.all_ns(), [0.99])[0]
        };
        (found, p99_us * 1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_kept_short_have_the_percentiles_of_all_as_they_are() {
        for long in [0, 1, 40, 1000] {
            let of = |seed: u64| -> Vec<u64> {
                (0..1000)
                    .map(|k| (k * 7919 + seed) % 1009 * 1000 + if k < long { 1 << 32 } else { 0 })
                    .collect()
            };
            let mut kept = [Responses::default(), Responses::default()];
            let told = [of(3), of(8)];
            for (kept, told) in kept.iter_mut().zip(&told) {
                told.iter().for_each(|&ns| kept.push(ns));
                assert_eq!(kept.count(), 1000);
            }
            let us = |times: &[u64]| times.iter().map(|&ns| ns as f64 * 1e-3).collect::<Vec<f64>>();
            let (found, p99_ms) = ByOperation::of_responses(kept);
            assert_eq!([found.read, found.write], [0, 1].map(|op| Percentiles::of(&us(&told[op]))));
            let all = Percentiles::of(&us(&told.concat())).unwrap();
            assert_eq!(p99_ms, all.p99_ms);
        }
        assert_eq!(ByOperation::of_responses(<[Responses; 2]>::default()).1, 0.0);
    }
}
