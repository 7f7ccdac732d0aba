//! Accuracy of the disk models: `SERVSIM_DATA=... cargo bench -p servsim-disk --bench accuracy`, all of
//! it or, after `--`, any of `measured`, `peers`, `generated`, `moves` and `loads`.
//!
//! Measured drives and pairs come from `$SERVSIM_DATA/disk` (left out when it is absent); the loads
//! from the drive of `servsim-oracle` and variants of it, which hold the truth at any load.
//! The models see the first 24 % of a measured trace, and everything at load 1 of a simulated one.

use servsim_disk::evaluate::{at_load, at_load_pooled, evaluate, replications, Split};
use servsim_disk::importers::{load, ImportOptions};
use servsim_disk::metrics::demerit::{demerit, demerit_percent};
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::{mechanical, DeviceModel, Model};
use servsim_disk::moves::predict;
use servsim_disk::order::services;
use servsim_disk::reorganize::{covered, plan, Policy};
use servsim_disk::request::{by_device, Request, NO_START};
use servsim_disk::server::station::Started;
use servsim_disk::server::Server;
use servsim_disk::simulate::{closed_loop, open_loop_draws, responses_us};
use servsim_oracle::drive::{workload, Drive, Job, Order};
use std::fmt::Write;
use std::io::Cursor;
use std::path::Path;
use std::time::Instant;

#[path = "../tests/it/truth/mod.rs"]
mod truth;
use truth::{heated, mean, truth};

/// Share of a trace that trains: 7 of 29 days, as in the 1997 paper.
const TRAIN: f64 = 0.24;

fn forest(requests: &[Request]) -> DeviceModel {
    fit("forest", requests, &["disk0".to_owned()], &FitOptions::default()).expect("a long trace").remove(0)
}

/// A model that knows no block by its place, as `disk reorganize` fits.
fn movable(requests: &[Request]) -> DeviceModel {
    let options = FitOptions { movable: true, ..FitOptions::default() };
    fit("forest", requests, &["disk0".to_owned()], &options).expect("a long trace").remove(0)
}

fn read(path: &Path) -> Vec<Request> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let options = ImportOptions {
        columns: path
            .extension()
            .is_some_and(|e| e == "csv")
            .then(|| "arrival_us,op,lba,sectors,done_us".to_owned()),
        ..ImportOptions::default()
    };
    load(&mut Cursor::new(bytes), None, &options).unwrap_or_else(|error| panic!("{error}")).0
}

fn measured(folder: &Path) {
    println!("measured drives: all free running: D99 (floor), slices (floor), skill over a histogram, mean");
    let mut names: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").flatten().map(|e| e.path()).collect();
    names.retain(|path| path.extension().is_some_and(|e| e == "trace"));
    names.sort();
    for path in names {
        let requests = read(&path);
        let cut = (requests.len() as f64 * TRAIN) as usize;
        let seen =
            evaluate(&forest(&requests[..cut]), &requests, Split { cut }, &[], 0).expect("a good trace");
        let one = &seen.free_running;
        let good = one.d99_percent <= (1.5 * one.floor99_percent).max(2.0);
        println!(
            "  {:<16} D99 {:5.2} % ({:.2}){} slices {:5.2} % ({:.2})  skill {:.3} (one step {:.3})  mean {:+.2} %",
            path.file_stem().unwrap_or_default().to_string_lossy(),
            one.d99_percent,
            one.floor99_percent,
            if good { " " } else { "!" },
            one.slice.percent,
            one.slice.floor_percent,
            seen.skill.over_histogram,
            seen.one_step_skill.over_histogram,
            one.mean_error_percent,
        );
    }
}

/// What DiskSim 4.0 does with the parameters that its authors extracted from each validation drive: the
/// demerit over the whole trace that its `valid/runvalid` tells one to expect, us, and where it was
/// measured once, the mean error per request, ms. Its sources and five of the drives are not here.
const DISKSIM: [(&str, f64, Option<f64>); 10] = [
    ("atlas_III", 378.0, None),
    ("barracuda", 349.0, None),
    ("cheetah4LP", 318.0, None),
    ("cheetah9LP", 107.0, None),
    ("ibm18es", 135.0, None),
    ("atlas10k", 268.0, None),
    ("hp_c2247a", 90.0, Some(0.57)),
    ("hp_c3323a", 306.0, None),
    ("hp_c2490a", 254.0, Some(1.12)),
    ("dec_rz26", 340.0, Some(1.62)),
];

