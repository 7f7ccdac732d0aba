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
mod keeping_up;
mod length;
mod plan;
pub mod program;
pub mod server;
mod settling;

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::bands::Accuracy;
use crate::error::ModelError;
use crate::network::Network;
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

/// Runs that find how long to simulate are as many times shorter than the plan.
const SHORTER: f64 = 4.0;
/// How much longer than those say: their intervals are uncertain too, and a run that misses is made once more.
const MARGIN: f64 = 2.0;
/// Times the plan's length beyond which a wanted precision is given up.
const MOST_LONGER: f64 = 4096.0;

/// Simulates a network.
///
/// # Errors
/// [`ModelError::Unstable`]; [`ModelError::Invalid`] for a run too short to see every class, and when the wanted
/// half-width is out of reach.
pub fn solve(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    check(network, options)?;
    Simulation::new(network, &options.simulation)?.solve(options)
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
        let mut solution = self.run(options)?;
        let runs = options.simulation.replications;
        solution.notes.insert(0, format!("{runs} replications; intervals are 95 %"));
        Ok(solution)
    }

    /// Simulates as many requests per replication, or more. Returns how many it were in the end.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn at_least(&self, options: &Options, requests: f64) -> Result<(f64, Solution), ModelError> {
        check(self.network, options)?;
        let plan = Plan { requests, ..options.simulation.clone() };
        self.as_long_as_it_takes(options, self.pace.settled(self.network, &plan)?)
    }

    /// A wanted precision is reached by runs that are as long as other runs, not reported, say. Runs that were made
    /// longer until their own interval is narrow stop most readily where chance has made it too narrow.
    fn run(&self, options: &Options) -> Result<Solution, ModelError> {
        let plan = &options.simulation;
        let mut shortest = self.pace.settled(self.network, plan)?;
        let Some(wanted) = plan.half_width else {
            return Ok(self.as_long_as_it_takes(options, shortest)?.1);
        };
        let scout = Plan { requests: plan.requests / SHORTER, ..plan.clone() };
        let mut requests = self.pace.settled(self.network, &scout).unwrap_or(shortest);
        let mut stage = 0;
        loop {
            let found = self.look(options, requests, stage);
            let reported = stage > 0;
            stage += 1;
            let (settled, mut solution) = match found {
                // Too few requests of a rare class, or for a refusal.
                Err(ModelError::Invalid { .. }) if !reported => {
                    requests = shortest;
                    continue;
                }
                found => found?,
            };
            let is_settled = settled <= requests;
            shortest = if is_settled { shortest } else { settled.max(shortest) };
            // No longer than the bound on visits allows, but never too short to settle.
            let visits = self.pace.effort(plan, requests);
            let most = plan.visits.map_or(f64::INFINITY, |bound| bound * requests / visits).max(shortest);
            let widest = widest_interval(&solution);
            if reported && is_settled && widest <= wanted {
                return Ok(solution);
            }
            if reported && is_settled && requests >= most {
                let note = format!(
                    "the widest interval is ± {:.1} %; for less, give a half-width or more requests per replication",
                    100.0 * widest
                );
                solution.notes.push(note);
                return Ok(solution);
            }
            let needed = (requests * MARGIN * (widest / wanted).powi(2)).min(most);
            let longest = MOST_LONGER * shortest;
            if is_settled && needed > longest {
                // With some to spare, so that what is advised can be had.
                let reached = 1.5 * widest * (MARGIN * requests / longest).sqrt();
                return Err(ModelError::invalid(
                    format!(
                        "a half-width of {wanted} takes {needed:.1e} requests in each replication, more than the {longest:.1e} that are simulated"
                    ),
                    format!("ask for {reached:.1e} or more, or for more requests per replication"),
                ));
            }
            let least = if reported && is_settled { requests } else { shortest };
            requests = needed.min(longest).max(least);
        }
    }

    /// Runs that are longer each time, until they are long enough by what they saw themselves.
    fn as_long_as_it_takes(&self, options: &Options, shortest: f64) -> Result<(f64, Solution), ModelError> {
        let (mut requests, mut stage) = (shortest, 0);
        loop {
            let (settled, solution) = self.look(options, requests, stage)?;
            if settled <= requests {
                return Ok((requests, solution));
            }
            (requests, stage) = (settled, stage + 1);
        }
    }

    /// Simulates once. Returns how many requests per replication the runs should have had, as many as they had if these
    /// were enough, and what they say.
    fn look(&self, options: &Options, requests: f64, stage: u64) -> Result<(f64, Solution), ModelError> {
        let plan = &options.simulation;
        let runs = self.replicate(plan, requests, stage)?;
        let mut solution = summarise(self.network, &runs, &options.percentiles)?;
        keeping_up::left_enough(self.network, &solution.classes)?;
        let settled = self.pace.settled_by(self.network, plan, requests, &runs);
        if !settled.as_ref().is_ok_and(|more| *more > requests) {
            keeping_up::keep_up(self.network, &solution.classes)?;
        }
        let (spread, note) = self.pace.spread_by(self.network, plan, requests, &runs);
        solution.notes.extend(note);
        Ok((settled?.max(spread), solution))
    }

    /// Runs whose seeds no other stage has, on all processors of the host. The caller's own thread alone asks whether to
    /// stop, as signals reach no other.
    fn replicate(&self, plan: &Plan, requests: f64, stage: u64) -> Result<Vec<Measured>, ModelError> {
        let (warmup, span) = self.pace.spans(plan, requests);
        let run = |number: usize, interrupted: &dyn Fn() -> bool| {
            let run = stage * plan.replications as u64 + number as u64;
            let seed = plan
                .seed
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .wrapping_add(run.wrapping_mul(0xD1B5_4A32_D192_ED03));
            Engine::new(self.network, &self.programs, seed).run(warmup, span, interrupted)
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(plan.replications);
        let stop = AtomicBool::new(false);
        let told = || stop.load(Ordering::Relaxed);
        let asked = || told() || (plan.is_interrupted() && !stop.swap(true, Ordering::Relaxed));
        let share = |thread: usize, interrupted: &dyn Fn() -> bool| -> Vec<_> {
            (thread..plan.replications).step_by(threads).map(|number| run(number, interrupted)).collect()
        };
        let shares: Vec<Vec<_>> = thread::scope(|scope| {
            let (share, told) = (&share, &told);
            let others: Vec<_> =
                (1..threads).map(|thread| scope.spawn(move || share(thread, told))).collect();
            let own = share(0, &asked);
            let joined =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(own).chain(joined).collect()
        });
        let mut shares: Vec<_> = shares.into_iter().map(Vec::into_iter).collect();
        (0..plan.replications).filter_map(|number| shares[number % threads].next()).collect()
    }
}

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
        notes: Vec::new(),
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
    if network.classes[class].is_nobody() {
        return Ok(ClassResult { name, ..ClassResult::default() });
    }
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
        residence: queue
            .iter()
            .zip(classes)
            .map(|(q, c)| if c.throughput > 0.0 { q / c.throughput } else { 0.0 })
            .collect(),
        queue,
        utilization_by_class: offered.iter().map(share).collect(),
    }
}
