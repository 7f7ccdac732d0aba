//! Accuracy on drives drawn at random, so that nothing is tuned to one of them:
//! `cargo bench -p servsim-disk --bench random_drives [-- moves|loads] [FIRST LAST]`.
//!
//! Seek curve, speed, zones, heads, skew, overhead, cache and write buffer of each drive differ, as do
//! the load and, for moves, how many blocks are hot, how hot, how long their requests are, and whether
//! they lie together. `servsim-oracle` tells the truth. Ends with 1 if fewer than nine moves of ten lie within the
//! interval that was told of them. Drives 0 to 23 were looked at while the models
//! were made.
//!
//! Beside each model at other loads stands the drive itself, once with its platters turned by eighths
//! before it begins (it knows angles between places, but not where the platters stood), once with how
//! they stand drawn anew for every access (it knows nothing of angles, not even after what is next to
//! it).

use servsim_disk::evaluate::{at_load_pooled, replications};
use servsim_disk::metrics::demerit::demerit_percent;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::DeviceModel;
use servsim_disk::moves::{Prediction, Unmoved};
use servsim_disk::reorganize::{covered, plan, Policy};
use servsim_disk::request::Request;
use servsim_oracle::drive::{workload, Drive, Job, Order, Words};
use std::fmt::Write;

#[path = "../tests/it/truth/mod.rs"]
mod truth;
use truth::{mean, truth};

/// Requests of a trace.
const REQUESTS: usize = 15_000;
const ORDERS: [Order; 2] = [Order::Fcfs, Order::Sstf];

fn fitted(requests: &[Request], movable: bool) -> DeviceModel {
    let options = FitOptions { movable, ..FitOptions::default() };
    fit("forest", requests, &["disk0".to_owned()], &options).expect("a long trace").remove(0)
}

fn mean_us(requests: &[Request]) -> f64 {
    mean(requests) * 1e-3
}

/// Jobs of which many go to a set of hot blocks.
fn heated(drive: &Drive, requests: usize, mean_gap_us: f64, seed: u64) -> Vec<Job> {
    let mut words = Words(seed ^ 0x4077);
    let blocks = 100 + words.below(1400);
    let (share, power) = (0.3 + 0.55 * words.unit(), 1.0 + 2.0 * words.unit());
    let places: Vec<u64> =
        (0..[0, 3, 10][words.below(3) as usize]).map(|_| words.below(drive.sectors() / 8 - 5000)).collect();
    let mut block = || match places.len() as u64 {
        0 => words.below(drive.sectors() / 8 - 100) * 8,
        count => (places[words.below(count) as usize] + words.below(4000)) * 8,
    };
    let hot: Vec<u64> = (0..blocks).map(|_| block()).collect();
    let lengths: Vec<u32> = (0..blocks).map(|_| [8, 8, 16, 32][words.below(4) as usize]).collect();
    let heat = |job: Job| {
        let (is_hot, rank) = (words.unit() < share, words.unit());
        let at = (rank.powf(power) * blocks as f64) as usize;
        if is_hot {
            Job { lba: hot[at], sectors: lengths[at], ..job }
        } else {
            job
        }
    };
    workload(drive, requests, mean_gap_us, seed).into_iter().map(heat).collect()
}

/// Mean response in us where requests never meet: the scale of a load.
fn alone_us(drive: &Drive, jobs: &[Job]) -> f64 {
    let apart = |(k, job): (usize, &Job)| Job { arrival_ns: k as u64 * 100_000_000, ..*job };
    let jobs: Vec<Job> = jobs.iter().take(3000).enumerate().map(apart).collect();
    mean_us(&truth(drive, &jobs, Order::Fcfs, 1.0))
}

/// Errors of one kind over all drives.
#[derive(Default)]
struct Errors(Vec<f64>);

impl Errors {
    fn print(mut self, what: &str, limit: f64) {
        let n = self.0.len() as f64;
        let bias = self.0.iter().sum::<f64>() / n;
        let rms = (self.0.iter().map(|e| e * e).sum::<f64>() / n).sqrt();
        self.0.iter_mut().for_each(|e| *e = e.abs());
        self.0.sort_by(f64::total_cmp);
        let at = |p: f64| self.0[((n - 1.0) * p) as usize];
        let beyond = self.0.iter().filter(|e| **e > limit).count();
        println!(
            "{what:<28} n {n}: mean {bias:+.2}, rms {rms:.2}; size: median {:.2}, p90 {:.2}, largest {:.2}; beyond {limit}: {beyond}",
            at(0.5),
            at(0.9),
            at(1.0)
        );
    }
}

