//! How long to simulate. A pilot run finds how often requests complete and how long a cycle of each class lasts;
//! from these follow the warm-up and the measured time, and what a run costs before it is begun.
//!
//! All replications begin empty, so those that end before a queue has grown agree on a figure that is wrong: their
//! interval cannot show it. Near saturation runs are lengthened, or refused.

use super::engine::{Engine, Measured};
use super::program::Step;
use super::{settling, Plan};
use crate::error::ModelError;
use crate::network::{Load, Network, Station};
use crate::solution::ClassResult;

/// Visits to stations, of all replications together, up to which a run is lengthened unasked: some seconds.
pub const MOST_VISITS: f64 = 2e7;
/// Relaxation times that a replication measures where so many can be had.
const RELAXATIONS: f64 = 50.0;
/// As many are enough: a further look has its price.
const FEWEST_RELAXATIONS: f64 = 20.0;
/// Share of [`MOST_VISITS`] by which a model is told that is far from settled.
const SURE: f64 = 0.25;
/// Times [`MOST_VISITS`] that such a share may find necessary by chance.
const PERHAPS: f64 = 3.0;
/// Cycles of the slowest class that a replication passes over at least.
const CYCLES: f64 = 3.0;
/// Requests of every class that a replication completes at least, about: it has no mean without any.
const EACH: f64 = 20.0;
/// Long services of each class at each station that a run is to see, about, where so many can be had; [`EACH`] are the fewest.
/// Beside the wait of an open class that hardly ever waits, 95 % intervals held it in 89 to 92 of 100 with these, and in 91 to
/// 98 with those (coefficients of variation of 3 to 30).
const MANY: f64 = 80.0;
/// How near to enough is: the longer runs are, the more of what they see is long, and another look has its price.
const CLOSE: f64 = 1.5;
/// Requests of a run, as if each came alone, that take longer than a percentile where so many can be had, and as few as are
/// enough: a further look has its price. With one and a half, 95 % intervals held p99 in 85 of 100, with four in 94.
const MANY_BEYOND: f64 = 12.0;
const FEW_BEYOND: f64 = 5.0;
/// Fewest of which a percentile is told.
pub const LEAST_BEYOND: f64 = 1.5;
/// Share of a response time that waiting behind services of one class at one station has to make for these to be looked at.
const MATTERS: f64 = 0.005;
/// Requests of every class that a pilot run completes.
const PILOT: u64 = 10;
/// Requests, of all classes and with those that are lost, in which a pilot run has to see each complete: about a second of
/// simulating.
const MOST_PILOT: u64 = 300_000;
/// Doublings of a pilot run before a class is taken for one that never completes.
const MOST_DOUBLINGS: usize = 24;

/// How quickly a model goes.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests completed per second, all classes.
    pub rate: f64,
    /// Requests completed, of all classes, for one of the class that completes most seldom.
    for_one: f64,
    /// Thinking and response of the slowest closed class, seconds.
    cycle: f64,
    /// Visits of a request, of the class with most, and requests that are lost meanwhile: about what one costs.
    visits: f64,
    /// Class and station whose services are seldom long, and requests completed, of all classes, for one that is.
    long: Option<(usize, usize, f64)>,
}

