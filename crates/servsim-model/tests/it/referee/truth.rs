//! What the slow simulator says of a model, as precisely as a verdict on an answer needs: it looks twice as long until
//! all figures are known, or its work is used up. The first quarter of each run is passed over, so that a longer look
//! also forgets better how it began.

use super::slow::{Ended, Simulation};
use servsim_model::{Discipline, Load, Network};

/// Independent runs of the slow simulator.
const RUNS: usize = 16;
/// Student quantiles for as many runs: of 95 %, 99 % and 99.9 % intervals.
pub const T95: f64 = 2.131;
pub const T99: f64 = 2.947;
pub const T999: f64 = 4.073;
/// Requests of a class, over all runs, below which its figures are not known.
const FEW: usize = 1_000;
/// Requests of a run at the first look.
const FIRST: u64 = 1_000;
/// Share of each run that is passed over.
const WARM: f64 = 0.25;
/// Relative half-widths at which throughput, response time and percentiles are known well enough to look no longer:
/// half of what an answer is held to.
const THROUGHPUT: f64 = 0.01;
const RESPONSE: f64 = 0.025;
const PERCENTILE: f64 = 0.05;
/// Beyond as many times these, a class is not known when the work is used up.
const UNKNOWN: f64 = 2.0;
/// Share of the requests of an open class that have to end, and of all that end, for a class to be let through.
const ENOUGH: f64 = 0.98;
const SELDOM: f64 = 1e-4;

pub const PERCENTS: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

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

    /// Half of the 95 % interval, relative to the mean.
    pub fn width(&self) -> f64 {
        T95 * self.error / self.mean
    }
}

/// Throughput, response and percentiles of a class as the slow simulator has them.
pub struct Truth {
    pub throughput: Known,
    pub response: Known,
    pub percentiles: Vec<Known>,
    /// The two halves of what was measured do not differ beyond chance: the runs have forgotten how they began.
    settled: bool,
}

impl Truth {
    /// `None` for a class that hardly completes.
    fn of(class: usize, runs: &[Simulation<'_>]) -> Option<Self> {
        let within = |run: &Simulation<'_>, from: f64, to: f64| -> Vec<f64> {
            let (from, to) = (from * run.now, to * run.now);
            let counts = |ended: &&Ended| from < ended.at && ended.at <= to;
            run.seen[class].iter().filter(counts).map(|e| e.response).collect()
        };
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        let seen: Vec<Vec<f64>> = runs
            .iter()
            .map(|run| {
                let mut all = within(run, WARM, 1.0);
                all.sort_by(f64::total_cmp);
                all
            })
            .collect();
        if seen.iter().map(Vec::len).sum::<usize>() < FEW || seen.iter().any(|all| all.len() < 20) {
            return None;
        }
        let over = |of: &dyn Fn(&Vec<f64>) -> f64| Known::of(&seen.iter().map(of).collect::<Vec<_>>());
        let percentile = |percent: &f64| {
            over(&|all| all[((percent / 100.0 * all.len() as f64).ceil() as usize).clamp(1, all.len()) - 1])
        };
        let rates = seen.iter().zip(runs).map(|(all, run)| all.len() as f64 / ((1.0 - WARM) * run.now));
        let middle = 0.5 * (1.0 + WARM);
        let halves = |run: &Simulation<'_>| {
            let (a, b) = (within(run, WARM, middle), within(run, middle, 1.0));
            (b.len() as f64 - a.len() as f64, mean(&b) - mean(&a))
        };
        let moved: Vec<(f64, f64)> = runs.iter().map(halves).collect();
        let still = |of: fn(&(f64, f64)) -> f64| {
            let moved = Known::of(&moved.iter().map(of).collect::<Vec<_>>());
            moved.mean.abs() <= T99 * moved.error
        };
        Some(Self {
            throughput: Known::of(&rates.collect::<Vec<_>>()),
            response: over(&|all| mean(all)),
            percentiles: PERCENTS.iter().map(percentile).collect(),
            settled: still(|m| m.0) && still(|m| m.1),
        })
    }

    fn is_known(&self, slack: f64) -> bool {
        self.settled
            && self.throughput.width() <= slack * THROUGHPUT
            && self.response.width() <= slack * RESPONSE
            && self.percentiles.iter().all(|p| p.width() <= slack * PERCENTILE)
    }
}

fn begin(network: &Network, seed: u64) -> Vec<Simulation<'_>> {
    let run = |index: u64| Simulation::new(network, seed ^ (index + 1).wrapping_mul(0xA24B_AED4_963E_E407));
    (0..RUNS as u64).map(run).collect()
}