/// Share of moves that must lie within the interval told.
const COVERED: f64 = 0.9;

/// Predictions of moves against what they do, to the requests that the map is drawn from and to as many that come after
/// them; whether as many as must be lie within their intervals.
fn moves(seeds: std::ops::Range<u64>) -> bool {
    println!("hot blocks: predicted and true change of the mean response, percent");
    let (mut own, mut next) = (Told::default(), Told::default());
    let mut as_own = Errors::default();
    for seed in seeds {
        let drive = Drive::at_random(seed);
        let alone_us = alone_us(&drive, &heated(&drive, REQUESTS, 50_000.0, seed));
        for (order, turn) in ORDERS.into_iter().zip(0..) {
            let gap_us = alone_us * [6.0, 3.0, 2.0][(seed % 3) as usize];
            let jobs = heated(&drive, 2 * REQUESTS, gap_us, seed * 2 + turn);
            let (jobs, later) = jobs.split_at(REQUESTS);
            let before = truth(&drive, jobs, order, 1.0);
            let map = plan(&before, 1000, Policy::HotBlock);
            let change = |jobs: &[Job], before: &[Request]| {
                let moved: Vec<Job> =
                    jobs.iter().map(|job| Job { lba: map.sector(job.lba), ..*job }).collect();
                100.0 * (mean_us(&truth(&drive, &moved, order, 1.0)) / mean_us(before) - 1.0)
            };
            let model = fitted(&before, true);
            let unmoved = Unmoved::of(&model, &before, 1.0, 1).expect("a load");
            let said = unmoved.by_map(&map, covered(&before, 1000)).expect("a load");
            let held_out = unmoved.held_out(1000, Policy::HotBlock).expect("a load");
            let what = format!("drive {seed:3} {order:?} gaps {gap_us:6.0} us");
            own.add(&what, &said, change(jobs, &before));
            let real = change(later, &truth(&drive, later, order, 1.0));
            next.add(&format!("  its next requests {:25}", ""), &held_out, real);
            as_own.0.push(said.change_percent - real);
        }
    }
    as_own.print("next, said of its own, points", 5.0);
    let [own, next] =
        [("hot blocks, points", own), ("next, held out, points", next)].map(|(what, told)| told.print(what));
    own >= COVERED && next >= COVERED
}

/// Predictions beside what was true.
#[derive(Default)]
struct Told {
    errors: Errors,
    within: usize,
    wrong: usize,
}

impl Told {
    fn add(&mut self, what: &str, said: &Prediction, real: f64) {
        let (half, said) = (said.half_width_percent, said.change_percent);
        let inside = (said - real).abs() <= half;
        let mark = if inside { "" } else { "  OUTSIDE" };
        println!("  {what}: {said:+6.1} +-{half:.1}, truth {real:+6.1}{mark}");
        self.within += usize::from(inside);
        self.errors.0.push(said - real);
        // Where next to nothing changes, a sign says nothing.
        self.wrong += usize::from(said * real < 0.0 && real.abs() > 1.0);
    }

    /// Prints them; returns the share within their intervals.
    fn print(self, what: &str) -> f64 {
        let (count, within) = (self.errors.0.len(), self.within);
        self.errors.print(what, 5.0);
        let share = within as f64 / count as f64;
        println!(
            "wrong sign: {}; within the interval told: {within} of {count} ({:.1} %; {:.0} % wanted)",
            self.wrong,
            100.0 * share,
            100.0 * COVERED
        );
        share
    }
}

/// The same drive to one who knows nothing of angles.
fn blind(drive: &Drive, jobs: &[Job], order: Order, load: f64, seed: u64) -> Vec<Request> {
    truth(&Drive { forgets_angle: Some(seed), ..drive.clone() }, jobs, order, load)
}

