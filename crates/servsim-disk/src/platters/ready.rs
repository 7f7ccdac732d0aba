//! The time that an access needs before its sectors may pass, found in a trace.
//!
//! What an access takes beyond that is between nothing and a turn. So the accesses over one distance
//! bound it from both sides; where the zones are known, the time that best says in which turn each of
//! them ended settles it.

use super::{Ended, Platters, Ready};
use crate::request::Op;

/// Accesses over similar distances that settle a time, at least.
const TOGETHER: usize = 40;
/// Distances told apart, at most.
const DISTANCES: usize = 32;
/// Parts of a turn that times are tried in.
const PARTS: f64 = 64.0;
/// Times tried on either side of the first guess.
const AROUND: i32 = 24;
/// Times that all distances are settled.
const SWEEPS: usize = 3;

/// The arm that `accesses` of one operation show, given what is known of `platters`; `None` if they are few.
pub(super) fn find(platters: &Platters, accesses: &[Ended], op: Op, angle: f64) -> Option<Ready> {
    let mut accesses: Vec<Ended> = accesses.iter().filter(|access| access.op == op).copied().collect();
    if accesses.len() < TOGETHER {
        return None;
    }
    accesses.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    let groups = groups(&accesses);
    let knots = groups.iter().map(|group| {
        let middle = group[group.len() / 2].distance.ln_1p();
        [middle, between(platters, group)]
    });
    let mut knots: Vec<[f64; 2]> = knots.collect();
    knots.dedup_by(|a, b| a[0] <= b[0]);
    never_shorter(&mut knots);
    let mut ready = Ready { knots, angle };
    for _ in 0..SWEEPS {
        for knot in 0..ready.knots.len() {
            let from = knot.checked_sub(1).map_or(f64::NEG_INFINITY, |before| ready.knots[before][0]);
            let to = ready.knots.get(knot + 1).map_or(f64::INFINITY, |after| after[0]);
            let touched: Vec<&Ended> =
                accesses.iter().filter(|a| (from..=to).contains(&a.distance.ln_1p())).collect();
            let guess = ready.knots[knot][1];
            let tried = (-AROUND..=AROUND).map(|k| guess + f64::from(k) * platters.turn_us / PARTS);
            let mut best = (f64::INFINITY, guess);
            for us in tried.filter(|us| *us >= 0.0) {
                ready.knots[knot][1] = us;
                let missed = missed(platters, &ready, &touched);
                if missed < best.0 {
                    best = (missed, us);
                }
            }
            ready.knots[knot][1] = best.1;
        }
        never_shorter(&mut ready.knots);
    }
    Some(ready)
}

/// Lets no time be shorter than one over a lesser distance: neighbours that are share their mean.
fn never_shorter(knots: &mut [[f64; 2]]) {
    // Means and how many they stand for.
    let mut levels: Vec<(f64, usize)> = Vec::new();
    for knot in knots.iter() {
        let (mut mean, mut count) = (knot[1], 1);
        while let Some((before, of)) = levels.pop_if(|(before, _)| *before > mean) {
            mean = (mean * count as f64 + before * of as f64) / (count + of) as f64;
            count += of;
        }
        levels.push((mean, count));
    }
    let times = levels.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count));
    knots.iter_mut().zip(times).for_each(|(knot, us)| knot[1] = us);
}

/// Accesses over similar distances; those over none at all are among themselves.
fn groups(accesses: &[Ended]) -> Vec<&[Ended]> {
    let still = accesses.partition_point(|access| access.distance < 1.0);
    let (still, moved) = accesses.split_at(if still >= TOGETHER { still } else { 0 });
    let size = moved.len().div_ceil(DISTANCES).max(TOGETHER);
    std::iter::once(still).chain(moved.chunks(size)).filter(|group| group.len() >= TOGETHER / 2).collect()
}

/// The time that leaves most of `group` between nothing and a turn.
fn between(platters: &Platters, group: &[Ended]) -> f64 {
    let mut left: Vec<f64> = group.iter().map(|access| access.us - passing_us(platters, access)).collect();
    left.sort_by(f64::total_cmp);
    let held = |from: f64| {
        left.partition_point(|us| *us < from + platters.turn_us) - left.partition_point(|us| *us < from)
    };
    // The latest of the earliest and the earliest of the latest times that hold as many.
    let most = left.iter().map(|&from| held(from)).max().unwrap_or(0);
    let holding: Vec<f64> = left.iter().copied().filter(|&from| held(from) == most).collect();
    let (first, last) = (holding[0], holding[holding.len() - 1]);
    let beyond = left[left.partition_point(|us| *us < first + platters.turn_us) - 1] - platters.turn_us;
    (0.5 * (beyond + last)).max(0.0)
}

fn passing_us(platters: &Platters, access: &Ended) -> f64 {
    platters.zone(access.end).map_or(0.0, |zone| access.sectors * zone.per_sector * platters.turn_us)
}

/// By how much the passes foretold miss the times that were taken, us; half a turn at most for each.
fn missed(platters: &Platters, ready: &Ready, accesses: &[&Ended]) -> f64 {
    let most = platters.turn_us / 2.0;
    let each = |access: &&Ended| {
        let pass = platters.pass_of(&access.access(), ready)?;
        Some((access.us - pass.0).abs().min(most))
    };
    accesses.iter().filter_map(each).sum()
}