/// Draws of each request, whose median is what the model says of it: of fewer the median itself is left to chance.
const DRAWS: u64 = 201;

/// Measured drives beside DiskSim with its own parameters.
fn peers(folder: &Path) {
    println!("beside DiskSim with its drives' parameters: fitted to the first 24 %, judged on the rest");
    println!("  demerit ms (DiskSim, whole trace), Kolmogorov-Smirnov, error per request ms (one step; DiskSim), turn us, M requests/s");
    for (name, demerit_us, error_ms) in DISKSIM {
        let demerit_ms = demerit_us * 1e-3;
        let path = folder.join(format!("{name}.trace"));
        if !path.is_file() {
            println!("  {name:<12} not here");
            continue;
        }
        let requests = read(&path);
        let cut = (requests.len() as f64 * TRAIN) as usize;
        let model = forest(&requests[..cut]);
        let real: Vec<f64> = requests.iter().map(|r| r.response_ns() as f64 * 1e-3).collect();
        let mut quickest = f64::INFINITY;
        let runs: Vec<Vec<f64>> = (0..DRAWS)
            .map(|seed| {
                let begin = Instant::now();
                let run = closed_loop(&model, &requests, 1.0, seed).expect("load 1");
                quickest = quickest.min(begin.elapsed().as_secs_f64());
                responses_us(&run)
            })
            .collect();
        let middle = |draws: &mut Vec<f64>| {
            draws.sort_by(f64::total_cmp);
            draws[draws.len() / 2]
        };
        let error = |said: &mut dyn FnMut(usize) -> f64| {
            (cut..real.len()).map(|at| (said(at) - real[at]).abs()).sum::<f64>() * 1e-3
                / (real.len() - cut) as f64
        };
        let free = error(&mut |at| middle(&mut runs.iter().map(|run| run[at]).collect()));
        let mut steps = vec![0.0; real.len()];
        open_loop_draws(&model, &requests, DRAWS as usize, 3, &mut |at, draws| {
            steps[at] = middle(&mut draws.to_vec());
        });
        let rest = |run: &Vec<f64>| demerit(&run[cut..], &real[cut..], 1.0) * 1e-3;
        let ours: Vec<f64> = runs.iter().map(rest).collect();
        let turn = match &model.model {
            Model::Forest(forest) => forest.platters.as_ref().map(|platters| platters.turn_us),
            _ => None,
        };
        println!(
            "  {name:<12} {:.3} ({demerit_ms:.3}{})  KS {:.3}  {free:.2} ({:.2}; {})  {}  {:.2}",
            ours.iter().sum::<f64>() / ours.len() as f64,
            if ours.iter().sum::<f64>() / (ours.len() as f64) < demerit_ms { "" } else { "!" },
            kolmogorov_smirnov(&runs[0][cut..], &real[cut..]),
            error(&mut |at| steps[at]),
            error_ms.map_or("unknown".to_owned(), |ms| format!("{ms:.2}")),
            turn.map_or("no turn found".to_owned(), |us| format!("{us:.2}")),
            requests.len() as f64 / quickest * 1e-6,
        );
    }
}

/// Largest distance between the distributions of two samples.
fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> f64 {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (a, b) = (sorted(a), sorted(b));
    let share =
        |values: &[f64], x: f64| values.partition_point(|value| *value <= x) as f64 / values.len() as f64;
    a.iter().chain(&b).map(|&x| (share(&a, x) - share(&b, x)).abs()).fold(0.0, f64::max)
}

/// Traces of a drive simulated elsewhere, at the load they were made at.
fn generated(folder: &Path) {
    println!("generated drives, closed loop at their own load (targets 3 / 6)");
    for order in ["fcfs", "sstf"] {
        let requests = read(&folder.join(format!("cheetah9LP_{order}_load100.csv")));
        let model = forest(&requests);
        // A model must not need to have seen the requests it serves.
        let (trained, tested) = requests.split_at(requests.len() / 2);
        let half = forest(trained);
        println!(
            "  cheetah9LP {order}: found {}; {}; half seen, the other served: {}",
            model.server.discipline.name(),
            at(&model, &requests, 1.0, &requests, (3.0, 6.0)).text,
            at(&half, tested, 1.0, tested, (3.0, 6.0)).text,
        );
    }
}

