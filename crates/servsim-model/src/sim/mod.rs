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
mod quantiles;
pub mod server;
mod settling;
mod summary;

use std::panic::resume_unwind;
use std::thread;

use crate::error::ModelError;
use crate::network::{Class, Network};
use crate::options::Options;
use crate::solution::{ClassResult, Interval, Solution};
use crate::solvers::mixed;
use engine::{Engine, Measured};
pub use length::MOST_VISITS;
use length::{Pace, LEAST_BEYOND};
pub use plan::{Plan, Watch};
use program::Step;

/// Runs that find how long to simulate are as many times shorter than the plan.
const SHORTER: f64 = 4.0;
/// How much longer than those say: their intervals are uncertain too, and a run that misses is made once more.
const MARGIN: f64 = 2.0;
/// Share of the length that the bound on visits allows at which runs are as long as that. What is allowed depends on the
/// length, by the visits before anything is measured, and would only be neared, at a run for each step.
const NEARLY: f64 = 0.9;
/// Times the plan's length beyond which a wanted precision is given up.
const MOST_LONGER: f64 = 4096.0;

/// Simulates a network.
///
/// # Errors
/// [`ModelError::Unstable`], [`ModelError::Saturated`]; [`ModelError::Invalid`] for a run too short to see every class, and when the wanted
/// half-width is out of reach.
pub fn solve(network: &Network, options: &Options) -> Result<Solution, ModelError> {
    check(options)?;
    Simulation::new(network, &options.simulation)?.solve(options)
}

/// Refuses plans that give no answer.
fn check(options: &Options) -> Result<(), ModelError> {
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
    options.check_percentiles()
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
    /// [`ModelError::Unstable`]; [`ModelError::Invalid`] for nobody, more than [`MOST_CUSTOMERS`] and absurd visit counts; [`ModelError::Interrupted`].
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
        if network.classes.iter().all(Class::is_nobody) {
            return Err(ModelError::invalid(
                "the model has nobody to simulate: all its classes are without customers",
                "give one of them a population of at least 1",
            ));
        }
        mixed::check_stability(network)?;
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
        check(options)?;
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
        check(options)?;
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
                Err(ModelError::Invalid { .. } | ModelError::Saturated { .. }) if !reported => {
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
            if reported && is_settled && requests >= NEARLY * most {
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
        let mut solution = summary::of(self.network, &runs, &options.percentiles)
            .map_err(|fault| self.pace.unseen(self.network, plan, requests, fault))?;
        keeping_up::left_enough(self.network, &solution.classes)?;
        let settled = self.pace.settled_by(self.network, plan, requests, &runs);
        if !settled.as_ref().is_ok_and(|more| *more > requests) {
            keeping_up::keep_up(self.network, &solution.classes)?;
        }
        let (spread, note) = self.pace.spread_by(self.network, plan, requests, &runs);
        solution.notes.extend(note);
        let long = self.pace.long_by(self.network, plan, requests, &runs, &solution.classes)?;
        let tails = self.pace.tails_by(plan, requests, &solution.classes);
        if tails <= requests {
            withhold(&mut solution, requests);
        }
        Ok((settled?.max(spread).max(long).max(tails), solution))
    }

    /// Runs whose seeds no other stage has, on all processors of the host. The caller's own thread alone tells how far it
    /// is: the others are as far by then.
    fn replicate(&self, plan: &Plan, requests: f64, stage: u64) -> Result<Vec<Measured>, ModelError> {
        let (warmup, span) = self.pace.spans(plan, requests);
        let run = |number: usize, ask: &dyn Fn(f64) -> bool| {
            let run = stage * plan.replications as u64 + number as u64;
            let seed = plan
                .seed
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .wrapping_add(run.wrapping_mul(0xD1B5_4A32_D192_ED03));
            Engine::new(self.network, &self.programs, seed).run(warmup, span, ask)
        };
        let fit = (MOST_CUSTOMERS / self.network.population().max(1)).max(1);
        let threads = thread::available_parallelism().map_or(1, usize::from).min(plan.replications).min(fit);
        let own = plan.replications.div_ceil(threads) as f64;
        let quietly = |_, _| plan.is_stopped();
        let telling = |number: usize, now: f64| {
            if let Some(watch) = &plan.watch {
                let before = (number / threads) as f64;
                watch.tell(requests, (before + now / (warmup + span)) / own);
            }
            plan.is_stopped()
        };
        let share = |thread: usize, ask: &dyn Fn(usize, f64) -> bool| -> Vec<_> {
            let numbers = (thread..plan.replications).step_by(threads);
            numbers.map(|number| run(number, &|now| ask(number, now))).collect()
        };
        let shares: Vec<Vec<_>> = thread::scope(|scope| {
            let (share, quietly) = (&share, &quietly);
            let others: Vec<_> =
                (1..threads).map(|thread| scope.spawn(move || share(thread, quietly))).collect();
            let own = share(0, &telling);
            let joined =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(own).chain(joined).collect()
        });
        let mut shares: Vec<_> = shares.into_iter().map(Vec::into_iter).collect();
        (0..plan.replications).filter_map(|number| shares[number % threads].next()).collect()
    }
}

/// Customers of a simulation, of all runs that are under way at once: about 100 bytes each.
const MOST_CUSTOMERS: usize = 10_000_000;

/// Leaves out percentiles that hardly any request takes longer than, and says what would tell them.
fn withhold(solution: &mut Solution, requests: f64) {
    for class in &mut solution.classes {
        let mut kept = Vec::new();
        for (&(percent, _), &beyond) in class.percentiles.iter().zip(&class.beyond) {
            if beyond >= LEAST_BEYOND {
                kept.push(percent);
                continue;
            }
            let (name, needed) = (&class.name, requests * LEAST_BEYOND / beyond);
            solution.notes.push(format!(
                "p{percent} of `{name}` withheld: too few of {requests:.0} requests per replication take longer; simulate \
                 {needed:.1e} or more"
            ));
        }
        class.percentiles.retain(|(percent, _)| kept.contains(percent));
        class.percentile_intervals.retain(|(percent, ..)| kept.contains(percent));
    }
}

fn widest_interval(solution: &Solution) -> f64 {
    let relative = |mean: f64, interval: Option<Interval>| {
        interval.map_or(0.0, |i| (i.high - mean) / mean.max(f64::MIN_POSITIVE))
    };
    let of = |c: &ClassResult| {
        relative(c.throughput, c.throughput_interval).max(relative(c.response, c.response_interval))
    };
    solution.classes.iter().map(of).fold(0.0, f64::max)
}
