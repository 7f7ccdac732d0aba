//! Discrete-event simulation of the same networks the solvers treat, used as their check and
//! offered in its own right: independent replications with a discarded warm-up, means with 95 %
//! Student intervals over replications, and percentiles from all of them.
//!
//! Service times are of the law that each station states, exponential unless it says otherwise. The measured span is a fixed time, so that throughput is
//! unbiased once the warm-up has passed.

mod calendar;
mod deadlock;
pub mod engine;
pub mod histogram;
mod length;
mod plan;
pub mod program;
pub mod server;

use crate::bands::Accuracy;
use crate::error::ModelError;
use crate::network::{Class, Load, Network};
use crate::options::Options;
use crate::solution::{ClassResult, Interval, PoolResult, Solution, StationResult};
use crate::solvers::mixed;
use crate::special::student_quantile;
use engine::{Engine, Measured};
use histogram::Histogram;
use length::Pace;
pub use length::MOST_VISITS;
pub use plan::Plan;
use program::Step;

/// Doublings of the length before a wanted precision is given up.
const MOST_DOUBLINGS: usize = 12;

/// Simulates a network.
///
/// # Errors
/// [`ModelError::Unstable`]; [`ModelError::Invalid`] for a run too short to see every class;
/// [`ModelError::NotConverged`] when the wanted half-width is out of reach.
pub fn solve(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    check(network, options)?;
    Simulation::new(network, &options.simulation)?.run(options)
}

/// Refuses plans that give no answer, and networks that have none.
fn check(network: &Network, options: &Options) -> Result<(), ModelError> {
    let plan = &options.simulation;
    if plan.replications < 2 || plan.requests.is_nan() || plan.requests < 1.0 {
        return Err(ModelError::invalid(
            format!("{} replications of {} requests give no interval", plan.replications, plan.requests),
            "use at least 2 replications of at least 1 request",
        ));
    }
    if plan.half_width.is_some_and(|wanted| !(1e-5..1.0).contains(&wanted)) {
        return Err(ModelError::invalid(
            format!("a half-width of {} cannot be reached", plan.half_width.unwrap_or(0.0)),
            "give a share of the mean such as 0.01",
        ));
    }
    if !(0.0..=100.0).contains(&plan.warmup) {
        return Err(ModelError::invalid(
            format!("a warm-up of {} of the measured time", plan.warmup),
            "give a share of the measured time such as 0.2",
        ));
    }
    options.check_percentiles()?;
    mixed::check_stability(network)
}

/// A model made ready: the steps of its classes, and its pace by one pilot run.
pub struct Simulation<'a> {
    network: &'a Network,
    programs: Vec<Vec<Step>>,
    pace: Pace,
}

impl<'a> Simulation<'a> {
    /// Runs the pilot, with the plan's seed.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for more than [`MOST_CUSTOMERS`] and absurd visit counts; [`ModelError::Interrupted`].
    pub fn new(network: &'a Network, plan: &Plan) -> Result<Self, ModelError> {
        if network.population() > MOST_CUSTOMERS {
            let plain = network.pools.is_empty() && network.forks.is_empty();
            let remedy =
                if plain { "use `linearizer`, or smaller populations" } else { "use smaller populations" };
            return Err(ModelError::invalid(
                format!(
                    "a simulation keeps each of the {} customers in memory, and takes at most {MOST_CUSTOMERS}",
                    network.population()
                ),
                remedy,
            ));
        }
        deadlock::check(network)?;
        let programs: Vec<_> =
            (0..network.classes.len()).map(|c| program::compile(network, c)).collect::<Result<_, _>>()?;
        let pace = Pace::of(network, &programs, plan)?;
        Ok(Self { network, programs, pace })
    }

    /// Requests per replication that a simulation begins with, and about how many visits to stations it takes.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] when too many would be needed.
    pub fn effort(&self, plan: &Plan) -> Result<(f64, f64), ModelError> {
        let requests = self.pace.settled(self.network, plan)?;
        Ok((requests, self.pace.effort(plan, requests)))
    }

