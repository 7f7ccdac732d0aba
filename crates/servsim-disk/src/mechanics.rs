//! What of a drive's mechanism a trace gives away: how sectors lie over the radius, how long the arm
//! takes, how fast the platters turn.
//!
//! A trace made before a move hardly holds the short distances that a move brings about. Between them
//! and what it does hold lies a law: time grows with the square root of the distance and with the
//! distance (Ruemmler & Wilkes 1994), and within a track there is nothing but overhead and half a turn.

use crate::cache::{Cache, Law};
use crate::features::Command;
use crate::order::Served;
use crate::request::Op;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::f64::consts::TAU;

/// Ratios of outer to inner sectors a track that are tried.
const RATIOS: [f64; 9] = [1.0, 1.12, 1.25, 1.4, 1.55, 1.7, 1.9, 2.15, 2.4];
/// Services a fit of the arm takes.
const ENOUGH: usize = 150;
/// Distances below this many sectors may be within a cylinder.
const NEAR: f64 = 8000.0;
/// Tracks of a cylinder, where nothing tells.
const HEADS: f64 = 5.0;
/// Sectors a track, where nothing tells.
const TRACK: f64 = 300.0;
/// What passing over a track takes, changing to it included, in turns.
const TRACK_CHANGES: f64 = 1.3;
/// Answers of the cache that settle the overhead.
const HITS: usize = 20;
/// Share of the settling that changing heads takes, where nothing tells.
const HEAD_SWITCH: f64 = 0.7;

/// Sectors over the radius: the sectors of a track fall linearly from the outer edge to the inner.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Radius {
    /// Sectors of the drive, as far as seen.
    pub sectors: f64,
    /// Outer by inner sectors a track.
    pub ratio: f64,
}

impl Radius {
    /// Whether a drive could have such a radius.
    pub fn is_sound(&self) -> bool {
        self.sectors.is_finite() && self.sectors >= 1.0 && (1.0..100.0).contains(&self.ratio)
    }

    /// How far `lba` lies from the outer edge, in sectors as dense as those at the edge.
    #[inline]
    pub fn depth(&self, lba: u64) -> f64 {
        let share = (lba as f64 / self.sectors).min(1.0);
        let k = 1.0 - 1.0 / (self.ratio * self.ratio);
        if k < 1e-6 {
            return lba as f64;
        }
        // Solves share = integral of the density.
        (1.0 - (1.0 - k * share).sqrt()) * 2.0 / k * self.sectors
    }
}

/// The arm: time by distance in sectors of the outer edge, us.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mechanics {
    /// How sectors lie.
    pub radius: Radius,
    /// What any move to another cylinder takes beside the rest.
    pub settle_us: f64,
    /// Factor of the root of the distance.
    pub root_us: f64,
    /// Factor of the distance.
    pub linear_us: f64,
    /// Sectors a track at the outer edge, roughly.
    pub track_sectors: f64,
    /// What an access takes where neither arm nor platters delay it.
    pub overhead_us: f64,
    /// One turn, if the trace tells.
    pub revolution_us: Option<f64>,
}

impl Mechanics {
    /// Expected time to move the arm over `distance`, us.
    pub fn seek_us(&self, distance: f64) -> f64 {
        let other_track = (distance / self.track_sectors).min(1.0);
        let other_cylinder = (distance / (self.track_sectors * HEADS)).min(1.0);
        let moves = HEAD_SWITCH * other_track + (1.0 - HEAD_SWITCH) * other_cylinder;
        self.settle_us * moves + self.root_us * distance.sqrt() + self.linear_us * distance
    }
}

/// A read that needed the medium.
#[derive(Debug, Clone, Copy)]
struct Access {
    us: f64,
    sectors: f64,
    /// Where the arm was, and the first sector.
    from: u64,
    to: u64,
}

/// The reads of a trace.
#[derive(Debug, Default)]
struct Reads {
    accesses: Vec<Access>,
    /// Those after another read: no write holds up the arm.
    unhindered: Vec<Access>,
    /// Times of those that the cache answers, us.
    hits_us: Vec<f64>,
    /// Times between completions of accesses that end at the same place, us.
    pairs_us: Vec<f64>,
}