/// Moves on drives whose truth is known at any layout, most requests going to a few hundred blocks.
fn other_moves() {
    println!("hot blocks on other drives, the same");
    for (name, drive) in drives() {
        for order in [Order::Fcfs, Order::Sstf] {
            let mut text = format!("  {name:<14} {order:?}");
            for seed in [100, 101] {
                let jobs = heated(&drive, 15_000, 40_000.0, seed);
                let before = truth(&drive, &jobs, order, 1.0);
                let map = plan(&before, 1000, Policy::HotBlock);
                let moved: Vec<Job> =
                    jobs.iter().map(|job| Job { lba: map.sector(job.lba), ..*job }).collect();
                let real = 100.0 * (mean(&truth(&drive, &moved, order, 1.0)) / mean(&before) - 1.0);
                let said = hot_change(&movable(&before), &before);
                let good = (said - real).abs() <= 5.0 && said * real > 0.0;
                let _ = write!(text, "  {said:+.1} %, truth {real:+.1} %{}", if good { " " } else { "!" });
            }
            println!("{text}");
        }
    }
}

fn moves(folder: &Path) {
    println!("hot blocks: predicted and true change of the mean response (target: 5 points)");
    for order in ["fcfs", "sstf"] {
        let side = |which: &str| read(&folder.join(format!("cheetah9LP_{order}_hot_low_{which}.csv")));
        let (before, after) = (side("orig"), side("hot"));
        let real = 100.0 * (mean(&after) / mean(&before) - 1.0);
        let said = hot_change(&movable(&before), &before);
        println!("  cheetah9LP {order}: {said:+.1} %, truth {real:+.1} %");
    }
    other_moves();
    let requests = read(&folder.join("hplajw-first-20000.srt"));
    for (device, part) in by_device(&requests) {
        let model = movable(&part);
        println!(
            "  hplajw disk {device}: {:+.1} % (truth unknown; {}, {} requests, mean {:.1} ms, covered {:.2})",
            hot_change(&model, &part),
            model.server.discipline.name(),
            part.len(),
            mean(&part) * 1e-6,
            covered(&part, 1000),
        );
        let (before, after) =
            (mechanical(&part), mechanical(&plan(&part, 1000, Policy::HotBlock).apply(&part)));
        let real = 100.0 * (mean(&after) / mean(&before) - 1.0);
        let said = hot_change(&movable(&before), &before);
        println!("    the same requests on the drive of its header: {said:+.1} %, truth {real:+.1} %");
    }
}

/// `requests` served by the mechanical model of an HP 335H: a truth for both layouts.
fn mechanical(requests: &[Request]) -> Vec<Request> {
    let drive = DeviceModel {
        device: "hp335h".to_owned(),
        server: Server::FCFS,
        inference: None,
        training: None,
        model: Model::Mechanical(mechanical::Drive::hp335h()),
    };
    let served = closed_loop(&drive, requests, 1.0, 0).expect("load 1");
    let with = |(request, served): (&Request, &Started)| Request {
        start_ns: NO_START,
        completion_ns: served.completion_ns,
        ..*request
    };
    requests.iter().zip(&served).map(with).collect()
}

fn hot_change(model: &DeviceModel, requests: &[Request]) -> f64 {
    let map = plan(requests, 1000, Policy::HotBlock);
    predict(model, requests, &map, covered(requests, 1000), 1.0, 1).expect("load 1").change_percent
}

/// Drives that differ in what matters: cache, writes, seeks.
fn drives() -> Vec<(&'static str, Drive)> {
    let base = Drive::nameless();
    vec![
        ("nameless", base.clone()),
        ("write-through", Drive { write_behind: false, ..base.clone() }),
        ("no cache", Drive { write_behind: false, read_ahead: 0, segments: 1, ..base.clone() }),
        ("slow seeks", Drive { settle_us: 1800.0, sqrt_us: 130.0, write_behind: false, ..base }),
    ]
}