    /// Simulates.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn solve(&self, options: &Options) -> Result<Solution, ModelError> {
        check(self.network, options)?;
        self.run(options)
    }

    fn run(&self, options: &Options) -> Result<Solution, ModelError> {
        let plan = &options.simulation;
        let mut requests = self.pace.settled(self.network, plan)?;
        for _ in 0..MOST_DOUBLINGS {
            let runs = self.replicate(plan, requests)?;
            let mut solution = summarise(self.network, &runs, &options.percentiles)?;
            let widest = widest_interval(&solution);
            if plan.half_width.is_none_or(|wanted| widest <= wanted) {
                return Ok(solution);
            }
            if plan.visits.is_some_and(|most| 2.0 * self.pace.effort(plan, requests) > most) {
                let note = format!(
                    "the widest interval is ± {:.1} %; for less, give a half-width or more requests per replication",
                    100.0 * widest
                );
                solution.notes.push(note);
                return Ok(solution);
            }
            requests *= 2.0;
        }
        Err(ModelError::NotConverged {
            solver: "simulation".into(),
            residual: plan.half_width.unwrap_or(0.0),
            iterations: MOST_DOUBLINGS,
            station: self.network.name.clone(),
        })
    }

    fn replicate(&self, plan: &Plan, requests: f64) -> Result<Vec<Measured>, ModelError> {
        let (warmup, span) = self.pace.spans(plan, requests);
        (0..plan.replications)
            .map(|i| {
                let seed = plan
                    .seed
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .wrapping_add((i as u64).wrapping_mul(0xD1B5_4A32_D192_ED03));
                Engine::new(self.network, &self.programs, seed).run(warmup, span, plan.interrupted)
            })
            .collect()
    }
}

/// Share of an open class's requests that may still be under way when a run ends.
const MOST_BEHIND: f64 = 0.02;
/// Customers of a simulation: about 100 bytes each.
const MOST_CUSTOMERS: usize = 10_000_000;

fn widest_interval(solution: &Solution) -> f64 {
    let relative = |mean: f64, interval: Option<Interval>| {
        interval.map_or(0.0, |i| 0.5 * (i.high - i.low) / mean.max(f64::MIN_POSITIVE))
    };
    let of = |c: &ClassResult| {
        relative(c.throughput, c.throughput_interval).max(relative(c.response, c.response_interval))
    };
    solution.classes.iter().map(of).fold(0.0, f64::max)
}

/// Mean and 95 % Student interval.
pub fn interval(values: &[f64]) -> (f64, Interval) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_quantile(n - 1.0, 0.975) * (variance / n).sqrt();
    (mean, Interval { low: mean - half, high: mean + half })
}

fn summarise(network: &Network, runs: &[Measured], percents: &[f64]) -> Result<Solution, ModelError> {
    let classes = (0..network.classes.len())
        .map(|c| class_result(network, runs, c, percents))
        .collect::<Result<Vec<_>, _>>()?;
    let stations = (0..network.stations.len()).map(|k| station_result(network, runs, k, &classes)).collect();
    let throughput: f64 = classes.iter().map(|c| c.throughput).sum();
    let pools = network
        .pools
        .iter()
        .enumerate()
        .map(|(p, pool)| {
            let waiting = average(runs, |r| r.waiting[p]);
            PoolResult {
                name: pool.name.clone(),
                utilization: average(runs, |r| r.held[p]) / pool.size as f64,
                waiting,
                wait: waiting / throughput,
            }
        })
        .collect();
    Ok(Solution {
        solver: "simulation".into(),
        nature: "simulated",
        accuracy: Accuracy::Interval,
        classes,
        stations,
        pools,
        iterations: runs.len(),
        residual: 0.0,
        notes: vec![format!("{} replications; intervals are 95 %", runs.len())],
    })
}

/// Mean over replications of a time integral divided by the span.
fn average(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    runs.iter().map(|r| of(r) / r.span).sum::<f64>() / runs.len() as f64
}