impl Reads {
    fn of(served: &[Served], law: Option<Law>) -> Reads {
        let mut reads = Reads::default();
        let mut cache = law.map(Cache::new);
        let mut last = HashMap::new();
        let (mut from, mut previous) = (0, Op::Write);
        for service in served {
            let command = Command::from(&service.request);
            let us = service.service_ns() as f64 * 1e-3;
            let end = service.request.end();
            if command.op == Op::Read && cache.as_ref().is_some_and(|cache| cache.holds(&command)) {
                reads.hits_us.push(us);
            } else if command.op == Op::Read {
                let done_ns = service.request.completion_ns;
                if let Some(before_ns) = last.insert(end, done_ns) {
                    reads.pairs_us.push((done_ns - before_ns) as f64 * 1e-3);
                }
                let access = Access { us, sectors: f64::from(command.sectors), from, to: command.lba };
                reads.accesses.push(access);
                if previous == Op::Read {
                    reads.unhindered.push(access);
                }
            }
            if let Some(cache) = &mut cache {
                cache.advance(&command);
            }
            (from, previous) = (end, command.op);
        }
        reads
    }
}

/// Value at `share` of `values` in order.
fn at_share(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied()
}

/// Finds the mechanism in `served`, whose cache follows `law`; `None` if too little needed the medium.
pub fn infer(served: &[Served], law: Option<Law>) -> Option<Mechanics> {
    let reads = Reads::of(served, law);
    let accesses = if reads.unhindered.len() >= 2 * ENOUGH { &reads.unhindered } else { &reads.accesses };
    let sectors = served.iter().map(|service| service.request.end()).max()? as f64;
    let (radius, [base_us, root_us, linear_us, sector_us]) = curve(accesses, sectors)?;
    let revolution_us = revolution(reads.pairs_us);
    let overhead_us = if reads.hits_us.len() >= HITS {
        at_share(reads.hits_us, 0.1)
    } else {
        at_share(accesses.iter().map(|access| access.us - sector_us * access.sectors).collect(), 0.0005)
    }?;
    let (settle_us, track_sectors) = match revolution_us {
        None => (0.0, TRACK),
        Some(turn_us) if sector_us > 0.0 => {
            // The time a sector takes holds its share of changes of track.
            let track = (TRACK_CHANGES * turn_us / sector_us).clamp(100.0, 1000.0);
            (base_us - overhead_us - turn_us / 2.0, track)
        }
        Some(turn_us) => {
            let length = accesses.iter().map(|access| access.sectors).sum::<f64>() / accesses.len() as f64;
            (base_us - overhead_us - turn_us * (0.5 + length / TRACK), TRACK)
        }
    };
    let settle_us = settle_us.clamp(0.0, base_us);
    Some(Mechanics { radius, settle_us, root_us, linear_us, track_sectors, overhead_us, revolution_us })
}