/// The same drive, its platters turned by `turn` before it begins.
fn turned(drive: &Drive, jobs: &[Job], order: Order, load: f64, turn: f64) -> Vec<Request> {
    // At a load, arrivals are divided by it.
    let later_ns = (turn * drive.revolution_us * 1000.0 * load) as u64;
    let jobs: Vec<Job> =
        jobs.iter().map(|job| Job { arrival_ns: job.arrival_ns + later_ns, ..*job }).collect();
    truth(drive, &jobs, order, load)
}

fn loads(seeds: std::ops::Range<u64>) {
    println!("other loads: error of the mean and D, percent; of the model | of the drive at other angles | at random angles");
    let limits = [(1.0, 3.0, 6.0), (1.2, 3.0, 6.0), (1.4, 6.0, 9.0)];
    let mut errors: [[Errors; 6]; 3] = Default::default();
    let (mut missed, mut cases) = ([0; 3], 0);
    for seed in seeds {
        let drive = Drive::at_random(seed);
        let alone_us = alone_us(&drive, &workload(&drive, 3000, 50_000.0, seed));
        for (order, turn) in ORDERS.into_iter().zip(0..) {
            let gap_us = alone_us * [2.6, 2.2, 1.9][(seed % 3) as usize];
            let jobs = workload(&drive, REQUESTS, gap_us, seed * 2 + turn);
            let base = truth(&drive, &jobs, order, 1.0);
            let model = fitted(&base, false);
            let mut text = format!("  drive {seed:3} {order:?}");
            for ((load, mean_limit, d_limit), errors) in limits.into_iter().zip(&mut errors) {
                let real = truth(&drive, &jobs, order, load);
                let seen = at_load_pooled(&model, &base, load, Some(&real), 3, replications(base.len()));
                let seen = seen.expect("a load");
                let (error, d) = (seen.mean_error_percent.unwrap_or(0.0), seen.d_percent.unwrap_or(0.0));
                let times = |requests: &[Request]| -> Vec<f64> {
                    requests.iter().map(|r| r.response_ns() as f64 * 1e-3).collect()
                };
                let judged = |others: Vec<Request>| {
                    let error = 100.0 * (mean_us(&others) / mean_us(&real) - 1.0);
                    (error, demerit_percent(&times(&others), &times(&real), 1.0))
                };
                let turns = (1..8).map(|k| turned(&drive, &jobs, order, load, f64::from(k) / 8.0));
                let blinds = (1..9).map(|seed| blind(&drive, &jobs, order, load, seed));
                let all = [(error, d), judged(turns.flatten().collect()), judged(blinds.flatten().collect())];
                let beyond = |error: f64, d: f64| usize::from(error.abs() > mean_limit || d > d_limit);
                missed.iter_mut().zip(all).for_each(|(missed, (error, d))| *missed += beyond(error, d));
                cases += 1;
                let _ = write!(text, "  x{load}:");
                for (errors, (error, d)) in errors.chunks_mut(2).zip(all) {
                    let _ = write!(text, " | {error:+5.1} {d:5.1}");
                    errors[0].0.push(error);
                    errors[1].0.push(d);
                }
            }
            println!("{text}");
        }
    }
    for ((load, mean_limit, d_limit), [mean, d, turned_mean, turned_d, blind_mean, blind_d]) in
        limits.into_iter().zip(errors)
    {
        mean.print(&format!("x{load}: mean"), mean_limit);
        turned_mean.print("  at other angles", mean_limit);
        blind_mean.print("  at random angles", mean_limit);
        d.print(&format!("x{load}: D"), d_limit);
        turned_d.print("  at other angles", d_limit);
        blind_d.print("  at random angles", d_limit);
    }
    let [model, turned, blind] = missed;
    println!("beyond a target: {model} of {cases}; the drive itself at other angles {turned}, at random angles {blind}");
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let numbers: Vec<u64> = asked.iter().filter_map(|a| a.parse().ok()).collect();
    let seeds = match numbers[..] {
        [first, last] => first..last + 1,
        _ => 300..324,
    };
    let wanted =
        |part: &str| asked.iter().all(|a| a.parse::<u64>().is_ok()) || asked.iter().any(|a| a == part);
    let covered = !wanted("moves") || moves(seeds.clone());
    if wanted("loads") {
        loads(seeds);
    }
    if !covered {
        std::process::exit(1);
    }
}
