//! Error within slices of alike requests: a model that is right only on average fails here.
//!
//! A slice is operation x queue class (1, 2-3, 4-7, 8-15, 16+) x tercile of the absolute seek x
//! length above the median; slices under 100 requests, and those that take no time, are left out.

use super::demerit::{demerit_percent, floor_percent};
use super::{mean, quantile};
use std::collections::BTreeMap;

/// Requests a slice must have.
pub const MINIMUM: usize = 100;

/// What decides the slice of a request.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Whether it writes.
    pub is_write: bool,
    /// Requests on the device at its arrival, itself included.
    pub queue: u32,
    /// Start-to-start seek in sectors, arrival order.
    pub seek: i64,
    /// Length in sectors.
    pub sectors: u32,
}

/// Whether it writes, class of queues, tercile of seeks, whether it is longer than the median.
type Group = (bool, usize, u8, bool);

/// One slice, and how well it is met.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Slice {
    /// Whether its requests write.
    pub is_write: bool,
    /// Requests on the device at arrival, itself included: at least so many.
    pub queue_from: u32,
    /// At most so many; `None` without an end.
    pub queue_to: Option<u32>,
    /// Sectors between the start of a request and that of the one before: at least so many.
    pub seek_from: u64,
    /// At most so many.
    pub seek_to: u64,
    /// Sectors of a request: at least so many.
    pub sectors_from: u32,
    /// At most so many.
    pub sectors_to: u32,
    /// Requests in it.
    pub requests: usize,
    /// Mean of the real times.
    pub real_mean: f64,
    /// Mean of the simulated times.
    pub simulated_mean: f64,
    /// D, percent of the real mean.
    pub d_percent: f64,
    /// What chance alone gives.
    pub floor_percent: f64,
}

/// The weighted error over slices, and what chance alone would give.
#[derive(Debug, Clone, serde::Serialize)]
pub struct SliceError {
    /// Request-weighted mean of `D_slice / mean_slice`, percent.
    pub percent: f64,
    /// The same for bootstrap resamples of the real times, percent.
    pub floor_percent: f64,
    /// Slices with enough requests.
    pub slices: usize,
    /// Share of the requests in them.
    pub covered: f64,
    /// Each of them, reads first, by queue, seek and length; times in the unit of the caller.
    pub each: Vec<Slice>,
}

/// Least and most requests of each class of queues; the last has no end.
const QUEUES: [(u32, u32); 5] = [(0, 1), (2, 3), (4, 7), (8, 15), (16, u32::MAX)];

fn queue_class(queue: u32) -> usize {
    QUEUES.iter().position(|&(_, most)| queue <= most).expect("the last has no end")
}

/// The slice error of `simulated` against `real`, request by request; both as long as `keys`.
pub fn slice_error(keys: &[Key], simulated: &[f64], real: &[f64], seed: u64) -> SliceError {
    let seeks = super::sorted(&keys.iter().map(|key| key.seek.unsigned_abs() as f64).collect::<Vec<_>>());
    let lengths = super::sorted(&keys.iter().map(|key| f64::from(key.sectors)).collect::<Vec<_>>());
    let mut slices: BTreeMap<Group, Vec<usize>> = BTreeMap::new();
    if !keys.is_empty() {
        let (low, high, median) =
            (quantile(&seeks, 1.0 / 3.0), quantile(&seeks, 2.0 / 3.0), quantile(&lengths, 0.5));
        for (at, key) in keys.iter().enumerate() {
            let seek = key.seek.unsigned_abs() as f64;
            let tercile = u8::from(seek > low) + u8::from(seek > high);
            let slice = (key.is_write, queue_class(key.queue), tercile, f64::from(key.sectors) > median);
            slices.entry(slice).or_default().push(at);
        }
    }
    // An error relative to nothing says nothing.
    let takes_time = |members: &[usize]| members.iter().any(|&at| real[at] > 0.0);
    slices.retain(|_, members| members.len() >= MINIMUM && takes_time(members));
    let slice = |(number, (key, members)): (usize, (&Group, &Vec<usize>))| {
        let pick = |times: &[f64]| members.iter().map(|&at| times[at]).collect::<Vec<_>>();
        let (real, simulated) = (pick(real), pick(simulated));
        let seek = members.iter().map(|&at| keys[at].seek.unsigned_abs());
        let sectors = members.iter().map(|&at| keys[at].sectors);
        let (queue_from, queue_to) = QUEUES[key.1];
        Slice {
            is_write: key.0,
            queue_from: queue_from.max(1),
            queue_to: (queue_to < u32::MAX).then_some(queue_to),
            seek_from: seek.clone().min().unwrap_or(0),
            seek_to: seek.max().unwrap_or(0),
            sectors_from: sectors.clone().min().unwrap_or(0),
            sectors_to: sectors.max().unwrap_or(0),
            requests: members.len(),
            real_mean: mean(&real),
            simulated_mean: mean(&simulated),
            d_percent: demerit_percent(&simulated, &real, 1.0),
            floor_percent: floor_percent(&real, 1.0, seed.wrapping_add(number as u64)),
        }
    };
    let each: Vec<Slice> = slices.iter().enumerate().map(slice).collect();
    let weight: f64 = each.iter().map(|slice| slice.requests as f64).sum();
    let weighted = |figure: fn(&Slice) -> f64| {
        each.iter().map(|slice| slice.requests as f64 * figure(slice)).sum::<f64>() / weight.max(1.0)
    };
    SliceError {
        percent: weighted(|slice| slice.d_percent),
        floor_percent: weighted(|slice| slice.floor_percent),
        slices: each.len(),
        covered: weight / (keys.len().max(1)) as f64,
        each,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapping_reads_and_writes_is_invisible_to_the_demerit_but_not_to_the_slices() {
        let keys: Vec<Key> =
            (0..400).map(|k| Key { is_write: k % 2 == 0, queue: 1, seek: 8, sectors: 8 }).collect();
        let real: Vec<f64> = (0..400).map(|k| if k % 2 == 0 { 1.0 } else { 10.0 }).collect();
        let swapped: Vec<f64> = (0..400).map(|k| if k % 2 == 0 { 10.0 } else { 1.0 }).collect();
        assert!(demerit_percent(&swapped, &real, 1.0) < 1e-9);
        let error = slice_error(&keys, &swapped, &real, 1);
        assert!((error.percent - 495.0).abs() < 1e-6, "{error:?}");
        assert_eq!((error.slices, error.floor_percent), (2, 0.0));
        let [reads, writes] = error.each.as_slice() else { panic!("{error:?}") };
        assert_eq!(
            (reads.is_write, reads.requests, reads.real_mean, reads.simulated_mean),
            (false, 200, 10.0, 1.0)
        );
        assert_eq!((reads.d_percent, writes.d_percent), (90.0, 900.0));
        assert_eq!(
            (writes.queue_from, writes.queue_to, writes.seek_to, writes.sectors_from),
            (1, Some(1), 8, 8)
        );
    }
}
