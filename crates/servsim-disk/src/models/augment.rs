//! Augments training requests with such of shorter distances, for models that will be asked about moves.
//!
//! A move brings together what lay apart, so that it makes distances which the trace hardly holds.
//! Each of the nearest requests is repeated nearer, and quicker by what the arm saves.

use crate::features::{
    Features, CACHED, DISTANCE, FROM_START, OP, PREVIOUS_DISTANCE, PREVIOUS_OP, PREVIOUS_SECTORS, SEEK,
    SINCE_WRITE,
};
use crate::mechanics::Mechanics;
use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// Shortest distance added, sectors.
const SHORTEST: f32 = 2.0;
/// Doublings of it that are looked at.
const OCTAVES: u16 = 15;
/// Requests within an octave that speak for themselves.
const ENOUGH: usize = 100;
/// Requests added to an octave with fewer,
const ADDED: usize = 120;
/// from among so many that are next in distance.
const DONORS: usize = 600;
/// Distances of the request before are augmented from here on downwards.
const NEAR: f32 = 20_000.0;
/// A write answered in less than this share of what a read takes is answered before it is written.
const BUFFERED: f32 = 0.6;

/// Value at `share` of `values` in order.
fn at_share(mut values: Vec<f32>, share: f64) -> Option<f32> {
    values.sort_unstable_by(f32::total_cmp);
    values.get((values.len() as f64 * share) as usize).copied()
}

/// Requests like the nearest of `features`, with their times in us.
pub fn augmented(
    features: &[Features],
    targets_us: &[f32],
    mechanics: &Mechanics,
    rng: &mut Pcg64Mcg,
) -> (Vec<Features>, Vec<f32>) {
    let of = |write: bool, share: f64| {
        let rows = features.iter().zip(targets_us);
        let times = rows.filter(|(row, _)| (row[OP] > 0.5) == write && row[CACHED] < 0.5);
        at_share(times.map(|(_, us)| *us).collect(), share)
    };
    let buffered = match (of(true, 0.5), of(false, 0.5)) {
        (Some(write), Some(read)) => write < BUFFERED * read,
        _ => false,
    };
    let overhead_us = mechanics.overhead_us as f32;
    let least = [overhead_us, if buffered { of(true, 0.05).unwrap_or(overhead_us) } else { overhead_us }];
    let turn_us = mechanics.revolution_us.unwrap_or(8000.0);
    let seek = |distance: f32| mechanics.seek_us(f64::from(distance)) as f32;
    let mut by_distance: Vec<usize> = (0..features.len())
        .filter(|&at| features[at][CACHED] < 0.5 && features[at][DISTANCE] >= SHORTEST)
        .collect();
    by_distance.sort_by(|&a, &b| features[a][DISTANCE].total_cmp(&features[b][DISTANCE]));
    let below = |distance: f32| by_distance.partition_point(|&at| features[at][DISTANCE] < distance);
    let (mut rows, mut times) = (Vec::new(), Vec::new());
    for octave in 0..OCTAVES {
        let from = SHORTEST * f32::from(1_u16 << octave);
        let beyond = below(2.0 * from);
        if beyond - below(from) >= ENOUGH {
            continue;
        }
        let donors = &by_distance[beyond..by_distance.len().min(beyond + DONORS)];
        for time in 0..if donors.is_empty() { 0 } else { ADDED } {
            let donor = donors[rng.random_range(0..donors.len())];
            let distance = from * 2_f32.powf(rng.random());
            let mut row = features[donor];
            let mut us = targets_us[donor];
            let is_write = row[OP] > 0.5;
            let floor = least[usize::from(is_write)].min(us);
            if !(is_write && buffered) {
                us -= seek(row[DISTANCE]) - seek(distance);
            }
            row[SEEK] = distance.copysign(row[SEEK]);
            row[DISTANCE] = distance;
            row[FROM_START] = row[SEEK] + row[PREVIOUS_SECTORS];
            // After a move near requests follow near ones; the arm owes less for the one before, too.
            if time % 3 > 0 && row[PREVIOUS_DISTANCE] > SHORTEST {
                let most = row[PREVIOUS_DISTANCE].min(NEAR);
                let before = SHORTEST * (most / SHORTEST).powf(rng.random());
                let owed_us = 0.5 * (turn_us as f32 + seek(row[PREVIOUS_DISTANCE]));
                if buffered && row[PREVIOUS_OP] > 0.5 && row[SINCE_WRITE] < owed_us {
                    us -= seek(row[PREVIOUS_DISTANCE]) - seek(before);
                }
                row[PREVIOUS_DISTANCE] = before;
            }
            rows.push(row);
            times.push(us.max(floor));
        }
    }
    (rows, times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::NONE_RECENT;
    use crate::mechanics::Radius;
    use rand::SeedableRng;

    #[test]
    fn requests_told_again_are_nearer_and_quicker_by_what_the_arm_saves() {
        let mechanics = Mechanics {
            radius: Radius { sectors: 1e7, ratio: 1.0 },
            settle_us: 1000.0,
            root_us: 1.0,
            linear_us: 1e-4,
            track_sectors: 300.0,
            overhead_us: 300.0,
            revolution_us: Some(6000.0),
        };
        let mut rows = Vec::new();
        let mut times = Vec::new();
        for k in 0..2000_u16 {
            let mut row = Features::default();
            row[DISTANCE] = 80_000.0 + f32::from(k) * 5000.0;
            row[SEEK] = -row[DISTANCE];
            row[SINCE_WRITE] = NONE_RECENT;
            // The rest of a time tells who it is.
            times.push(20_000.0 + f32::from(k) + mechanics.seek_us(f64::from(row[DISTANCE])) as f32);
            rows.push(row);
        }
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let (nearer, quicker) = augmented(&rows, &times, &mechanics, &mut rng);
        assert_eq!((nearer.len(), quicker.len()), (ADDED * usize::from(OCTAVES), nearer.len()));
        for (row, us) in nearer.iter().zip(&quicker) {
            assert!(row[DISTANCE] < 80_000.0 && row[SEEK] == -row[DISTANCE]);
            let rest = us - mechanics.seek_us(f64::from(row[DISTANCE])) as f32;
            // One of the nearest 600 by what is left.
            let donor = rest - 20_000.0;
            assert!((donor - donor.round()).abs() < 0.2 && (-0.2..599.2).contains(&donor), "{donor}");
        }
        // Where there are enough, nothing is told.
        rows.iter_mut().take(150).for_each(|row| row[DISTANCE] = 3000.0);
        let (nearer, _) = augmented(&rows, &times, &mechanics, &mut rng);
        let told = |distance: f32| nearer.iter().filter(|row| row[DISTANCE] >= distance).count();
        assert_eq!((told(2048.0) - told(4096.0), told(1024.0) - told(2048.0)), (0, ADDED));
    }
}