impl Pace {
    /// Runs a pilot.
    ///
    /// # Errors
    /// [`ModelError::Interrupted`]; [`ModelError::Saturated`] for a class that others hardly let through, or that
    /// finds no room; [`ModelError::Invalid`] for one that comes too seldom.
    pub fn of(network: &Network, programs: &[Vec<Step>], plan: &Plan) -> Result<Self, ModelError> {
        let run = |span| Engine::new(network, programs, !plan.seed).run(0.0, span, |_| plan.is_stopped());
        let mut span = 100.0 / rough_throughput(network);
        let mut pilot = run(span)?;
        let present: Vec<usize> =
            (0..network.classes.len()).filter(|&c| !network.classes[c].is_nobody()).collect();
        for _ in 0..MOST_DOUBLINGS {
            let Some(&slow) = present.iter().find(|&&c| pilot.completed[c] < PILOT) else { break };
            let all: u64 = pilot.completed.iter().chain(&pilot.lost).sum();
            if all >= MOST_PILOT {
                let fault = |why: &str| {
                    format!(
                        "class `{}` completes {} of {all} requests: {why}, and a simulation that sees enough of it \
                         would take too long",
                        network.classes[slow].name, pilot.completed[slow]
                    )
                };
                return Err(if pilot.completed[slow] + pilot.lost[slow] >= PILOT {
                    let remedy = "lower its rate, or give it more room";
                    ModelError::saturated(fault("the others find no room"), remedy)
                } else if alone(network, slow) * span < PILOT as f64 {
                    let remedy = "raise its rate or its population, or leave it out";
                    ModelError::invalid(fault("it comes too seldom"), remedy)
                } else {
                    let remedy = "lower the load of the classes served before it";
                    ModelError::saturated(fault("the others hardly let it through"), remedy)
                });
            }
            span *= 2.0;
            pilot = run(span)?;
        }
        let all = pilot.completed.iter().sum::<u64>().max(1) as f64;
        let fewest = present.iter().map(|&c| pilot.completed[c]).min().unwrap_or(1).max(1);
        let cycle = |c: usize| match network.classes[c].load {
            Load::Open { .. } => network.total_demand(c),
            Load::Closed { population, think } => {
                let people = population as f64;
                let bottleneck = |s: &Station| s.demands[c] / s.speed.limit() * people;
                let waits = network.stations.iter().map(bottleneck).fold(0.0, f64::max);
                let lasted = people * span / pilot.completed[c].max(1) as f64;
                lasted.max(think + network.total_demand(c).max(waits))
            }
        };
        let classes = 0..network.classes.len();
        let visits = |c: usize| network.stations.iter().map(|s| s.visits[c]).sum::<f64>();
        let lost = pilot.lost.iter().sum::<u64>() as f64 / all;
        let seen: Vec<_> = (pilot.completed.iter().zip(&pilot.response))
            .map(|(&n, total)| (n as f64 / span, total / n.max(1) as f64))
            .collect();
        let of_all = |class: usize| all / pilot.completed[class].max(1) as f64;
        let long = seldom(network, &seen);
        Ok(Self {
            long: long.map(|(class, station, needed)| (class, station, needed * of_all(class))),
            rate: all / span,
            for_one: all / fewest as f64,
            cycle: classes.clone().map(cycle).fold(0.0, f64::max),
            visits: classes.map(visits).fold(1.0, f64::max) + lost,
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

    /// The fewest requests per replication in which a model settles that takes so many seconds to forget how it began,
    /// and how many are simulated where that can be had.
    fn length_for(&self, time: f64) -> (f64, f64) {
        let requests = time * self.rate;
        (FEWEST_RELAXATIONS * requests, RELAXATIONS * requests)
    }

    /// About how many requests per replication take [`MOST_VISITS`], beside a warm-up that closed classes may need longer.
    fn most(&self, plan: &Plan) -> f64 {
        MOST_VISITS / (self.visits * plan.replications as f64 * (1.0 + plan.warmup))
    }

    /// Requests per replication: the plan's, or more where an open station would not settle in them, or a class would
    /// hardly be seen.
    ///
    /// # Errors
    /// [`ModelError::Saturated`] when that many would take longer than [`MOST_VISITS`], and were not asked for;
    /// [`ModelError::Invalid`] when a class would hardly be seen in as many.
    pub fn settled(&self, network: &Network, plan: &Plan) -> Result<f64, ModelError> {
        let seeing = EACH * self.for_one;
        let requests = plan.requests;
        let most = self.most(plan);
        if seeing > requests.max(most) {
            let fault = format!(
                "of {:.0} requests one is of the class that completes most seldom, and {requests:.0} requests per replication would hardly see it",
                self.for_one
            );
            return Err(ModelError::invalid(fault, longer(seeing, "leave that class out")));
        }
        // What a pilot says of long services is not enough for a refusal.
        let requests =
            requests.max(seeing).max(self.long.map_or(0.0, |(_, _, for_one)| (MANY * for_one).min(most)));
        let Some((station, time)) = settling::of_open_load(network) else { return Ok(requests) };
        let (fewest, enough) = self.length_for(time);
        if fewest > requests.max(most) {
            let who = format!("station `{}`", station.name);
            return Err(near_saturation(&who, requests, fewest));
        }
        Ok(requests.max(enough.min(most)))
    }

    /// Requests per replication: as many as were simulated, or more where these were seen to be too few for an open class
    /// to settle.
    ///
    /// # Errors
    /// As [`Pace::settled`].
    pub fn settled_by(
        &self,
        network: &Network,
        plan: &Plan,
        simulated: f64,
        runs: &[Measured],
    ) -> Result<f64, ModelError> {
        let classes = network.open();
        let Some((at, time)) = settling::as_seen(runs, &classes) else { return Ok(simulated) };
        let (fewest, enough) = self.length_for(time);
        let most = self.most(plan);
        if fewest <= simulated {
            Ok(simulated)
        } else if fewest <= most {
            Ok(enough.min(most))
        } else if simulated < SURE * most {
            // What short runs say of a slow queue is not enough for a refusal.
            Ok(SURE * most)
        } else if simulated < most && fewest < PERHAPS * most {
            Ok(most)
        } else {
            let who = format!("class `{}`", network.classes[classes[at]].name);
            Err(near_saturation(&who, simulated, enough))
        }
    }

    /// Requests per replication: as many as were simulated, or more where services vary so much that few of the long ones
    /// were among them.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] when that many would take longer than [`MOST_VISITS`], and were not asked for.
    pub fn long_by(
        &self,
        network: &Network,
        plan: &Plan,
        simulated: f64,
        runs: &[Measured],
        found: &[ClassResult],
    ) -> Result<f64, ModelError> {
        let seen: Vec<_> = found.iter().map(|class| (class.throughput, class.response)).collect();
        let Some((class, station, needed)) = seldom(network, &seen) else { return Ok(simulated) };
        let completed: u64 = runs.iter().map(|run| run.completed[class]).sum();
        let for_one = simulated * needed * runs.len() as f64 / completed as f64;
        let (fewest, enough, most) = (EACH * for_one, MANY * for_one, self.most(plan));
        if fewest <= simulated && enough.min(most) <= simulated * CLOSE {
            Ok(simulated)
        } else if fewest <= most.max(simulated) {
            Ok(enough.min(most))
        } else {
            Err(seldom_long(network, class, station, simulated, enough))
        }
    }

    /// Why runs in which a class completed nothing gave no answer: `fault`, or that one long service can last for all of them.
    pub fn unseen(&self, network: &Network, plan: &Plan, simulated: f64, fault: ModelError) -> ModelError {
        match (&fault, self.long) {
            (ModelError::Invalid { .. }, Some((class, station, for_one)))
                if MANY * for_one > self.most(plan) =>
            {
                seldom_long(network, class, station, simulated, MANY * for_one)
            }
            _ => fault,
        }
    }

    /// Requests per replication: as many as were simulated, or more where few of a run take longer than a percentile.
    pub fn tails_by(&self, plan: &Plan, simulated: f64, found: &[ClassResult]) -> f64 {
        let most = self.most(plan).max(simulated);
        // What cannot be told in any case is not simulated for.
        let told = |beyond: &f64| *beyond < FEW_BEYOND && simulated * LEAST_BEYOND / beyond <= most;
        let fewest = found.iter().flat_map(|class| &class.beyond).copied().filter(told);
        (simulated * MANY_BEYOND / fewest.fold(MANY_BEYOND, f64::min)).min(most)
    }

    /// Requests per replication: as many as were simulated, or more where closed classes were seen to need them to spread
    /// over the stations; beyond a share of [`MOST_VISITS`], as throughput and response do not depend on it, a note.
    pub fn spread_by(
        &self,
        network: &Network,
        plan: &Plan,
        simulated: f64,
        runs: &[Measured],
    ) -> (f64, Option<String>) {
        if network.closed().is_empty() {
            return (simulated, None);
        }
        let classes = network.classes.len();
        let stations: Vec<usize> = (0..network.stations.len()).map(|k| classes + k).collect();
        let Some((at, time)) = settling::as_seen(runs, &stations) else { return (simulated, None) };
        let (fewest, enough) = self.length_for(time);
        let most = SURE * self.most(plan);
        if fewest <= simulated {
            (simulated, None)
        } else if simulated < most {
            (enough.min(most), None)
        } else {
            let note = format!(
                "how many are at station `{}` changes so slowly that {simulated:.0} requests per replication hardly tell: \
                 simulated figures of stations, and percentiles, may be off by more than an interval says; ask for more",
                network.stations[at].name
            );
            (simulated, Some(note))
        }
    }
}

/// The class and station whose services need most requests of their class for one that is much longer than others, and how
/// many; `seen` has throughput and response time of each class.
///
/// Of services of a squared coefficient of variation `c` long ones are about one in `1 + c`, and of requests that visit a
/// station with probability `v` as many of those at all: runs that saw none agree on a figure that is wrong, and their interval
/// cannot show it.
fn seldom(network: &Network, seen: &[(f64, f64)]) -> Option<(usize, usize, f64)> {
    let pairs = (0..seen.len()).flat_map(|c| (0..network.stations.len()).map(move |k| (c, k)));
    let found = pairs.filter_map(|(c, k)| {
        let station = &network.stations[k];
        let (demand, visits, square) = (station.demands[c], station.visits[c], station.law(c).square_cv());
        let for_one = (1.0 + square) / visits;
        if demand <= 0.0 || for_one <= 2.0 {
            return None;
        }
        // What is left of the service under way when somebody comes, times the chance that there is one.
        let left = seen[c].0 * demand * demand / visits * (1.0 + square) / 2.0;
        let matters = |(class, (_, response)): (usize, &(f64, f64))| {
            station.demands[class] > 0.0 && left > MATTERS * response
        };
        seen.iter().enumerate().any(matters).then_some((c, k, for_one))
    });
    found.max_by(|a, b| (a.2 / seen[a.0].0).total_cmp(&(b.2 / seen[b.0].0)))
}

fn seldom_long(network: &Network, class: usize, station: usize, requests: f64, needed: f64) -> ModelError {
    let place = &network.stations[station];
    let fault = format!(
        "services of class `{}` at station `{}` are so seldom long ({} visits a request, cv {:.3}) that {requests:.0} requests \
         per replication hardly see such, and would agree on figures that are wrong",
        network.classes[class].name,
        place.name,
        place.visits[class],
        place.law(class).square_cv().sqrt()
    );
    ModelError::invalid(fault, longer(needed, "ask for bounds"))
}

fn near_saturation(who: &str, requests: f64, needed: f64) -> ModelError {
    let fault = format!(
        "{who} is so near saturation that {requests:.0} requests per replication would end before its queue has grown"
    );
    ModelError::saturated(fault, longer(needed, "lower the load"))
}

/// What may be done about runs that are too short.
fn longer(needed: f64, otherwise: &str) -> String {
    if needed.is_finite() {
        format!("simulate {needed:.1e} or more, or {otherwise}")
    } else {
        otherwise.to_string()
    }
}

/// Asymptotic estimate of requests per second of all classes; only sets the length of the pilot run.
fn rough_throughput(network: &Network) -> f64 {
    (0..network.classes.len()).map(|c| alone(network, c)).sum()
}

/// Requests per second that a class would complete at most if there were no other.
fn alone(network: &Network, class: usize) -> f64 {
    match network.classes[class].load {
        Load::Open { rate } => rate,
        Load::Closed { population, think } => {
            let free = population as f64 / (think + network.total_demand(class)).max(f64::MIN_POSITIVE);
            let limit = |s: &Station| s.speed.limit() / s.demands[class].max(f64::MIN_POSITIVE);
            network.stations.iter().map(limit).fold(free, f64::min)
        }
    }
}
