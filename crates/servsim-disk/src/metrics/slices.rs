//! Error within slices of alike requests: a model that is right only on average fails here.
//!
//! A slice is operation x queue class (1, 2-3, 4-7, 8-15, 16+) x tercile of the absolute seek x
//! length above the median; slices under 100 requests, and those that take no time, are left out.

use super::demerit::{demerit_percent, floor_percent};
use super::quantile;
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

/// The weighted error over slices, and what chance alone would give.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct SliceError {
    /// Request-weighted mean of `D_slice / mean_slice`, percent.
    pub percent: f64,
    /// The same for bootstrap resamples of the real times, percent.
    pub floor_percent: f64,
    /// Slices with enough requests.
    pub slices: usize,
    /// Share of the requests in them.
    pub covered: f64,
}

fn queue_class(queue: u32) -> u8 {
    match queue {
        0 | 1 => 0,
        2..=3 => 1,
        4..=7 => 2,
        8..=15 => 3,
        _ => 4,
    }
}

/// The slice error of `simulated` against `real`, request by request; both as long as `keys`.
pub fn slice_error(keys: &[Key], simulated: &[f64], real: &[f64], seed: u64) -> SliceError {
    let seeks = super::sorted(&keys.iter().map(|key| key.seek.unsigned_abs() as f64).collect::<Vec<_>>());
    let lengths = super::sorted(&keys.iter().map(|key| f64::from(key.sectors)).collect::<Vec<_>>());
    let mut slices: BTreeMap<(bool, u8, u8, bool), Vec<usize>> = BTreeMap::new();
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
    let (mut error, mut floor, mut weight) = (0.0, 0.0, 0.0);
    for (number, members) in slices.values().enumerate() {
        let pick = |times: &[f64]| members.iter().map(|&at| times[at]).collect::<Vec<_>>();
        let real = pick(real);
        let count = members.len() as f64;
        error += count * demerit_percent(&pick(simulated), &real, 1.0);
        floor += count * floor_percent(&real, 1.0, seed.wrapping_add(number as u64));
        weight += count;
    }
    let over = if weight > 0.0 { weight } else { 1.0 };
    SliceError {
        percent: error / over,
        floor_percent: floor / over,
        slices: slices.len(),
        covered: weight / (keys.len().max(1)) as f64,
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
    }
}
