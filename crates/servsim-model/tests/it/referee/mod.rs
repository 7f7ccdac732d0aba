//! The referee: fresh random models of every kind, answered by `auto` with percentiles and bounded, beside a slow
//! simulator that shares nothing with the crate. Run by `make acceptance`; `SERVSIM_MODELS` says how many models of
//! each kind (20 without it), `SERVSIM_FIRST_SEED` repeats a run, `SERVSIM_SOLVER` judges another solver, and
//! `SERVSIM_WORK` says how many times longer than usual the slow simulator looks.
//!
//! A figure is the throughput or the response time of a class. A class that completed too few requests to be known
//! by the slow simulator is left out.

pub mod models;
mod slow;

use crate::common::{fresh_seed, Draw};
use models::KINDS;
use servsim_model::solvers::bounds::bounds;
use servsim_model::{solve, Network, Options, Solution};

/// Replications of the slow simulator.
const RUNS: usize = 10;
/// Student quantiles for ten runs: of 95 % and of 99 % intervals.
const T95: f64 = 2.262;
const T99: f64 = 3.250;
/// Looks at a request that all slow runs of a model may take together: about a second.
const WORK: f64 = 2e8;
/// Requests of a class, over all runs, below which its figures are not known.
const FEW: usize = 1_000;

/// A figure of the slow simulator: mean and standard error over its runs.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub mean: f64,
    pub error: f64,
}

impl Known {
    fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Self { mean, error: (variance / n).sqrt() }
    }
}

/// Throughput, response and percentiles of a class as the slow simulator has them.
pub struct Truth {
    pub throughput: Known,
    pub response: Known,
    percentiles: Vec<Known>,
}

const PERCENTS: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// All classes; `None` for one that hardly completes. All runs together look at a request about `work` times.
pub fn truth(network: &Network, seed: u64, work: f64) -> Vec<Option<Truth>> {
    let people = network.population().max(10) as f64;
    let visits: f64 = network.stations.iter().flat_map(|s| &s.visits).sum::<f64>().max(1.0);
    let requests =
        (work / (people * visits * RUNS as f64)).clamp(1_000.0, 40_000.0 * (work / WORK).max(1.0)) as u64;
    let warm = (requests / 4).max(8 * people as u64);
    let runs: Vec<_> = (0..RUNS as u64)
        .map(|run| {
            slow::Simulation::new(network, seed ^ (run + 1).wrapping_mul(0xA24B_AED4_963E_E407))
                .run(warm, requests)
        })
        .collect();
    let class = |c: usize| {
        let seen = || runs.iter().map(|run| &run[c]);
        let counted = seen().map(|s| s.responses.len());
        if counted.clone().sum::<usize>() < FEW || counted.min() < Some(20) {
            return None;
        }
        let mean = |s: &slow::Seen| s.responses.iter().sum::<f64>() / s.responses.len() as f64;
        let percentile = |percent: f64| {
            let of = |s: &slow::Seen| {
                let mut all = s.responses.clone();
                all.sort_by(f64::total_cmp);
                all[((percent / 100.0 * all.len() as f64).ceil() as usize).clamp(1, all.len()) - 1]
            };
            Known::of(&seen().map(of).collect::<Vec<_>>())
        };
        Some(Truth {
            throughput: Known::of(&seen().map(|s| s.throughput).collect::<Vec<_>>()),
            response: Known::of(&seen().map(mean).collect::<Vec<_>>()),
            percentiles: PERCENTS.iter().map(|&p| percentile(p)).collect(),
        })
    };
    (0..network.classes.len()).map(class).collect()
}

/// What was counted over the models of a kind.
#[derive(Default)]
struct Tally {
    figures: usize,
    held: usize,
    throughput: Vec<f64>,
    response: Vec<f64>,
    noise: Vec<f64>,
    percentiles: usize,
    right: usize,
    withheld: usize,
    bounds: usize,
    violated: usize,
    refused: usize,
    solvers: std::collections::BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, network: &Network, answer: &Solution, truth: &[Option<Truth>]) -> bool {
        let (mut x, mut r, mut noise, before) = (0f64, 0f64, 0f64, self.figures - self.held);
        for (class, truth) in answer.classes.iter().zip(truth) {
            let Some(truth) = truth else { continue };
            let relative = |found: f64, known: Known| (found / known.mean - 1.0).abs();
            x = x.max(relative(class.throughput, truth.throughput));
            r = r.max(relative(class.response, truth.response));
            noise = noise.max(T95 * truth.response.error / truth.response.mean);
            for (found, interval, known) in [
                (class.throughput, class.throughput_interval, truth.throughput),
                (class.response, class.response_interval, truth.response),
            ] {
                let half = interval.map_or(0.0, |i| 0.5 * (i.high - i.low));
                let allowed = if answer.nature == "simulated" {
                    half.hypot(T95 * known.error)
                } else {
                    half + T99 * known.error
                };
                self.figures += 1;
                self.held += usize::from((found - known.mean).abs() <= allowed + 1e-12);
            }
            for (percent, known) in PERCENTS.iter().zip(&truth.percentiles) {
                self.percentiles += 1;
                match class.percentiles.iter().find(|p| (p.0 - percent).abs() < 1e-9) {
                    None => self.withheld += 1,
                    Some(&(_, found)) => {
                        let off = (found - known.mean).abs();
                        self.right += usize::from(off <= 0.1 * known.mean + T95 * known.error);
                    }
                }
            }
        }
        if let Ok(all) = bounds(network) {
            for (bound, truth) in all.iter().zip(truth) {
                let Some(truth) = truth else { continue };
                for (known, range) in [(truth.throughput, bound.throughput), (truth.response, bound.response)]
                {
                    let slack = 4.8 * known.error; // 99.9 % of ten runs
                    self.bounds += 1;
                    self.violated +=
                        usize::from(known.mean + slack < range.low || known.mean - slack > range.high);
                }
            }
        }
        self.throughput.push(x);
        self.response.push(r);
        self.noise.push(noise);
        *self.solvers.entry(format!("{} {}", answer.solver, answer.nature)).or_default() += 1;
        self.figures - self.held > before
    }

    fn print(&mut self, kind: &str) {
        let point = |values: &mut Vec<f64>, share: f64| {
            values.sort_by(f64::total_cmp);
            let at = (share * values.len() as f64) as usize;
            values.get(at.min(values.len().saturating_sub(1))).map_or(f64::NAN, |v| 100.0 * v)
        };
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        println!(
            "{kind:<13} {:>5} models: held {:.1} % of {}; error p95 (worst) X {:.2} ({:.1}) %, R {:.2} ({:.1}) %, known to {:.2} %; percentiles: {:.1} % within 10 %, {:.1} % withheld; bounds violated {} of {}; refused {}; {:?}",
            self.throughput.len(),
            share(self.held, self.figures),
            self.figures,
            point(&mut self.throughput, 0.95),
            point(&mut self.throughput, 1.0),
            point(&mut self.response, 0.95),
            point(&mut self.response, 1.0),
            point(&mut self.noise, 0.95),
            share(self.right, self.percentiles - self.withheld),
            share(self.withheld, self.percentiles),
            self.violated,
            self.bounds,
            self.refused,
            self.solvers,
        );
    }
}