/// Agreement with the truth at a load.
struct Seen {
    text: String,
    good: bool,
}

/// Mean error, D, and what chance makes of D: replications of the model against one another.
fn at(model: &DeviceModel, base: &[Request], load: f64, real: &[Request], limits: (f64, f64)) -> Seen {
    let count = replications(base.len()).max(2);
    let seen = at_load_pooled(model, base, load, Some(real), 3, count).expect("a load");
    let (error, d) = (seen.mean_error_percent.unwrap_or(0.0), seen.d_percent.unwrap_or(0.0));
    let runs: Vec<Vec<f64>> =
        (0..count).map(|k| responses_us(&closed_loop(model, base, load, 90 + k).expect("a load"))).collect();
    let against_others = |k: usize| {
        let others: Vec<f64> = runs
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != k)
            .flat_map(|(_, run)| run.clone())
            .collect();
        demerit_percent(&others, &runs[k], 1.0)
    };
    let mut chance: Vec<f64> = (0..runs.len()).map(against_others).collect();
    chance.sort_by(f64::total_cmp);
    let good = error.abs() <= limits.0 && d <= limits.1;
    let text = format!(
        "{error:+5.1} {d:5.1}{} [{:.1}..{:.1}]",
        if good { " " } else { "!" },
        chance[0],
        chance[chance.len() - 1]
    );
    Seen { text, good }
}

/// Error of the mean physical service time, percent.
fn service_error(model: &DeviceModel, base: &[Request], load: f64, real: &[Request]) -> f64 {
    let served = services(real, 1, false);
    let physical = served.iter().map(|s| s.service_ns() as f64).sum::<f64>() / served.len() as f64;
    let ours = closed_loop(model, base, load, 3).expect("a load");
    let ours = ours.iter().map(|s| (s.completion_ns - s.start_ns) as f64).sum::<f64>() / ours.len() as f64;
    100.0 * (ours / physical - 1.0)
}

fn loads() {
    println!("other loads: error of the mean, D [D of the model's own runs against one another], (error of the mean service), %");
    println!("targets 3 / 6 at x1 and x1.2, 6 / 9 at x1.4");
    let (mut missed, mut cases) = (0, 0);
    for (name, drive) in drives() {
        for (order, gap_us) in [
            (Order::Fcfs, 14_000.0),
            (Order::Fcfs, 10_500.0),
            (Order::Sstf, 12_000.0),
            (Order::Sstf, 9_500.0),
        ] {
            let jobs = workload(&drive, 15_000, gap_us, 11);
            let base = truth(&drive, &jobs, order, 1.0);
            let model = forest(&base);
            let mut text = format!("  {name:<14} {order:?} {gap_us:>6} us");
            for (load, limits) in [(1.0, (3.0, 6.0)), (1.2, (3.0, 6.0)), (1.4, (6.0, 9.0))] {
                let real = truth(&drive, &jobs, order, load);
                let seen = at(&model, &base, load, &real, limits);
                cases += 1;
                missed += usize::from(!seen.good);
                let _ = write!(
                    text,
                    "  x{load}: {} ({:+.2})",
                    seen.text,
                    service_error(&model, &base, load, &real)
                );
            }
            println!(
                "{text}  busy {:.0} %, found {}",
                100.0 * at_load(&model, &base, 1.0, None, 3).expect("a load").utilization,
                model.server.discipline.name(),
            );
        }
    }
    println!("  {missed} of {cases} beyond their target");
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|a| a == part);
    let folder = std::env::var("SERVSIM_DATA").ok().map(|data| Path::new(&data).join("disk"));
    match folder.filter(|folder| folder.is_dir()) {
        Some(folder) => {
            let run = |part: &str, work: fn(&Path)| {
                if wanted(part) {
                    work(&folder);
                }
            };
            run("measured", measured);
            run("peers", peers);
            run("generated", generated);
            run("moves", moves);
        }
        None => println!("no measured traces: set SERVSIM_DATA to the folder that holds disk/"),
    }
    if wanted("loads") {
        loads();
    }
}
