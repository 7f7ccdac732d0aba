//! The turn of the platters, found in a trace.
//!
//! Two accesses that end close to one another end so many turns apart, and as much of a turn as lies
//! between their places. Neither a turn nor the sectors to it are known, but the right pair of them
//! brings all such pairs of accesses into phase. Pairs that are close in time give the turn roughly,
//! later ones more and more exactly, until it holds for the whole trace.

use super::Ended;
use std::f64::consts::TAU;

/// Turns looked for, us: 20,000 to 3000 a minute.
const TURNS: (f64, f64) = (3000.0, 20_000.0);
/// Sectors a turn, fewest and most.
pub(super) const SECTORS: (f64, f64) = (25.0, 2400.0);
/// Accesses that end so far apart are near, sectors: on drives with many accesses, or with few.
const NEAR: [f64; 2] = [3000.0, 30_000.0];
/// Pairs that settle a turn.
const PAIRS: usize = 40;
/// Most pairs of a part of the drive, of those that settle a turn roughly, and of all.
const ROUGHLY: usize = 100;
const MOST: usize = 300;
/// Parts of a drive with a rate of their own.
const PARTS: usize = 6;
/// Accesses before it, or near it, that one is paired with.
const LOOK_BACK: usize = 12;
/// Time apart of the first pairs, us.
const SOON_US: f64 = 150e3;
/// Score of the turn beside the middle of all scores.
const STANDS_OUT: f64 = 1.5;
/// Turns followed up, at most.
const CANDIDATES: usize = 6;
/// How much further apart the next pairs may be.
const STEP: f64 = 2.5;

/// Two accesses to nearby places: how far apart they end, in sectors and in us.
#[derive(Debug, Clone, Copy)]
struct Pair {
    sectors: f64,
    us: f64,
    place: f64,
}

impl Pair {
    fn of(a: &Ended, b: &Ended) -> Pair {
        let (first, second) = if a.done_us <= b.done_us { (a, b) } else { (b, a) };
        Pair { sectors: second.end - first.end, us: second.done_us - first.done_us, place: second.end }
    }
}

/// Rates, in turns a sector, at even steps.
#[derive(Debug, Clone, Copy)]
struct Rates {
    first: f64,
    step: f64,
    count: usize,
}

impl Rates {
    fn between(lowest: f64, highest: f64, near: f64) -> Rates {
        let step = 1.0 / (5.0 * near);
        Rates { first: lowest, step, count: ((highest - lowest) / step) as usize + 1 }
    }
}

/// Squared resultant over the number of `pairs` at the best of `rates`, and that rate, if a turn is
/// `1 / frequency`.
fn score(pairs: &[Pair], frequency: f64, rates: Rates) -> (f64, f64) {
    let turned = |turns: f64| (turns.fract() * TAU).sin_cos();
    let mut turning: Vec<Turning> = Vec::with_capacity(pairs.len().div_ceil(SIDE_BY_SIDE));
    for some in pairs.chunks(SIDE_BY_SIDE) {
        let mut these = Turning::default();
        for (at, pair) in some.iter().enumerate() {
            let (sin, cos) = turned(pair.us * frequency - pair.sectors * rates.first);
            (these.re[at], these.im[at]) = (cos as f32, sin as f32);
            let (sin, cos) = turned(-pair.sectors * rates.step);
            (these.by_re[at], these.by_im[at]) = (cos as f32, sin as f32);
        }
        turning.push(these);
    }
    let mut best = (0.0, rates.first);
    for k in 0..rates.count {
        let (mut re, mut im) = ([0.0; SIDE_BY_SIDE], [0.0; SIDE_BY_SIDE]);
        for these in &mut turning {
            these.step(&mut re, &mut im);
        }
        let (re, im): (f32, f32) = (re.iter().sum(), im.iter().sum());
        let squared = re * re + im * im;
        if squared > best.0 {
            best = (squared, rates.first + k as f64 * rates.step);
        }
    }
    (f64::from(best.0) / pairs.len() as f64, best.1)
}

/// Pairs that turn side by side: what one instruction can do for several.
const SIDE_BY_SIDE: usize = 8;

/// Where pairs point, and by how much each turns from one rate to the next; those that are missing have no length.
#[derive(Debug, Clone, Copy, Default)]
struct Turning {
    re: [f32; SIDE_BY_SIDE],
    im: [f32; SIDE_BY_SIDE],
    by_re: [f32; SIDE_BY_SIDE],
    by_im: [f32; SIDE_BY_SIDE],
}

impl Turning {
    /// Adds where they point to `re` and `im`, and turns them.
    #[inline(always)]
    fn step(&mut self, re: &mut [f32; SIDE_BY_SIDE], im: &mut [f32; SIDE_BY_SIDE]) {
        for at in 0..SIDE_BY_SIDE {
            let (a, b) = (self.re[at], self.im[at]);
            re[at] += a;
            im[at] += b;
            self.re[at] = a * self.by_re[at] - b * self.by_im[at];
            self.im[at] = a * self.by_im[at] + b * self.by_re[at];
        }
    }
}

