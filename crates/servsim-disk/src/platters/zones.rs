//! The zones of a drive, found in a trace whose turn is known.
//!
//! Accesses to neighbouring places, whatever their times, show a rate of so many turns a sector: the
//! one that brings their angles into phase. Where no rate does, a border runs through them, and each of
//! them belongs to the zone on the side that fits it better.

use super::turn::SECTORS;
use super::{Ended, Zone};
use crate::request::Op;
use std::f64::consts::TAU;

/// Accesses that settle a rate.
const WINDOW: usize = 60;
/// Rates tried at most for a window: more places to a sector than that, and chance finds one.
const TRIED: f64 = 4e5;
/// Windows that show no rate before the rest is not looked at.
const GIVE_UP: usize = 8;
/// Resultant beside what chance makes of the best of so many.
const BEYOND_CHANCE: f64 = 1.1;
/// Share of a neighbour's resultant below which a border is looked for.
const POOR: f64 = 0.8;
/// Frequencies of turns tried on either side of the one found, up to one turn more over the whole trace.
const AROUND: i32 = 40;

/// Turns, as a point of the circle.
fn on_circle(turns: f64) -> [f64; 2] {
    let (sin, cos) = (turns.fract() * TAU).sin_cos();
    [cos, sin]
}

fn length(z: [f64; 2]) -> f64 {
    z[0].hypot(z[1])
}

/// The angle of a sum of points, in turns.
fn angle(z: [f64; 2]) -> f64 {
    z[1].atan2(z[0]) / TAU
}

/// Sum of `turns` as points, reads and writes apart, whose angles may differ.
fn sums(accesses: &[Ended], turns: impl Fn(&Ended) -> f64) -> [[f64; 2]; 2] {
    let mut sums = [[0.0; 2]; 2];
    for access in accesses {
        let point = on_circle(turns(access));
        let sum = &mut sums[access.op as usize];
        *sum = [sum[0] + point[0], sum[1] + point[1]];
    }
    sums
}

/// How far an access is from its zone, in turns from -0.5 to 0.5.
fn off(zone: &Zone, access: &Ended, frequency: f64, shift: f64) -> f64 {
    let write = if access.op == Op::Write { shift } else { 0.0 };
    let expected = zone.angle + (access.end - zone.from) * zone.per_sector + write;
    (access.done_us * frequency - expected + 0.5).rem_euclid(1.0) - 0.5
}

/// The rate that fits `window` (in order of place) best, with its resultant, if chance finds none as good.
fn rate(window: &[Ended], frequency: f64) -> Option<(f64, f64)> {
    let from = window[0].end;
    let span = (window[window.len() - 1].end - from).max(1.0);
    let (lowest, step) = (1.0 / SECTORS.1, 1.0 / (5.0 * span));
    let count = (1.0 / SECTORS.0 - lowest) / step;
    if count > TRIED {
        return None;
    }
    let mut states: Vec<([f64; 2], [f64; 2], usize)> = window
        .iter()
        .map(|access| {
            let sectors = access.end - from;
            let begin = on_circle(access.done_us * frequency - sectors * lowest);
            (begin, on_circle(-sectors * step), access.op as usize)
        })
        .collect();
    let mut best = (0.0, lowest);
    for k in 0..count as usize {
        let mut sums = [[0.0; 2]; 2];
        for (at, by, op) in &mut states {
            let sum = &mut sums[*op];
            *sum = [sum[0] + at[0], sum[1] + at[1]];
            *at = [at[0] * by[0] - at[1] * by[1], at[0] * by[1] + at[1] * by[0]];
        }
        let resultant = length(sums[0]) + length(sums[1]);
        if resultant > best.0 {
            best = (resultant, lowest + k as f64 * step);
        }
    }
    let n = window.len() as f64;
    let finer = (-10..=10).map(|k| best.1 + f64::from(k) * step / 10.0).map(|rate| {
        let [reads, writes] = sums(window, |access| access.done_us * frequency - (access.end - from) * rate);
        (length(reads) + length(writes), rate)
    });
    let (resultant, rate) = finer.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let chance = ((count.ln() + 3.0) / n).sqrt();
    (resultant / n > BEYOND_CHANCE * chance).then_some((resultant / n, rate))
}

/// What is found: zones, the turn made more exact, and the angle of writes beyond that of reads.
pub(super) struct Found {
    pub zones: Vec<Zone>,
    pub turn_us: f64,
    pub write_angle: f64,
}