/// What is known of a model.
pub struct Found {
    /// All classes; `None` for one that hardly completes, or is not known.
    pub classes: Vec<Option<Truth>>,
    /// Speed in use and number present at each station, then units held and number waiting of each pool.
    pub places: Vec<Known>,
}

/// All runs together look at a request `work` times at most.
pub fn truth(network: &Network, seed: u64, work: f64) -> Found {
    let mut runs = begin(network, seed);
    let mut requests = FIRST.max(32 * network.population() as u64);
    let mut enough = false;
    loop {
        runs.iter_mut().for_each(|run| run.until(requests));
        let mut found: Vec<_> = (0..network.classes.len()).map(|c| Truth::of(c, &runs)).collect();
        let looks: u64 = runs.iter().map(|run| run.looks).sum();
        let settled = found.iter().flatten().all(|class| class.settled);
        if 2.0 * looks as f64 > work || enough && settled {
            found.iter_mut().for_each(|class| *class = class.take().filter(|c| c.is_known(UNKNOWN)));
            return Found { classes: found, places: places(&runs) };
        }
        // The next look is twice as long. What it finds does not say whether it is the last: runs that stop where they
        // agree with one another stop most readily where they do so by chance.
        enough = found.iter().flatten().all(|class| class.is_known(std::f64::consts::SQRT_2));
        requests *= 2;
    }
}

fn places(runs: &[Simulation<'_>]) -> Vec<Known> {
    let measured = |run: &Simulation<'_>, at: usize| {
        let beyond = run.history.iter().find(|(now, _)| *now >= WARM * run.now);
        let (from, before) = beyond.map_or((0.0, 0.0), |(now, areas)| (*now, areas[at]));
        (run.areas[at] - before) / (run.now - from)
    };
    let place = |at| Known::of(&runs.iter().map(|run| measured(run, at)).collect::<Vec<_>>());
    (0..runs[0].areas.len()).map(place).collect()
}

/// Whether an open class ends less often than it comes, or a class hardly ever ends, as long as `work` lasts; or whether
/// so much is brought by those who are served before an open class that its line can only grow, however slowly.
pub fn falls_behind(network: &Network, seed: u64, work: f64) -> bool {
    let mut runs = begin(network, seed);
    let mut requests = FIRST;
    while 2.0 * runs.iter().map(|run| run.looks).sum::<u64>() as f64 <= work {
        runs.iter_mut().for_each(|run| run.until(requests));
        requests *= 2;
    }
    let all: usize = runs.iter().flat_map(|run| &run.seen).map(Vec::len).sum();
    let rates: Vec<Known> = (0..network.classes.len())
        .map(|c| {
            let ended = |run: &Simulation<'_>| run.seen[c].iter().filter(|e| e.at > WARM * run.now).count();
            Known::of(
                &runs.iter().map(|run| ended(run) as f64 / ((1.0 - WARM) * run.now)).collect::<Vec<_>>(),
            )
        })
        .collect();
    (0..network.classes.len()).any(|c| match network.classes[c].load {
        Load::Open { rate: comes } => {
            rates[c].mean + T999 * rates[c].error < ENOUGH * comes || crowded_out(network, c, &rates)
        }
        Load::Closed { population, .. } => {
            let ended: usize = runs.iter().map(|run| run.seen[c].len()).sum();
            population > 0 && (ended as f64) < SELDOM * all as f64
        }
    })
}

/// Whether a station that serves by rank is asked for more than it can do by an open class, those before it as they
/// were seen to end, and the open ones of its own rank.
fn crowded_out(network: &Network, class: usize, seen: &[Known]) -> bool {
    let rank = network.classes[class].priority;
    network.stations.iter().any(|station| {
        let ranks = matches!(station.discipline, Discipline::Priority | Discipline::NonPreemptive);
        if !ranks || station.room.is_some() || station.demands[class] == 0.0 {
            return false;
        }
        let (mut asked, mut error) = (0.0, 0.0);
        for (c, other) in network.classes.iter().enumerate() {
            let demand = station.demands[c];
            match other.load {
                Load::Open { rate } if other.priority >= rank => asked += rate * demand,
                Load::Closed { .. } if other.priority > rank => {
                    asked += seen[c].mean * demand;
                    error += seen[c].error * demand;
                }
                _ => {}
            }
        }
        asked + T95 * error > station.speed.limit()
    })
}
