//! How long to simulate. A pilot run finds how often requests complete and how long a cycle of each class lasts;
//! from these follow the warm-up and the measured time, and what a run costs before it is begun.
//!
//! All replications begin empty, so those that end before a queue has grown agree on a figure that is wrong: their
//! interval cannot show it. Near saturation runs are lengthened, or refused.

use super::engine::Engine;
use super::program::Step;
use super::Plan;
use crate::error::ModelError;
use crate::network::{Load, Network, Speed, Station};
use crate::solvers::mixed;

/// Visits to stations, of all replications together, up to which a run is lengthened unasked: some seconds.
pub const MOST_VISITS: f64 = 2e7;
/// Relaxation times that a replication measures at least.
const RELAXATIONS: f64 = 50.0;
/// Cycles of the slowest class that a replication passes over at least.
const CYCLES: f64 = 3.0;
/// Requests of every class that a pilot run completes.
const PILOT: u64 = 10;
/// Requests, of all classes, in which a pilot run has to see each: about a second of simulating.
const MOST_PILOT: u64 = 300_000;
/// Doublings of a pilot run before a class is taken for one that never completes.
const MOST_DOUBLINGS: usize = 24;

/// How quickly a model goes.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests completed per second, all classes.
    pub rate: f64,
    /// Thinking and response of the slowest closed class, seconds.
    cycle: f64,
    /// Visits of a request, of the class with most.
    visits: f64,
}

impl Pace {
    /// Runs a pilot.
    ///
    /// # Errors
    /// [`ModelError::Interrupted`]; [`ModelError::Invalid`] for a class that others hardly let through.
    pub fn of(network: &Network, programs: &[Vec<Step>], plan: &Plan) -> Result<Self, ModelError> {
        let mut span = 100.0 / rough_throughput(network);
        let mut pilot =
            Engine::new(network, programs, !plan.seed).run(0.0, span, || plan.is_interrupted())?;
        for _ in 0..MOST_DOUBLINGS {
            let seldom =
                |&c: &usize| !network.classes[c].is_nobody() && pilot.completed[c] + pilot.lost[c] < PILOT;
            let Some(slow) = (0..network.classes.len()).find(seldom) else { break };
            let all: u64 = pilot.completed.iter().sum();
            if all >= MOST_PILOT {
                return Err(ModelError::invalid(
                    format!(
                        "class `{}` completes {} of {all} requests: the others hardly let it through, and a \
                         simulation that sees enough of it would take too long",
                        network.classes[slow].name, pilot.completed[slow]
                    ),
                    "lower the load of the classes served before it",
                ));
            }
            span *= 2.0;
            pilot = Engine::new(network, programs, !plan.seed).run(0.0, span, || plan.is_interrupted())?;
        }
        let cycle = |c: usize| match network.classes[c].load {
            Load::Open { .. } => network.total_demand(c),
            Load::Closed { population, think } => {
                let people = population as f64;
                let bottleneck = |s: &Station| s.demands[c] / s.speed.limit() * people;
                let waits = network.stations.iter().map(bottleneck).fold(0.0, f64::max);
                let seen = people * span / pilot.completed[c].max(1) as f64;
                seen.max(think + network.total_demand(c).max(waits))
            }
        };
        let classes = 0..network.classes.len();
        let visits = |c: usize| network.stations.iter().map(|s| s.visits[c]).sum::<f64>();
        Ok(Self {
            rate: pilot.completed.iter().sum::<u64>().max(1) as f64 / span,
            cycle: classes.clone().map(cycle).fold(0.0, f64::max),
            visits: classes.map(visits).fold(1.0, f64::max),
        })
    }

    /// Warm-up and measured time of a replication, seconds.
    pub fn spans(&self, plan: &Plan, requests: f64) -> (f64, f64) {
        let span = requests / self.rate;
        ((plan.warmup * span).max(CYCLES * self.cycle), span)
    }

    /// About how many visits to stations all replications together simulate.
    pub fn effort(&self, plan: &Plan, requests: f64) -> f64 {
        let (warmup, span) = self.spans(plan, requests);
        (warmup + span) * self.rate * self.visits * plan.replications as f64
    }

    /// Requests per replication: the plan's, or more where an open station would not settle in them.
    ///
    /// The time in which a single server forgets how it began is the mean service time over
    /// `(1 - sqrt(utilisation))^2` (Cohen, The Single Server Queue, 1982).
    ///
    /// # Errors
    /// [`ModelError::Invalid`] when that many would take longer than [`MOST_VISITS`], and were not asked for.
    pub fn settled(&self, network: &Network, plan: &Plan) -> Result<f64, ModelError> {
        let of = |station: &Station| {
            let busy = mixed::offered(network, station) / station.speed.limit();
            let visit = station.demands.iter().zip(&station.visits).map(|(d, v)| d / v).fold(0.0, f64::max);
            let general = station.laws.iter().map(|law| 0.5 * (1.0 + law.square_cv())).fold(1.0, f64::max);
            general * visit / station.speed.limit() / (1.0 - busy.sqrt()).powi(2)
        };
        if network.stations.iter().any(|s| s.room.is_some()) {
            return Ok(plan.requests);
        }
        let open =
            network.stations.iter().filter(|s| s.speed != Speed::Delay && mixed::offered(network, s) > 0.0);
        let Some((station, time)) = open.map(|s| (s, of(s))).max_by(|a, b| a.1.total_cmp(&b.1)) else {
            return Ok(plan.requests);
        };
        let needed = RELAXATIONS * time * self.rate;
        if needed <= plan.requests {
            return Ok(plan.requests);
        }
        if self.effort(plan, needed) > MOST_VISITS {
            return Err(ModelError::invalid(
                format!(
                    "station `{}` is so near saturation that {:.0} requests per replication would end before its queue has grown",
                    station.name, plan.requests
                ),
                format!("simulate {needed:.1e} or more, or lower the load"),
            ));
        }
        Ok(needed)
    }
}

/// Asymptotic estimate of requests per second of all classes; only sets the length of the pilot run.
fn rough_throughput(network: &Network) -> f64 {
    let of = |c: usize| match network.classes[c].load {
        Load::Open { rate } => rate,
        Load::Closed { population, think } => {
            let free = population as f64 / (think + network.total_demand(c)).max(f64::MIN_POSITIVE);
            let limit = |s: &Station| s.speed.limit() / s.demands[c].max(f64::MIN_POSITIVE);
            network.stations.iter().map(limit).fold(free, f64::min)
        }
    };
    (0..network.classes.len()).map(of).sum()
}