/// The radius under which time is best explained by distance, and that explanation: what any access
/// takes, factors of root and distance, time a sector.
fn curve(accesses: &[Access], sectors: f64) -> Option<(Radius, [f64; 4])> {
    let n = accesses.len().max(1) as f64;
    let mean = accesses.iter().map(|access| access.sectors).sum::<f64>() / n;
    let spread = accesses.iter().map(|access| (access.sectors - mean).powi(2)).sum::<f64>() / n;
    // Requests of one length say nothing of the time a sector takes.
    let varied = spread.sqrt() > 0.1 * mean;
    let fits: Vec<(f64, [f64; 4])> = RATIOS
        .iter()
        .map(|&ratio| {
            let radius = Radius { sectors, ratio };
            let rows: Vec<([f64; 4], f64)> = accesses
                .iter()
                .filter(|access| access.to.abs_diff(access.from) as f64 >= NEAR)
                .map(|access| {
                    let distance = (radius.depth(access.to) - radius.depth(access.from)).abs();
                    ([1.0, distance.sqrt(), distance, access.sectors], access.us)
                })
                .collect();
            if rows.len() < ENOUGH {
                return (f64::INFINITY, [0.0; 4]);
            }
            let fitted = nonnegative(&rows, [true, true, true, varied]);
            let squares: f64 = rows
                .iter()
                .map(|(row, us)| (us - row.iter().zip(fitted).map(|(x, b)| x * b).sum::<f64>()).powi(2))
                .sum();
            (0.5 * rows.len() as f64 * squares.ln(), fitted)
        })
        .collect();
    let best = fits.iter().map(|fit| fit.0).fold(f64::INFINITY, f64::min);
    if !best.is_finite() {
        return None;
    }
    let weights: Vec<f64> = fits.iter().map(|fit| (best - fit.0).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let ratio = RATIOS.iter().zip(&weights).map(|(ratio, weight)| ratio * weight).sum::<f64>() / sum;
    let line = std::array::from_fn(|k| {
        fits.iter().zip(&weights).map(|(fit, weight)| fit.1[k] * weight).sum::<f64>() / sum
    });
    // Distance explains nothing where the rest would have to be negative.
    let line: [f64; 4] = line;
    (line[0] > 0.0).then_some((Radius { sectors, ratio }, line))
}

/// Least squares with no factor below 0.
fn nonnegative(rows: &[([f64; 4], f64)], mut used: [bool; 4]) -> [f64; 4] {
    loop {
        let fitted = least_squares(rows, used);
        match (1..4).filter(|&k| fitted[k] < 0.0).min_by(|&a, &b| fitted[a].total_cmp(&fitted[b])) {
            Some(k) => used[k] = false,
            None => return fitted,
        }
    }
}

/// Normal equations by elimination; factors not `used` are 0.
fn least_squares(rows: &[([f64; 4], f64)], used: [bool; 4]) -> [f64; 4] {
    let mut system = [[0.0; 5]; 4];
    // Root and distance differ by orders of magnitude: scale by their largest.
    let mut scale = [1e-300_f64; 4];
    for (row, _) in rows {
        for k in 0..4 {
            scale[k] = scale[k].max(row[k].abs());
        }
    }
    for (row, us) in rows {
        for i in 0..4 {
            for j in 0..4 {
                system[i][j] += row[i] / scale[i] * row[j] / scale[j];
            }
            system[i][4] += row[i] / scale[i] * us;
        }
    }
    for (k, used) in used.into_iter().enumerate() {
        if !used {
            system[k] = [0.0; 5];
        }
        system[k][k] += 1e-9;
    }
    for k in 0..4 {
        let pivot = system[k];
        for (_, row) in system.iter_mut().enumerate().filter(|(other, _)| *other != k) {
            let factor = row[k] / pivot[k];
            row.iter_mut().zip(pivot).for_each(|(x, above)| *x -= factor * above);
        }
    }
    std::array::from_fn(|k| if used[k] { system[k][4] / system[k][k] / scale[k] } else { 0.0 })
}

/// Accesses to one place, one after another, of which so many pairs settle a turn.
const PAIRS: [usize; 4] = [60, 120, 250, 500];
/// Turns looked for, us: 20,000 to 3000 a minute.
const TURNS: (f64, f64) = (3000.0, 20_000.0);
/// Periods tried at most.
const TRIED: f64 = 4e5;
/// What a multiple of a period must reach beside the period itself.
const AS_GOOD: f64 = 0.8;

/// One turn of the platters, us: accesses that end at the same place end whole turns apart. `pairs_us`
/// holds the times between such accesses, of which the short ones settle a turn roughly and longer ones
/// more and more closely.
fn revolution(mut pairs_us: Vec<f64>) -> Option<f64> {
    pairs_us.retain(|&us| us > TURNS.0 / 2.0);
    pairs_us.sort_unstable_by(f64::total_cmp);
    let (mut lowest, mut highest) = (1.0 / TURNS.1, 1.0 / TURNS.0);
    let mut best: Option<f64> = None;
    for count in PAIRS {
        let pairs = &pairs_us[..count.min(pairs_us.len())];
        if pairs.len() < PAIRS[0] / 2 {
            return best;
        }
        let together = |frequency: f64| {
            pairs.iter().map(|us| (us * frequency * TAU).cos()).sum::<f64>() / pairs.len() as f64
        };
        // In steps of which eight move the longest pair by a turn.
        let step = 1.0 / (8.0 * pairs[pairs.len() - 1]);
        let tried = (highest - lowest) / step;
        if tried > TRIED {
            return best;
        }
        let candidates = (0..=tried as usize).map(|k| lowest + k as f64 * step);
        let (peak, frequency) = candidates.map(|f| (together(f), f)).max_by(|a, b| a.0.total_cmp(&b.0))?;
        // What chance makes of the best of so many, and then some.
        if peak.max(0.0).powi(2) < (tried.max(2.0).ln() + 6.0) / pairs.len() as f64 {
            return best;
        }
        // A whole part of a turn would do as well: the longest that does is the turn.
        let around = |f: f64| (-2..=2).map(|k| together(f + f64::from(k) * step / 2.0)).fold(0.0, f64::max);
        let longest = (2..=6)
            .rev()
            .map(|parts| frequency / f64::from(parts))
            .find(|&f| 1.0 / f <= TURNS.1 && around(f) > AS_GOOD * peak);
        let frequency = longest.unwrap_or(frequency);
        best = Some(1.0 / frequency);
        (lowest, highest) = (frequency - 8.0 * step, frequency + 8.0 * step);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_oracle::drive::Words;

    #[test]
    fn a_turn_is_found_in_times_that_are_whole_turns_apart_and_in_no_others() {
        let mut words = Words(3);
        let mut whole = |turn: f64| -> Vec<f64> {
            (0..500).map(|_| (1 + words.below(40_000)) as f64 * turn + 40.0 * words.unit()).collect()
        };
        for turn in [4000.0, 5999.2, 8333.3, 11_111.1] {
            let found = revolution(whole(turn)).unwrap();
            assert!((found / turn - 1.0).abs() < 1e-4, "{found} for {turn}");
        }
        let anywhere = (0..500).map(|_| words.unit() * 3e7).collect();
        assert_eq!(revolution(anywhere), None);
    }

    #[test]
    fn an_outer_sector_is_as_deep_as_its_number_and_inner_ones_are_deeper() {
        let even = Radius { sectors: 1e6, ratio: 1.0 };
        assert!((even.depth(700_000) - 700_000.0).abs() < 1e-6);
        let zoned = Radius { sectors: 1e6, ratio: 2.0 };
        assert!((zoned.depth(100) - 100.0).abs() < 0.01);
        // Half as many sectors a track at the inner edge: an average of three quarters.
        assert!((zoned.depth(1_000_000) - 1e6 / 0.75).abs() < 1.0);
        // At half of the radius lie 0.875 / 1.5 of the sectors.
        assert!((zoned.depth(583_333) - 0.5e6 / 0.75).abs() < 3.0);
    }

    #[test]
    fn least_squares_finds_the_factors_that_made_the_rows_and_none_below_zero() {
        let rows = |linear: f64| -> Vec<([f64; 4], f64)> {
            let row = |k: u32| {
                let d = f64::from(k * k) * 37.0;
                let row = [1.0, d.sqrt(), d, f64::from(k % 5)];
                (row, 5000.0 + 1.2 * row[1] + linear * row[2] + 20.0 * row[3])
            };
            (1..300).map(row).collect()
        };
        let found = nonnegative(&rows(2e-4), [true; 4]);
        for (found, made) in found.into_iter().zip([5000.0, 1.2, 2e-4, 20.0]) {
            assert!((found / made - 1.0).abs() < 1e-3, "{found} for {made}");
        }
        assert!(nonnegative(&rows(-1e-4), [true; 4]).iter().all(|factor| *factor >= 0.0));
    }
}