fn judge(kind: usize) {
    let (name, draw_model) = KINDS[kind];
    let models = std::env::var("SERVSIM_MODELS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let longer = std::env::var("SERVSIM_WORK").ok().and_then(|n| n.parse().ok()).unwrap_or(1.0);
    let solver = std::env::var("SERVSIM_SOLVER").unwrap_or_else(|_| "auto".into());
    let seed = fresh_seed();
    println!("{name}: first seed {seed}");
    let (mut draw, mut tally) = (Draw(seed.wrapping_add(kind as u64)), Tally::default());
    for case in 0..models {
        let network = draw_model(&mut draw);
        let options = Options { percentiles: PERCENTS.to_vec(), ..Options::default() };
        match solve(&network, &solver, &options) {
            Err(error) => {
                println!("{name} {case} refused: {error}");
                tally.refused += 1;
            }
            Ok(answer) => {
                let truth = truth(&network, draw.next(), WORK * longer);
                if tally.add(&network, &answer, &truth) {
                    println!(
                        "{name} {case} by {}: x {:.4} r {:.4}",
                        answer.solver,
                        tally.throughput[tally.throughput.len() - 1],
                        tally.response[tally.response.len() - 1]
                    );
                }
            }
        }
    }
    tally.print(name);
    let wrong = tally.figures - tally.held;
    assert!(wrong * 100 <= 7 * tally.figures, "{name}: {wrong} of {} figures do not hold", tally.figures);
    assert_eq!(tally.violated, 0, "{name}: bounds violated");
    let off = tally.percentiles - tally.withheld - tally.right;
    assert!(
        off * 100 <= 2 * tally.percentiles,
        "{name}: {off} of {} percentiles beyond 10 %",
        tally.percentiles
    );
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn product_form_models_are_as_their_answers_say() {
    judge(0);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn crowds_models_are_as_their_answers_say() {
    judge(1);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn fcfs_with_unequal_times_models_are_as_their_answers_say() {
    judge(2);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn priorities_models_are_as_their_answers_say() {
    judge(3);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn forks_models_are_as_their_answers_say() {
    judge(4);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn pools_models_are_as_their_answers_say() {
    judge(5);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn open_models_are_as_their_answers_say() {
    judge(6);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn mixed_models_are_as_their_answers_say() {
    judge(7);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn laws_models_are_as_their_answers_say() {
    judge(8);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn rooms_models_are_as_their_answers_say() {
    judge(9);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn routes_models_are_as_their_answers_say() {
    judge(10);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn nested_forks_models_are_as_their_answers_say() {
    judge(11);
}

#[test]
#[ignore = "fresh models, a second or more each: run with --ignored"]
fn shared_pools_models_are_as_their_answers_say() {
    judge(12);
}

/// One small model of each new kind, so that the referee itself is run wherever tests are.
#[test]
fn a_few_general_models_are_as_the_slow_simulator_has_them() {
    for (kind, (name, draw_model)) in KINDS.iter().enumerate().skip(8) {
        let mut draw = Draw(17 + kind as u64);
        let (mut figures, mut off) = (0, 0);
        for _ in 0..3 {
            let network = draw_model(&mut draw);
            let Ok(answer) = solve(&network, "auto", &Options::default()) else { continue };
            for (class, known) in answer.classes.iter().zip(truth(&network, draw.next(), 5e6)) {
                let Some(known) = known else { continue };
                let near = |a: f64, b: Known| (a - b.mean).abs() < 0.02 * b.mean + 4.8 * b.error;
                figures += 2;
                off += usize::from(!near(class.throughput, known.throughput));
                off += usize::from(!near(class.response, known.response));
            }
        }
        assert!(figures > 0 && off == 0, "{name}: {off} of {figures}");
    }
}