/// `pairs` by part of the drive, each with as many.
fn parts(mut pairs: Vec<Pair>) -> Vec<Vec<Pair>> {
    pairs.sort_by(|a, b| a.place.total_cmp(&b.place));
    let size = pairs.len().div_ceil(PARTS).max(1);
    pairs.chunks(size).map(<[Pair]>::to_vec).collect()
}

/// Accesses that follow one another soon, of one operation, in nearby places.
fn soon(accesses: &[Ended], near: f64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (at, later) in accesses.iter().enumerate() {
        for earlier in &accesses[at.saturating_sub(LOOK_BACK)..at] {
            let pair = Pair::of(earlier, later);
            if earlier.op == later.op && pair.us <= SOON_US && pair.sectors.abs() <= near {
                pairs.push(pair);
            }
        }
    }
    pairs.truncate(ROUGHLY * PARTS);
    pairs
}

/// Accesses to nearby places at any times.
fn ever(accesses: &[Ended], near: f64) -> Vec<Pair> {
    let mut by_place: Vec<&Ended> = accesses.iter().collect();
    by_place.sort_by(|a, b| a.end.total_cmp(&b.end));
    let mut pairs = Vec::new();
    for (at, one) in by_place.iter().enumerate() {
        let others = by_place[at + 1..].iter().take(LOOK_BACK);
        let others = others.take_while(|other| other.end - one.end <= near);
        pairs.extend(others.filter(|other| other.op == one.op).map(|other| Pair::of(one, other)));
    }
    pairs
}

/// Turns that `accesses` may show, us, as exactly as the time that they take allows, the likeliest first.
pub(super) fn candidates_us(accesses: &[Ended]) -> Vec<f64> {
    let enough = |near: &f64| soon(accesses, *near).len() >= PAIRS;
    let Some(near) = NEAR.into_iter().find(enough) else { return Vec::new() };
    let first = parts(soon(accesses, near));
    let all = Rates::between(1.0 / SECTORS.1, 1.0 / SECTORS.0, near);
    let step = 1.0 / (5.0 * SOON_US);
    let count = ((1.0 / TURNS.0 - 1.0 / TURNS.1) / step) as usize;
    let scores: Vec<(f64, f64)> = (0..=count)
        .map(|k| 1.0 / TURNS.1 + k as f64 * step)
        .map(|frequency| (total(&first, frequency, all), frequency))
        .collect();
    let mut sorted: Vec<f64> = scores.iter().map(|score| score.0).collect();
    sorted.sort_by(f64::total_cmp);
    let least = STANDS_OUT * sorted[sorted.len() / 2];
    // Neighbours of a better one are the same, less exactly.
    let peaks = (0..scores.len()).filter(|&k| {
        let around = &scores[k.saturating_sub(2)..scores.len().min(k + 3)];
        scores[k].0 >= least && around.iter().all(|other| other.0 <= scores[k].0)
    });
    let mut peaks: Vec<(f64, f64)> = peaks.map(|k| scores[k]).collect();
    peaks.sort_by(|a, b| b.0.total_cmp(&a.0));
    peaks.truncate(CANDIDATES);
    let ever = ever(accesses, near);
    peaks.into_iter().map(|(_, frequency)| 1.0 / exact(frequency, &ever, &first, all)).collect()
}

/// Score of all parts together.
fn total(parts: &[Vec<Pair>], frequency: f64, rates: Rates) -> f64 {
    parts.iter().map(|part| score(part, frequency, rates).0).sum()
}

/// `frequency`, of which the pairs of `first` are sure, as exactly as the pairs of `ever` tell it.
fn exact(mut frequency: f64, ever: &[Pair], first: &[Vec<Pair>], all: Rates) -> f64 {
    let rates: Vec<f64> = first.iter().map(|part| score(part, frequency, all).1).collect();
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min) * 0.8;
    let highest = rates.iter().copied().fold(0.0, f64::max) * 1.25;
    let around = Rates { first: lowest, count: ((highest - lowest) / all.step) as usize + 1, ..all };
    let longest = ever.iter().map(|pair| pair.us).fold(0.0, f64::max);
    let mut reach = SOON_US;
    while reach < longest {
        reach *= STEP;
        let evenly = |part: Vec<Pair>| part.iter().step_by(part.len().div_ceil(MOST)).copied().collect();
        let within = ever.iter().filter(|pair| pair.us <= reach).copied().collect();
        let pairs: Vec<Vec<Pair>> = parts(within).into_iter().map(evenly).collect();
        let near_by = (-16..=16).map(|k| frequency + f64::from(k) / (5.0 * reach));
        let scores = near_by.map(|tried| (total(&pairs, tried, around), tried));
        frequency = scores.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(frequency, |best| best.1);
    }
    frequency
}