fn class_result(
    network: &Network,
    runs: &[Measured],
    class: usize,
    percents: &[f64],
) -> Result<ClassResult, ModelError> {
    let name = network.classes[class].name.clone();
    if runs.iter().any(|r| r.completed[class] == 0) {
        let ranked = network.classes.iter().any(|other| other.priority > network.classes[class].priority);
        let remedy = if ranked {
            "classes of higher priority leave it hardly any time: give it a higher one, or lower their load"
        } else {
            "ask for more requests per replication"
        };
        return Err(ModelError::invalid(
            format!("no request of class `{name}` completed in one of the replications"),
            remedy,
        ));
    }
    let rates: Vec<f64> = runs.iter().map(|r| r.completed[class] as f64 / r.span).collect();
    let times: Vec<f64> = runs.iter().map(|r| r.response[class] / r.completed[class] as f64).collect();
    let (throughput, throughput_interval) = interval(&rates);
    let lost: f64 = runs.iter().map(|r| r.lost[class] as f64 / r.span).sum::<f64>() / runs.len() as f64;
    keeps_up(&network.classes[class], throughput + lost, throughput_interval)?;
    let (response, response_interval) = interval(&times);
    let mut all = Histogram::default();
    for run in runs {
        all.merge(&run.histogram[class]);
    }
    let percentiles: Vec<_> =
        percents.iter().filter_map(|p| all.quantile(p / 100.0).map(|value| (*p, value))).collect();
    Ok(ClassResult {
        name,
        throughput,
        response,
        in_system: throughput * response,
        percentile_intervals: percentiles.iter().map(|&(p, value)| around(runs, class, p, value)).collect(),
        percentiles,
        throughput_interval: Some(throughput_interval),
        response_interval: Some(response_interval),
        loss: network.loses().then(|| lost / (throughput + lost)),
    })
}

/// Refuses an open class of which fewer requests leave than come: what others leave of a station is too little for
/// it, which offered loads alone cannot tell when the others are closed.
fn keeps_up(class: &Class, throughput: f64, interval: Interval) -> Result<(), ModelError> {
    let Load::Open { rate } = class.load else { return Ok(()) };
    // Twice the interval's half-width, so that chance never refuses.
    if rate - throughput < (2.0 * (interval.high - throughput)).max(MOST_BEHIND * rate) {
        return Ok(());
    }
    Err(ModelError::invalid(
        format!(
            "class `{}` does not keep up: of {rate:.4} requests a second {throughput:.4} are completed, since classes served before or beside it take the rest of a station",
            class.name
        ),
        "lower its rate or their load, give it a higher priority, or make the station faster",
    ))
}

/// A percentile of all replications, with the 95 % half-width of its mean over them.
fn around(runs: &[Measured], class: usize, percent: f64, value: f64) -> (f64, f64, f64) {
    let each: Vec<f64> = runs.iter().filter_map(|r| r.histogram[class].quantile(percent / 100.0)).collect();
    let (mean, Interval { high, .. }) = interval(&each);
    (percent, value - (high - mean), value + (high - mean))
}

fn station_result(network: &Network, runs: &[Measured], k: usize, classes: &[ClassResult]) -> StationResult {
    let station = &network.stations[k];
    let capacity = station.speed.capacity(network.population().max(1 << 20));
    let queue: Vec<f64> = (0..classes.len()).map(|c| average(runs, |r| r.present[k][c])).collect();
    let offered: Vec<f64> = classes.iter().zip(&station.demands).map(|(c, d)| c.throughput * d).collect();
    let total: f64 = offered.iter().sum();
    let utilization = if capacity.is_finite() { average(runs, |r| r.work[k]) / capacity } else { 0.0 };
    let share = |o: &f64| if total > 0.0 { utilization * o / total } else { 0.0 };
    StationResult {
        name: station.name.clone(),
        utilization,
        residence: queue.iter().zip(classes).map(|(q, c)| q / c.throughput).collect(),
        queue,
        utilization_by_class: offered.iter().map(share).collect(),
    }
}