/// Zones of the places that `accesses` (in order of place) end at; `None` if most places show none.
pub(super) fn find(accesses: &[Ended], turn_us: f64) -> Option<Found> {
    let mut frequency = 1.0 / turn_us;
    let count = accesses.len() / WINDOW;
    let edge = |k: usize| k * accesses.len() / count.max(1);
    let windows: Vec<&[Ended]> = (0..count).map(|k| &accesses[edge(k)..edge(k + 1)]).collect();
    let mut rates: Vec<Option<(f64, f64)>> = Vec::with_capacity(count);
    for window in &windows {
        rates.push(rate(window, frequency));
        let known = rates.iter().flatten().count();
        if rates.len() >= GIVE_UP && 4 * known < rates.len() {
            return None;
        }
    }
    if 2 * rates.iter().flatten().count() < count.max(1) {
        return None;
    }
    // Windows agree on a turn that is more exact than what each of them needed.
    let times = accesses.iter().map(|access| access.done_us);
    let span = times.clone().fold(0.0, f64::max) - times.fold(f64::INFINITY, f64::min);
    let agreement = |frequency: f64| -> f64 {
        windows
            .iter()
            .zip(&rates)
            .filter_map(|(window, rate)| rate.map(|(_, rate)| (window, rate)))
            .map(|(window, rate)| {
                let [reads, writes] = sums(window, |access| access.done_us * frequency - access.end * rate);
                length(reads) + length(writes)
            })
            .sum()
    };
    frequency = (-AROUND..=AROUND)
        .map(|k| frequency + f64::from(k) / (f64::from(AROUND) * span))
        .map(|tried| (agreement(tried), tried))
        .max_by(|a, b| a.0.total_cmp(&b.0))?
        .1;
    let mut zones: Vec<Option<(Zone, f64)>> = Vec::new();
    let mut apart = [0.0; 2];
    for (window, rate) in windows.iter().zip(&rates) {
        zones.push(rate.map(|(resultant, per_sector)| {
            let from = window[0].end;
            let [reads, writes] =
                sums(window, |access| access.done_us * frequency - (access.end - from) * per_sector);
            // How far writes are beyond reads, weighed by how well both are known.
            let between = angle(writes) - angle(reads);
            let weight = length(reads).min(length(writes));
            let point = on_circle(between);
            apart = [apart[0] + weight * point[0], apart[1] + weight * point[1]];
            let angle = if length(reads) > 0.0 { angle(reads) } else { angle(writes) };
            (Zone { from, to: window[window.len() - 1].end, per_sector, angle }, resultant)
        }));
    }
    let write_angle = angle(apart);
    for ((zone, _), window) in
        zones.iter_mut().zip(&windows).filter_map(|(zone, window)| zone.as_mut().zip(Some(window)))
    {
        // Both tell the angle once it is known how far apart they are.
        let points = window.iter().map(|access| on_circle(off(zone, access, frequency, write_angle)));
        zone.angle += angle(points.fold([0.0; 2], |sum, z| [sum[0] + z[0], sum[1] + z[1]]));
    }
    settle_borders(&mut zones, &windows, frequency, write_angle);
    let mut zones: Vec<Zone> = zones.into_iter().flatten().map(|(zone, _)| zone).collect();
    zones.sort_by(|a, b| a.from.total_cmp(&b.from));
    zones.dedup_by(|a, b| a.from <= b.from);
    (!zones.is_empty()).then_some(Found { zones, turn_us: 1.0 / frequency, write_angle })
}

/// Gives the accesses of windows through which a border runs to the zones before and after.
fn settle_borders(zones: &mut [Option<(Zone, f64)>], windows: &[&[Ended]], frequency: f64, write_angle: f64) {
    for k in 1..zones.len().saturating_sub(1) {
        let (Some(before), Some(after)) = (zones[k - 1], zones[k + 1]) else { continue };
        let own = zones[k].map_or(0.0, |(_, resultant)| resultant);
        if own > POOR * before.1.min(after.1) {
            continue;
        }
        let fit = |zone: &Zone, access: &Ended| (off(zone, access, frequency, write_angle) * TAU).cos();
        let window = windows[k];
        let mut sum: f64 = window.iter().map(|access| fit(&after.0, access)).sum();
        let mut best = (sum, 0);
        for (at, access) in window.iter().enumerate() {
            sum += fit(&before.0, access) - fit(&after.0, access);
            if sum > best.0 {
                best = (sum, at + 1);
            }
        }
        if best.0 / window.len() as f64 <= own {
            continue;
        }
        zones[k] = None;
        if let Some((zone, _)) = &mut zones[k - 1] {
            zone.to = window[best.1.saturating_sub(1)].end;
        }
        if let (Some((zone, _)), Some(first)) = (&mut zones[k + 1], window.get(best.1)) {
            zone.angle -= (zone.from - first.end) * zone.per_sector;
            zone.from = first.end;
        }
    }
}
